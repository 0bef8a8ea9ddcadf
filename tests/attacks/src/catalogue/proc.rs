//! PROC: processes, signals, and the life of calls.

mod deaths;
mod leftovers;
mod pids;

use std::time::Duration;

use belljar_domain::{EndReason, User};
use belljar_node::Command;
use belljar_node::Defence::{
    CallKill, CpuTimer, Landlock, Rlimits, Seccomp, TreeKill, UidSplit, WallTimer,
};

use crate::attack::{Act, Attack, Control, Payload, Run, Seen, full, payload, verdict};
use crate::harness::files::{self, HANG_LIMIT, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::host::Groups;
use crate::harness::stage::{Ran, Stage};

/// What ends everything of a call with it.
const CALL_KILL: Control = Control::Without(&[CallKill]);

pub(crate) fn attacks() -> Vec<Attack> {
    let one = |id, payload: Payload, control| Attack::new(id, Act::Payload(payload), control);
    let driven = |id, act: fn(Stage) -> Run, control| Attack::new(id, Act::Driven(act), control);
    let atomic = "a kill of the whole group is one step of the kernel's, also for frozen processes";
    let typed = "reasons come from the kernel's counters; there is no other way to switch to";
    vec![
        driven("PROC-01", |stage| Box::pin(leftovers::daemon(stage)), CALL_KILL),
        one("PROC-02", DEAF, Control::Without(&[WallTimer])),
        driven("PROC-03", |stage| Box::pin(leftovers::comets(stage)), CALL_KILL),
        driven(
            "PROC-04",
            |stage| Box::pin(broadcast(stage)),
            Control::Without(&[UidSplit, Landlock]),
        ),
        driven(
            "PROC-05",
            |stage| Box::pin(deaths::first_process(stage)),
            Control::Without(&[UidSplit, Landlock]),
        ),
        driven(
            "PROC-06",
            |stage| Box::pin(zombies(stage, &["storm", "10000"], 1024)),
            Control::Own(|stage| Box::pin(zombies(stage, &["selftest"], 256))),
        ),
        driven(
            "PROC-07",
            |stage| Box::pin(pids::of_the_host(stage)),
            Control::Own(|stage| Box::pin(pids::of_the_sandbox(stage))),
        ),
        driven(
            "PROC-08",
            |stage| Box::pin(pids::reused(stage)),
            Control::Because("kills go by pidfd and group, never by number"),
        )
        .alone("it chooses pids, and nothing may take them meanwhile"),
        driven("PROC-09", |stage| Box::pin(deaths::stuck(stage)), Control::Because(atomic)),
        driven(
            "PROC-10",
            |stage| Box::pin(startup_files(stage, Login::No)),
            Control::Own(|stage| Box::pin(startup_files(stage, Login::Yes))),
        ),
        one("PROC-11", payload("proc/proc_11.c"), Control::Own(|stage| Box::pin(left_open(stage)))),
        driven("PROC-12", |stage| Box::pin(forged_ends(stage)), Control::Because(typed)),
        driven(
            "PROC-13",
            |stage| Box::pin(dodged_limits(stage)),
            Control::Each(&[&[WallTimer], &[CpuTimer, Rlimits]]),
        ),
        driven("PROC-14", |stage| Box::pin(leftovers::later_call(stage)), CALL_KILL),
        driven(
            "PROC-15",
            |stage| Box::pin(deaths::race(stage)),
            Control::Because("a sandbox that is destroyed is no longer there to be asked"),
        ),
        driven(
            "PROC-16",
            |stage| Box::pin(leftovers::late_output(stage)),
            Control::Own(|stage| Box::pin(leftovers::output_in_time(stage))),
        ),
        driven("PROC-17", |stage| Box::pin(leftovers::reapers(stage)), CALL_KILL),
        driven("PROC-18", |stage| Box::pin(guest_and_root(stage)), Control::Without(&[Seccomp])),
        driven(
            "PROC-19",
            |stage| Box::pin(leftovers::without_a_cgroup(stage)),
            Control::Without(&[TreeKill]),
        ),
    ]
}

const DEAF: Payload = payload("proc/proc_02.c")
    .args_from(|stage| vec![overstay(stage).to_string()])
    .tune(|spec| spec.limits.wall = Duration::from_secs(1))
    .judge(|ran| {
        if ran.end.reason == EndReason::TimeoutWall {
            return Ok(Seen::Held(format!("ended after {:?}", ran.end.usage.wall)));
        }
        verdict(ran)
    });

/// The seconds after which a program that overstays has got away with it: without the
/// defence soon, with it only if nobody comes at all.
fn overstay(stage: &Stage) -> u32 {
    if stage.is_control() { 3 } else { 45 }
}

/// What a sandbox must still do when an attack on it is over.
async fn still_serves(stage: &Stage, sandbox: &belljar_node::Sandbox) -> anyhow::Result<bool> {
    let ran = stage.exec(sandbox, &Command::new(["/bin/true"])).await?;
    Ok(ran.end.reason == EndReason::Done)
}

async fn broadcast(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "proc/proc_04.c", &[""; 0]).await?;
    if ran.end.reason == EndReason::Lost {
        return Ok(Seen::Breach("the sandbox's pid 1 was brought down".to_owned()));
    }
    findings.verdict(&ran)?;
    if !findings.is_breached() {
        let serves = still_serves(&stage, &sandbox).await?;
        findings.expect(serves, "the sandbox still serves", "it does not");
    }
    Ok(findings.seen())
}

