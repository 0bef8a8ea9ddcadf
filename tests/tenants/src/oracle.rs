//! What is looked at after every case: secrets in logs and in the database, and memory that the
//! server, control or a gateway has kept.
//!
//! Secrets are the keys that clients send, what the parts of a platform know each other by, and
//! every token that was answered.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use belljar_testkit::{CapturedLog, Postgres, Resident};
use serde_json::Value;
use tracing::info;

static SECRETS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn secrets() -> MutexGuard<'static, BTreeSet<String>> {
    SECRETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is shorter is no secret, and could be part of anything.
const SHORTEST: usize = 20;

/// From now on this must be in no log and no database.
pub(crate) fn keep_secret(secret: &str) {
    if secret.len() >= SHORTEST && secret.is_ascii() {
        secrets().insert(secret.to_owned());
    }
}

/// Keeps the tokens of an answer secret.
pub(crate) fn note_answer(body: &[u8]) {
    fn walk(value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(walk),
            Value::Object(fields) => {
                for (name, value) in fields {
                    // Of pages of a list, too: those are no secrets.
                    let is_token = name.to_lowercase().ends_with("token") && name != "nextToken";
                    match value.as_str().filter(|_| is_token) {
                        Some(token) => keep_secret(token),
                        None => walk(value),
                    }
                }
            }
            _ => {}
        }
    }
    if let Ok(value) = serde_json::from_slice(body) {
        walk(&value);
    }
}

/// Which secrets are in a text, as they are or in hexadecimal digits.
fn found_in(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let is_there = |secret: &&String| {
        let hex = secret.bytes().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        text.contains(secret.as_str()) || text.contains(&hex)
    };
    secrets().iter().filter(is_there).map(|secret| format!("{}…", &secret[..12])).collect()
}

/// Looks at this process, which is the server, or control and a node.
#[derive(Debug)]
pub(crate) struct Oracle {
    log: CapturedLog,
}

impl Oracle {
    /// Hears every log from now on, and shows that it would find what it looks for.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let oracle = Self { log: CapturedLog::install()? };
        let planted = "planted-secret-in-a-log";
        keep_secret(planted);
        info!(target: "belljar_tenants", key = planted, "planted");
        ensure!(oracle.look().is_err(), "a secret in a log is not found");
        info!(target: "belljar_tenants", "nothing");
        oracle.look().context("where there is nothing")?;
        secrets().remove(planted);
        Resident::of_this().prove()?;
        Ok(oracle)
    }

    /// Fails if a secret was logged since the last time.
    pub(crate) fn look(&self) -> anyhow::Result<()> {
        let log = self.log.take();
        let found = found_in(log.as_bytes());
        let has = |line: &&str| !found_in(line.as_bytes()).is_empty();
        let first = log.lines().find(has).unwrap_or_default();
        ensure!(found.is_empty(), "secrets are in the log: {}; {first}", found.join(", "));
        Ok(())
    }
}

/// Fails if a secret is in the database; `planted` shows that one would be found.
pub(crate) fn look_into(postgres: &Postgres) -> anyhow::Result<()> {
    let found = found_in(&postgres.dump()?);
    ensure!(found.is_empty(), "secrets are in the database: {}", found.join(", "));
    let planted = "planted-secret-in-a-row";
    let hex = "706c616e7465642d7365637265742d696e2d612d726f77";
    for value in [format!("'{planted}'::text"), format!("'\\x{hex}'::bytea")] {
        keep_secret(planted);
        postgres.run(&format!("create table planted as select {value} as secret"))?;
        let found = found_in(&postgres.dump()?);
        postgres.run("drop table planted")?;
        secrets().remove(planted);
        ensure!(!found.is_empty(), "a secret in a row is not found: {value}");
    }
    Ok(())
}

/// Fails if this process or a gateway has grown since `resident` was taken.
pub(crate) async fn look_at(resident: &mut Resident) -> anyhow::Result<()> {
    let grown = resident.grown(tokio::time::sleep).await;
    ensure!(grown.is_empty(), "{}", grown.join("; "));
    Ok(())
}
