//! Process numbers: of others, and those that come round again.

use std::fs;
use std::process::{Child, Command as HostCommand, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use belljar_node::{Command, Event};

use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::host::{self, Groups};
use crate::harness::stage::Stage;

pub(super) async fn of_the_host(stage: Stage) -> anyhow::Result<Seen> {
    let canary = stage.canaries().pid().to_string();
    let sandbox = stage.sandbox(|_| {}).await?;
    let args = [canary, std::process::id().to_string(), sandbox.pid().to_string()];
    verdict(&stage.run(&sandbox, "proc/proc_07.c", &args).await?)
}

/// A pid that does exist inside must be found, or the search proves nothing.
pub(super) async fn of_the_sandbox(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let script = "echo NOTE $$; exec /bin/sleep 5";
    let mut sleeper = stage.start(&sandbox, &Command::shell(script)).await?;
    let said = sleeper.until("NOTE ").await?;
    let pid = said.trim_start_matches("NOTE ").to_owned();
    verdict(&stage.run(&sandbox, "proc/proc_07.c", &[pid]).await?)
}

/// Strangers get the pids of an ended call and of a dead guest; whoever kept a
/// number would hit them.
pub(super) async fn reused(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let script = "echo NOTE ready; exec /bin/sleep 8";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    while !matches!(call.next().await, Event::Stdout(_)) {}
    let members = Groups::of(&sandbox).members(call.number());
    let pid = *members.first().context("the call has no process")?;
    call.kill();
    while !matches!(call.next().await, Event::End(_)) {}
    let mut stranger = Stranger::with_pid(pid)?;
    call.kill();
    let signalled = call.signal(9).await;
    findings.expect(signalled.is_err(), "a signal to an ended call is refused", "it was sent");

    // The guest's number stays taken as long as its sandbox is not buried.
    let guest = sandbox.pid();
    host::kill(guest)?;
    let second = Stranger::with_pid(guest);
    let took = stage.destroy(sandbox).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    findings.expect(stranger.lives(), "a stranger with the call's pid lives", "it died");
    match second {
        Ok(mut second) => {
            findings.expect(second.lives(), "a stranger with the guest's pid lives", "it died");
        }
        Err(_) => findings.held("the guest's pid cannot be had"),
    }
    findings.held(format!("destroyed in {took:?}"));
    Ok(findings.seen())
}

/// A process of the host's own with a number of our choice.
#[derive(Debug)]
struct Stranger(Child);

impl Stranger {
    fn with_pid(pid: u32) -> anyhow::Result<Self> {
        for _ in 0..2000 {
            // The next process gets the number after this one, if it is free.
            let last = (pid - 1).to_string();
            fs::write("/proc/sys/kernel/ns_last_pid", last).context("cannot choose pids here")?;
            let child = HostCommand::new("/bin/sleep")
                .arg("20")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()?;
            let stranger = Self(child);
            if stranger.0.id() == pid {
                return Ok(stranger);
            }
        }
        anyhow::bail!("nobody gets the pid {pid}")
    }

    fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None)) && host::lives(self.0.id())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
