//! One process of the platform, with its log in a file.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use super::home::Home;
use crate::output::{Hint as _, hinted};

/// Of the log of one that died.
const LAST_LINES: usize = 12;

#[derive(Debug)]
pub(in crate::commands) struct Child {
    name: String,
    child: tokio::process::Child,
    log: PathBuf,
    /// How it is told to end.
    signal: Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Ending {
    Itself,
    Killed,
}

impl Child {
    pub(in crate::commands) fn start(
        name: &str,
        command: Command,
        home: &Home,
    ) -> anyhow::Result<Self> {
        let log = home.path("logs").join(format!("{name}.log"));
        let file = File::create(&log);
        Self::start_with(name, command, file, log)
    }

    /// Starts one that died again, under the same name; its log goes on.
    pub(in crate::commands) fn start_again(&mut self, command: Command) -> anyhow::Result<()> {
        let file = File::options().append(true).open(&self.log);
        *self = Self::start_with(&self.name, command, file, self.log.clone())?;
        Ok(())
    }

    fn start_with(
        name: &str,
        mut command: Command,
        file: std::io::Result<File>,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let file = file.with_context(|| format!("cannot write `{}`", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn();
        let child = child
            .with_context(|| format!("cannot start {name}"))
            .hint("check that `setpriv` is installed (package util-linux)")?;
        Ok(Self { name: name.to_owned(), child, log, signal: Signal::TERM })
    }

    /// The same one, told to end by another signal.
    pub(in crate::commands) fn ended_by(self, signal: Signal) -> Self {
        Self { signal, ..self }
    }

    pub(in crate::commands) fn name(&self) -> &str {
        &self.name
    }

    /// Until it has ended.
    pub(in crate::commands) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(in crate::commands) fn log(&self) -> &Path {
        &self.log
    }

    /// The status of one that has died.
    pub(in crate::commands) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub(in crate::commands) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// An error if it is dead, with the end of its log.
    pub(in crate::commands) fn look(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(self.died(status)),
            _ => Ok(()),
        }
    }

    fn died(&self, status: ExitStatus) -> anyhow::Error {
        let last = last_lines(&self.log);
        let error = anyhow::anyhow!("{} died ({status})", self.name);
        let error =
            if last.is_empty() { error } else { anyhow::anyhow!(last).context(error.to_string()) };
        hinted(error, format!("its whole log is in `{}`", self.log.display()))
    }

    pub(in crate::commands) async fn end(&mut self, grace: Duration) -> Ending {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid.filter(|_| !grace.is_zero()) {
            let _ = kill_process(pid, self.signal);
        }
        if tokio::time::timeout(grace, self.child.wait()).await.is_ok() {
            return Ending::Itself;
        }
        let _ = self.child.kill().await;
        Ending::Killed
    }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        std::fs::write(file.path(), lines.join("\n")).unwrap();
        let last = last_lines(file.path());
        assert!(last.starts_with("88\n") && last.ends_with("99"), "{last}");
        assert_eq!(last_lines(Path::new("/nowhere")), "");
    }
}