/// Root with the profile `full` becomes the guest's user, and signals whom it likes.
pub(super) async fn guest_and_root(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(full).await?;
    let args: &[&str] = if stage.tier.shares_kernel() { &[] } else { &["own-kernel"] };
    let mut command = stage.place(&sandbox, "proc/proc_18.c", args).await?;
    command.user = User::Root;
    let ran = stage.exec(&sandbox, &command).await?;
    if ran.end.reason == EndReason::Lost {
        return Ok(Seen::Breach("the sandbox's pid 1 was brought down".to_owned()));
    }
    findings.verdict(&ran)?;
    if !findings.is_breached() {
        let serves = still_serves(&stage, &sandbox).await?;
        findings.expect(serves, "the sandbox still serves", "it does not");
        let moved = files::upload(&sandbox, b"/tmp/proc18.up", b"text").await?;
        findings.expect(moved.is_ok(), "the guest still moves files", format!("{moved:?}"));
    }
    Ok(findings.seen())
}

async fn zombies(stage: Stage, args: &[&str], pids: u32) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|spec| spec.limits.pids = pids).await?;
    let command = stage.place(&sandbox, "proc/proc_06.c", args).await?;
    let before = Groups::of(&sandbox).number("pids.current");
    let ran = stage.exec(&sandbox, &command).await?;
    if ran.end.reason == EndReason::Pids {
        return Ok(Seen::Breach("zombies filled the limit".to_owned()));
    }
    findings.verdict(&ran)?;
    let begin = std::time::Instant::now();
    let mut after = Groups::of(&sandbox).number("pids.current");
    while after > before && begin.elapsed() < HANG_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
        after = Groups::of(&sandbox).number("pids.current");
    }
    findings.expect(after <= before, "as many processes as before", format!("{after:?}"));
    Ok(findings.seen())
}

/// A descriptor that someone did leave must be found.
async fn left_open(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    stage.place(&sandbox, "proc/proc_11.c", &[""; 0]).await?;
    let script = "exec 5> /tmp/left-open; exec /tmp/proc_11";
    verdict(&stage.exec(&sandbox, &Command::shell(script)).await?)
}

/// Whether someone runs a login shell between planting and looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Login {
    No,
    Yes,
}

