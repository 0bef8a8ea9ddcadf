//! The end of what calls leave behind: with the sandbox, or with the guest.
//!
//! In the process tier nothing but the guest and the spawner can do that where there is no cgroup. So
//! there each case runs once more without cgroups, and a control runs without the defence.
//!
//! Requirements: S1

use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::Tier;
use belljar_node::{Command, Defence, Leftovers, Sandbox, Weakened};
use belljar_testkit::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::cases;
use crate::fixture::Fixture;
use crate::residue::descendants;
use crate::verbs::{patience, until};

cases!["leftovers":
    what_calls_leave_ends_with_the_sandbox needs [GuestProcess],
    what_calls_leave_ends_with_the_guest needs [GuestProcess],
    without_the_defence_it_lives_on needs [GuestProcess],
];

/// Leaves four processes in sessions of their own, without a parent that lives. Two are busy.
const LEAVE: &str = "for i in 1 2; do \
    setsid sh -c 'setsid sh -c \"while :; do :; done\" & setsid sleep 1000 &' \
    < /dev/null > /dev/null 2>&1; done";
const LEFT: usize = 4;

/// Time for which processes that nothing ends are watched.
const WATCHED: Duration = Duration::from_millis(500);

/// The sandboxes that must take everything along.
fn kinds(f: &Fixture) -> Vec<Weakened> {
    match f.tier {
        Tier::Process => vec![Weakened::default(), Weakened::without(Defence::Cgroups)],
        _ => vec![Weakened::default()],
    }
}

async fn what_calls_leave_ends_with_the_sandbox(f: &Fixture) -> anyhow::Result<()> {
    for weakened in kinds(f) {
        let (sandbox, left) = leave(f, &weakened).await?;
        sandbox.destroy().await?;
        let living = living(&left);
        ensure!(living.is_empty(), "{weakened:?}: after the end, {living:?}");
    }
    Ok(())
}

async fn what_calls_leave_ends_with_the_guest(f: &Fixture) -> anyhow::Result<()> {
    for weakened in kinds(f) {
        let (sandbox, left) = leave(f, &weakened).await?;
        kill(sandbox.pid())?;
        // A cgroup ends what is left when the sandbox is ended.
        let is_at_once = f.tier != Tier::Process || !weakened.keeps(Defence::Cgroups);
        if is_at_once || f.is_watched() {
            until("nothing left of a dead guest", patience(f), async || {
                Ok(living(&left).is_empty().then_some(()))
            })
            .await?;
        }
        sandbox.destroy().await?;
        let living = living(&left);
        ensure!(living.is_empty(), "{weakened:?}: after the end, {living:?}");
    }
    Ok(())
}

/// The control of the cases above.
async fn without_the_defence_it_lives_on(f: &Fixture) -> anyhow::Result<()> {
    if f.tier != Tier::Process {
        // There is no way to be without what ends them.
        return Ok(());
    }
    let weakened = Weakened::without_all(&[Defence::Cgroups, Defence::TreeKill]);
    let (sandbox, left) = leave(f, &weakened).await?;
    sandbox.destroy().await?;
    tokio::time::sleep(WATCHED).await;
    let living = living(&left);
    living.iter().try_for_each(|process| kill(process.pid))?;
    ensure!(living.len() == LEFT, "they were ended, so the cases above prove nothing: {living:?}");
    until("the leftovers gone", patience(f), async || {
        Ok(self::living(&left).is_empty().then_some(()))
    })
    .await
}

/// A sandbox in which a call has left processes, and these.
async fn leave(f: &Fixture, weakened: &Weakened) -> anyhow::Result<(Sandbox, Vec<Process>)> {
    let sandbox = f.node.create_weakened(&f.spec(), weakened).await.context("make a sandbox")?;
    let command = Command { leftovers: Leftovers::Keep, ..Command::shell(LEAVE) };
    let finished = sandbox.execute(&command).await?;
    ensure!(finished.end.exit_code == Some(0), "{finished:?}");
    let guest = sandbox.pid();
    let left = until("the call's leftovers", patience(f), async || {
        let found = descendants(guest);
        let named = |name| found.iter().filter(|process| process.name == name).count();
        // A process has another name until it runs its own program.
        let all_run = found.len() == LEFT && named("sh") == 2 && named("sleep") == 2;
        Ok(all_run.then_some(found))
    });
    let left = left.await.with_context(|| format!("there are {:?}", descendants(guest)))?;
    Ok((sandbox, left))
}

/// Those that are still the same process and run.
fn living(left: &[Process]) -> Vec<Process> {
    let now = |process: &&Process| {
        let found = Process::read(process.pid);
        found.is_some_and(|found| found.is_alive() && found.name == process.name)
    };
    left.iter().filter(now).cloned().collect()
}

fn kill(pid: u32) -> anyhow::Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid)?).context("no pid")?;
    Ok(kill_process(pid, Signal::KILL)?)
}
