//! The server that is measured: one that runs, or one of our own.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::cli::BenchTti;
use crate::config::Config;
use crate::output::Printer;

/// Only seen by the server that this benchmark starts, on loopback.
const KEY: &str = "e2b_00000000000000000000000000000000000000aa";

#[derive(Debug)]
pub(in crate::commands::bench) struct Served {
    pub(in crate::commands::bench) address: String,
    pub(in crate::commands::bench) key: String,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    child: Child,
    _dir: tempfile::TempDir,
}

/// What waits is filled up again between two measurements.
const SETTLE: Duration = Duration::from_secs(5);

impl Served {
    pub(in crate::commands::bench) async fn find_or_start(
        options: &BenchTti,
        config: &Config,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        if let Some(address) = &options.address {
            let key = options.key.clone().context("--key is needed with --address")?;
            return Ok(Self { address: address.clone(), key, own: None });
        }
        Self::start(options.pool, None, config, printer).await
    }

    /// Starts one with a pool of this size, and with the operations of this file.
    pub(in crate::commands::bench) async fn start(
        pool: usize,
        gateway: Option<&Path>,
        config: &Config,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("cannot create a directory")?;
        let keys = dir.path().join("keys");
        std::fs::write(&keys, format!("{KEY} bench\n"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--max-sandboxes", "10000"]);
        command.arg("--pool").arg(pool.to_string());
        command.arg("--keys").arg(keys).arg("--data").arg(dir.path().join("data"));
        command.arg("--store").arg(&config.store);
        if let Some(gateway) = gateway {
            command.arg("--gateway").arg(gateway);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the server")?;
        let stderr = child.stderr.take().context("the server has no standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut address = None;
        let begin = Instant::now();
        loop {
            let line = tokio::time::timeout(Duration::from_secs(120), lines.next_line()).await;
            let Some(line) = line.context("the server does not become ready")?? else {
                bail!("the server ended at once");
            };
            if let Some(found) = line.strip_prefix("listening on http://") {
                address = Some(found.to_owned());
            }
            if line.starts_with("ready") || line.starts_with("no warm template") {
                break;
            }
        }
        // Its log is read and forgotten, so that it never waits for us.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        printer.note(format_args!("server ready after {:.1} s", begin.elapsed().as_secs_f64()));
        let address = address.context("the server did not print its address")?;
        let served = Self { address, key: KEY.to_owned(), own: Some(Own { child, _dir: dir }) };
        served.settle().await;
        Ok(served)
    }

    pub(in crate::commands::bench) async fn settle(&self) {
        tokio::time::sleep(SETTLE).await;
    }

    pub(in crate::commands::bench) async fn stop(self) -> anyhow::Result<()> {
        let Some(mut own) = self.own else { return Ok(()) };
        let pid = own.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        own.child.wait().await.context("the server does not end")?;
        Ok(())
    }
}
