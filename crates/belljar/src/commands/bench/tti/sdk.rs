//! The same, with E2B's own Python SDK.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use tokio::process::Command;

use super::server::Served;
use super::{Iteration, Mode, Outcome, STAGGER};
use crate::cli::BenchTti;

const SCRIPT: &str = include_str!("sdk.py");

#[derive(Debug, Deserialize)]
struct Said {
    version: String,
    wall_ms: f64,
    iterations: Vec<SaidOne>,
}

#[derive(Debug, Deserialize)]
struct SaidOne {
    tti_ms: f64,
    error: Option<String>,
}

pub(super) async fn measure(
    python: &Path,
    served: &Served,
    mode: Mode,
    options: &BenchTti,
) -> anyhow::Result<Outcome> {
    let url = format!("http://{}", served.address);
    let output = Command::new(python)
        .args(["-c", SCRIPT, mode.name(), &options.count.to_string(), &options.template])
        .arg(STAGGER.as_secs_f64().to_string())
        .env("E2B_API_URL", &url)
        .env("E2B_SANDBOX_URL", &url)
        .env("E2B_API_KEY", &served.key)
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot start Python")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the SDK's client failed: {stderr}");
    let said: Said = serde_json::from_slice(&output.stdout).context("Python printed no JSON")?;
    let iterations = said.iterations.into_iter();
    let iterations = iterations.map(|one| Iteration { tti_ms: one.tti_ms, error: one.error });
    let name = format!("belljar (e2b {})", said.version);
    let wall = Duration::from_secs_f64(said.wall_ms / 1e3);
    Ok(Outcome::new(&name, mode, options.count, wall, iterations.collect()))
}
