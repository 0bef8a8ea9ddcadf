//! A process of the rig: started, frozen, killed, started again.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use super::host;
use super::record::{Kind, Record};

#[derive(Debug)]
pub(crate) struct Program {
    words: Vec<String>,
    log: PathBuf,
    record: Arc<Record>,
    child: Option<Child>,
}

impl Program {
    /// A command line that is not yet started; with `namespace`, in that network.
    pub(crate) fn new(
        record: &Arc<Record>,
        log: PathBuf,
        namespace: Option<&str>,
        words: Vec<String>,
    ) -> Self {
        // Whatever becomes of us, it ends with us.
        let mut all: Vec<String> = ["setpriv", "--pdeathsig=KILL", "--"].map(str::to_owned).into();
        if let Some(namespace) = namespace {
            // Not `ip netns exec`, which also mounts a new /sys over the cgroups.
            all.extend(["nsenter".to_owned(), format!("--net=/run/netns/{namespace}")]);
        }
        all.extend(words);
        Self { words: all, log, record: record.clone(), child: None }
    }

    pub(crate) fn start(&mut self, variables: &[(&str, &str)]) -> anyhow::Result<()> {
        ensure!(!self.is_alive(), "it runs already");
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {:?}", self.words))?;
        let start = host::start_of(child.id()).unwrap_or_default();
        self.child = Some(child);
        self.record.note(Kind::Process, &format!("{} {start}", self.pid()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if self.child.is_some() {
            host::signal(self.pid(), signal);
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            host::signal(child.id(), Signal::CONT);
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        let began = Instant::now();
        loop {
            let child = self.child.as_mut().context("it was not started")?;
            if let Some(status) = child.try_wait()? {
                self.child = None;
                return Ok(status);
            }
            ensure!(began.elapsed() < within, "it did not end within {within:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The last lines that it said, for whoever wonders why it failed.
    pub(crate) fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
