//! Stopping a sandbox where it stands: for its owner, or while a copy is made.
//!
//! The reasons to stand still are counted; what stops the processes is told whenever the
//! count comes from zero or back to it. A cgroup is frozen by one write. gVisor is told by a
//! command, which may hang: nothing that ends a sandbox waits for it.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_domain::SandboxId;

use crate::cgroup::SandboxGroup;
use crate::oci::launch::Desk;
use crate::oci::save;

/// The reasons to stand still.
#[derive(Debug, Default)]
struct Reasons {
    is_paused: bool,
    /// Copies that are being made.
    copies: usize,
}

/// The runtime that stops a sandbox and puts it on disk.
#[derive(Debug)]
pub(crate) struct Saver {
    pub(crate) program: PathBuf,
    pub(crate) desk: Desk,
}

#[derive(Debug)]
pub(crate) struct Stillness {
    id: SandboxId,
    group: Option<SandboxGroup>,
    saver: Option<Saver>,
    reasons: Mutex<Reasons>,
    /// What the processes were told last; unknown while they are being told. Held across
    /// the telling, so that commands come one after the other.
    told: tokio::sync::Mutex<Option<bool>>,
}

/// A sandbox that stands still for a copy. It goes on when this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    stillness: Option<Arc<Stillness>>,
}

impl Stillness {
    pub(crate) fn new(id: SandboxId, group: Option<SandboxGroup>, saver: Option<Saver>) -> Self {
        let (reasons, told) = (Mutex::default(), tokio::sync::Mutex::new(Some(false)));
        Self { id, group, saver, reasons, told }
    }

    /// The runtime that puts the sandbox on disk, where that can be done.
    pub(crate) fn saver(&self) -> Option<&Saver> {
        self.saver.as_ref()
    }

    pub(crate) async fn pause(&self) -> io::Result<()> {
        self.reasons().is_paused = true;
        let stopped = self.settle().await;
        if stopped.is_err() {
            self.reasons().is_paused = false;
        }
        stopped
    }

    pub(crate) async fn resume(&self) -> io::Result<()> {
        self.reasons().is_paused = false;
        self.settle().await
    }

    /// Stops the sandbox for a copy, as far as it can be stopped, and waits until it stands.
    pub(crate) async fn hold(self: &Arc<Self>) -> Hold {
        self.reasons().copies += 1;
        let hold = Hold { stillness: Some(self.clone()) };
        let held = self.settle().await;
        if let (Ok(()), None, Some(group)) = (held, &self.saver, &self.group) {
            let group = group.clone();
            let _ = tokio::task::spawn_blocking(move || group.await_frozen()).await;
        }
        hold
    }

    /// Stops the processes or lets them go, as the reasons that there are now say.
    async fn settle(&self) -> io::Result<()> {
        let mut told = self.told.lock().await;
        let still = self.reasons().is_still();
        if *told == Some(still) {
            return Ok(());
        }
        // Whoever waits for this may give up half-way.
        *told = None;
        match (&self.saver, &self.group) {
            // Threads of gVisor's that the host's kernel freezes wake up with signals that kill
            // the code in them: it has to stop by itself.
            (Some(saver), _) => save::stand(saver, &self.id, still).await?,
            (None, Some(group)) => group.freeze(still)?,
            (None, None) => return Err(io::ErrorKind::Unsupported.into()),
        }
        *told = Some(still);
        Ok(())
    }

    fn reasons(&self) -> MutexGuard<'_, Reasons> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reasons {
    fn is_still(&self) -> bool {
        self.is_paused || self.copies > 0
    }
}

impl Hold {
    /// Lets the sandbox go on, and waits until it does.
    pub(crate) async fn release(mut self) {
        if let Some(stillness) = self.stillness.take() {
            stillness.reasons().copies -= 1;
            // A sandbox that does not go on is found out by whoever asks next.
            let _ = stillness.settle().await;
        }
    }
}

impl Drop for Hold {
    /// A copy that was broken off must not leave its sandbox standing.
    fn drop(&mut self) {
        let Some(stillness) = self.stillness.take() else { return };
        stillness.reasons().copies -= 1;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { stillness.settle().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    /// A runtime that writes down what it is told, and hangs if there is a file for that.
    fn stillness(dir: &Path) -> Arc<Stillness> {
        let program = dir.join("runtime");
        let at = dir.display();
        let script = format!(
            "#!/bin/sh\nfor word; do case $word in pause|resume) echo $word >> {at}/told;; esac; \
             done\nwhile [ -e {at}/hang ]; do sleep 0.01; done\n"
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let saver = Saver { program, desk: Desk::at(dir.to_owned()) };
        Arc::new(Stillness::new(SandboxId::from_random([7; 16]), None, Some(saver)))
    }

    fn told(dir: &Path) -> String {
        fs::read_to_string(dir.join("told")).unwrap_or_default()
    }

    async fn until_told(dir: &Path, text: &str) {
        while told(dir) != text {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_paused_sandbox_is_not_woken_by_the_end_of_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let stillness = stillness(dir.path());
        let hold = stillness.hold().await;
        stillness.pause().await.unwrap();
        hold.release().await;
        assert_eq!(told(dir.path()), "pause\n");
        stillness.resume().await.unwrap();
        assert_eq!(told(dir.path()), "pause\nresume\n");
    }

    #[tokio::test]
    async fn a_copy_that_is_broken_off_lets_its_sandbox_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let stillness = stillness(dir.path());
        fs::write(dir.path().join("hang"), "").unwrap();
        let mut hold = Box::pin(stillness.hold());
        tokio::select! {
            _ = &mut hold => panic!("the runtime did not hang"),
            () = until_told(dir.path(), "pause\n") => {}
        }
        // The command is killed with whoever waits for it.
        drop(hold);
        until_told(dir.path(), "pause\nresume\n").await;
        fs::remove_file(dir.path().join("hang")).unwrap();
    }
}