async fn startup_files(stage: Stage, login: Login) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for user in [User::User, User::Root] {
        let sandbox = stage.sandbox(|_| {}).await?;
        let mut command = stage.place(&sandbox, "proc/proc_10.sh", &["plant"]).await?;
        command.user = user;
        findings.verdict(&stage.exec(&sandbox, &command).await?)?;
        let mut plain = match login {
            Login::No => Command::new(["/bin/true"]),
            Login::Yes => Command::new(["/bin/sh", "-lc", "true"]),
        };
        plain.user = user;
        stage.exec(&sandbox, &plain).await?;
        files::upload(&sandbox, b"/tmp/proc10.up", b"text").await??;
        files::download(&sandbox, b"/tmp/proc10.up", LIMIT).await??;
        files::list(&sandbox, b"/tmp").await??;
        sandbox.pause().await?;
        sandbox.resume().await?;
        command.argv.pop();
        command.argv.push(b"check".to_vec());
        findings.verdict(&stage.exec(&sandbox, &command).await?)?;
    }
    Ok(findings.seen())
}

/// A program's own status never passes for a limit. The one known exception is
/// a SIGSYS that it sends itself through a timer: it mislabels only its own end.
async fn forged_ends(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut command = stage.place(&sandbox, "proc/proc_12.c", &[""; 0]).await?;
    let program = command.argv.clone();
    let mut run = async |way: &str, number: i32| -> anyhow::Result<Ran> {
        command.argv.clone_from(&program);
        command.argv.extend([way.as_bytes().to_vec(), number.to_string().into_bytes()]);
        stage.exec(&sandbox, &command).await
    };
    for code in (115..=124).chain([1, 126, 127, 137, 159, 255]) {
        let ran = run("exit", code).await?;
        let is_own = ran.end.reason == EndReason::Exit && ran.end.exit_code == Some(code);
        findings.expect(is_own, "exit codes are the program's", ran.ending());
    }
    for signal in [9, 14, 15, 24, 25, 31] {
        let ran = run("signal", signal).await?;
        let by_signal = ran.end.signal == Some(signal);
        // The filter may refuse to send a signal that only the kernel should.
        let refused = ran.end.exit_code == Some(3);
        let is_own = ran.end.reason == EndReason::Exit && (by_signal || refused);
        findings.expect(is_own, "signals are the program's", ran.ending());
    }
    let ran = run("timer", 31).await?;
    let only_its_own = matches!(ran.end.reason, EndReason::Exit | EndReason::Seccomp);
    findings.expect(only_its_own, "a timer's SIGSYS is exit or seccomp", ran.ending());
    Ok(findings.seen())
}

async fn dodged_limits(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let cpu = Duration::from_millis(500);
    let sandbox = stage.sandbox(|spec| spec.limits.cpu = Some(cpu)).await?;
    let seconds = overstay(&stage).to_string();
    let mut command = stage.place(&sandbox, "proc/proc_13.c", &[&*seconds, "mode"]).await?;
    for (mode, reason) in [
        ("sleep", EndReason::TimeoutWall),
        ("stop", EndReason::TimeoutWall),
        ("spin", EndReason::TimeoutCpu),
        ("child", EndReason::TimeoutCpu),
        ("relay", EndReason::TimeoutCpu),
        ("detach", EndReason::TimeoutCpu),
    ] {
        command.argv.pop();
        command.argv.push(mode.into());
        let by_wall = reason == EndReason::TimeoutWall;
        // By its CPU time, however long it takes to use that up.
        command.wall = Some(Duration::from_millis(if by_wall { 600 } else { 60_000 }));
        let ran = stage.exec(&sandbox, &command).await?;
        findings.expect(ran.end.reason == reason, mode, ran.ending());
        let used = ran.end.usage.cpu;
        findings.expect(by_wall || used >= cpu, "the bill is its limit", format!("{used:?}"));
        // Whoever looks at the clock must be given the CPU, too.
        let near = by_wall || used < cpu * 3;
        findings.expect_in_time(near, "or little more", format!("{mode}: {used:?}"));
        if findings.is_breached() {
            break;
        }
    }
    Ok(findings.seen())
}
