//! Siblings share a hash seed, so zygotes are replaced; the next has another.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::relation::{Maker, Relation};
use crate::report::Outcome;
use crate::session::Session;

/// How long a replacement may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn after_replacement(maker: &Maker) -> anyhow::Result<Outcome> {
    let first = maker.first(Relation::Siblings).await?;
    let before = seed(&first).await?;
    first.sandbox.destroy().await?;
    for zygote in belljar_warmed::zygotes() {
        let killed = Command::new("/bin/kill").args(["-9", &zygote.to_string()]).status();
        ensure!(killed.context("cannot run kill")?.success(), "cannot end zygote {zygote}");
    }
    // The first one that asks finds out; somebody later gets the new one.
    let begin = Instant::now();
    loop {
        if let Ok(session) = maker.first(Relation::Siblings).await {
            let after = seed(&session).await?;
            session.sandbox.destroy().await?;
            return Ok(if before == after {
                Outcome::Bleed(format!("the next zygote has the hash seed of the last: {after}"))
            } else {
                Outcome::Clean
            });
        }
        ensure!(begin.elapsed() < PATIENCE, "no zygote took over");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn seed(session: &Session) -> anyhow::Result<String> {
    let probes = session.catalogue().await?;
    let probe = probes.iter().find(|probe| probe.name == "random/hash_seed");
    session.draw(probe.context("there is no such probe")?, false).await
}
