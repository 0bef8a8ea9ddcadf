//! What a machine runs out of: memory, descriptors, time to run.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::net::TcpStream;

use crate::case::{Case, until};
use crate::evidence::Outcome;
use crate::rig::host;
use crate::rig::server::Options;

/// F-31: all sandboxes of a machine together want more memory than there is. The
/// tree that they all hang in gets a bound, so that no other program of this
/// machine is in danger.
pub(crate) async fn memory(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let ids = [client.make().await?, client.make().await?, client.make().await?];
    let tree = PathBuf::from("/sys/fs/cgroup/memory").join(host::groups_of(&case.server()?.state));
    let limit = tree.join("memory.limit_in_bytes");
    ensure!(limit.exists(), "there is no memory controller at {}", tree.display());
    // A group on top counts what is below only where that was said before.
    let whole = std::fs::read_to_string(tree.join("memory.use_hierarchy")).unwrap_or_default();
    ensure!(whole.trim() == "1", "this kernel does not bound trees of groups");
    std::fs::write(&limit, (400_u64 << 20).to_string()).context("cannot bound the tree")?;
    let mut calls = Vec::new();
    for id in &ids {
        let (client, id) = (client.clone(), id.clone());
        let script = "python3 -c 'import time\nx=bytearray(300<<20)\nfor i in range(0,len(x),4096): \
                      x[i]=1\ntime.sleep(2)'";
        calls.push(tokio::spawn(async move { client.call(&id, script).await }));
    }
    let mut said = Vec::new();
    for call in calls {
        let (outcome, value) = call.await?;
        let reason = value["end"]["reason"].as_str().unwrap_or("-").to_owned();
        said.push(match outcome {
            Outcome::Done => reason,
            Outcome::Refused { code, .. } => code,
            other => anyhow::bail!("{other:?}"),
        });
    }
    ensure!(said.iter().any(|said| said != "done"), "there was enough for all: {said:?}");
    let daemon = case.server()?.pid();
    ensure!(host::start_of(daemon).is_some(), "the daemon was killed");
    for id in &ids {
        client.delete(id).await;
    }
    std::fs::write(&limit, "-1").context("cannot take the bound away")?;
    case.heal(&client).await?;
    Ok(format!("three wanted 300 MiB each of 400: {said:?}"))
}

/// F-33: the daemon runs out of descriptors, because of clients that say nothing.
pub(crate) async fn descriptors(case: &mut Case) -> anyhow::Result<String> {
    let through = ["prlimit", "--nofile=160:"].map(str::to_owned).into();
    let client = case.serve(Options { through, ..Options::default() }).await?;
    let id = client.make().await?;
    let pid = case.server()?.pid();
    let before = Case::settled(pid).await;
    let mut silent = Vec::new();
    for _ in 0..220 {
        silent.push(TcpStream::connect(client.address).await?);
    }
    // Those that say nothing are sent away, and then there is room.
    until("descriptors are exhausted", async || host::descriptors(pid) >= 150).await?;
    let outcome = client.within(Duration::from_secs(40)).call(&id, "echo hello").await.0;
    drop(silent);
    case.heal(&client).await?;
    let after = Case::settled(pid).await;
    case.compare(before, after, 20 << 10);
    Ok(format!("220 silent clients at 160 descriptors; a call: {outcome:?}"))
}
