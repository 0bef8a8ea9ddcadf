//! How calls end: signals, kills, what they leave behind, what they used.
//!
//! Requirements: S5, S8

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::EndReason;
use belljar_domain::limits::MIB;
use belljar_node::{Command, Input, Leftovers, Sandbox};

use crate::fixture::Fixture;
use crate::verbs::{errno, finish, output, refused, run, until_printed};
use crate::{cases, same};

cases!["ends":
    a_signal_reaches_the_call,
    a_signal_reaches_its_children,
    impossible_signals_are_refused,
    kill_ends_a_stubborn_call,
    kill_ends_daemons_too needs [WholeCalls],
    leftovers_end_with_the_call needs [WholeCalls],
    leftovers_stay_when_asked,
    leftovers_do_not_hold_up_the_end,
    leftovers_may_write_for_ever,
    a_later_call_ends_what_stayed needs [CallsMeet],
    a_later_call_sees_what_stayed needs [CallsSeeEachOther],
    orphans_are_reaped needs [OwnProcesses],
    twenty_calls_run_at_once,
    cpu_time_is_counted needs [CpuLimit],
    peak_memory_is_counted needs [MemoryLimit],
    written_bytes_are_counted needs [SizedDisk],
    wall_time_is_counted,
];

/// A daemon that left its session, ignores polite signals and holds a lock:
/// whoever gets the lock knows that it and its children are dead.
const DAEMON: &str = "setsid sh -c 'exec 9> lock; flock 9; trap \"\" TERM HUP INT; \
    echo up > up.part; mv up.part up; while :; do sleep 5; done' & \
    while [ ! -e up ]; do sleep 0.01; done";

async fn a_signal_reaches_the_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.01; done";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    until_printed(&mut call, "ready").await?;
    call.signal(10).await?;
    let (stdout, _, end) = finish(&mut call).await;
    same!((stdout.as_slice(), end.exit_code), (&b"caught\n"[..], Some(7)), "end");
    Ok(())
}

async fn a_signal_reaches_its_children(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "trap 'wait; echo all; exit 3' TERM; \
        sh -c 'trap \"echo child; exit\" TERM; echo ready; while :; do sleep 0.01; done' & \
        wait";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    until_printed(&mut call, "ready").await?;
    call.signal(15).await?;
    let (stdout, _, end) = finish(&mut call).await;
    same!((stdout.as_slice(), end.exit_code), (&b"child\nall\n"[..], Some(3)), "end");
    Ok(())
}

async fn impossible_signals_are_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut call = sandbox.start(&Command::shell("echo ready; exec sleep 9")).await?;
    until_printed(&mut call, "ready").await?;
    for signal in [-1, 0, 65, i32::MAX, i32::MIN] {
        refused(call.signal(signal).await, &format!("signal {signal}"), &[errno::EINVAL])?;
    }
    call.signal(9).await?;
    same!(finish(&mut call).await.2.signal, Some(9), "end");
    refused(call.signal(9).await, "a signal after the end", &[errno::ESRCH])
}

async fn kill_ends_a_stubborn_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "trap '' TERM INT HUP QUIT; echo ready; while :; do sleep 0.01; done";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    until_printed(&mut call, "ready").await?;
    call.kill();
    let (_, _, end) = finish(&mut call).await;
    same!((end.reason, end.signal, end.status()), (EndReason::Killed, Some(9), 116), "end");
    Ok(())
}

async fn kill_ends_daemons_too(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = format!("{DAEMON}; echo ready; exec sleep 9");
    let mut call = sandbox.start(&Command::shell(&script)).await?;
    until_printed(&mut call, "ready").await?;
    call.kill();
    same!(finish(&mut call).await.2.reason, EndReason::Killed, "end");
    output(&sandbox, "flock -w 9 lock true").await.context("the daemon lives")?;
    Ok(())
}

async fn leftovers_end_with_the_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let end = run(&sandbox, &format!("{DAEMON}; exit 4")).await?.end;
    same!((end.reason, end.exit_code), (EndReason::Exit, Some(4)), "end");
    output(&sandbox, "flock -w 9 lock true").await.context("the daemon lives")?;
    Ok(())
}

/// S8: background processes.
async fn leftovers_stay_when_asked(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "setsid sh -c 'exec 9> lock; flock 9; echo up > up; \
        while [ ! -e ask ]; do sleep 0.01; done; echo answer > told.part; mv told.part told' & \
        while [ ! -e up ]; do sleep 0.01; done";
    let command = Command { leftovers: Leftovers::Keep, ..Command::shell(script) };
    same!(sandbox.execute(&command).await?.end.reason, EndReason::Done, "end");
    same!(run(&sandbox, "flock -n lock true").await?.end.exit_code, Some(1), "the lock");
    let talk = "touch ask; while [ ! -e told ]; do sleep 0.01; done; cat told";
    same!(output(&sandbox, talk).await?, "answer\n", "the daemon's answer");
    sandbox.destroy().await?;
    Ok(())
}

/// Starts a daemon that tells its pid and holds a lock.
async fn leave_a_server(sandbox: &Sandbox) -> anyhow::Result<()> {
    let script = "setsid sh -c 'exec 9> lock; flock 9; echo $$ > pid.part; mv pid.part pid; \
        exec sleep 8' & while [ ! -e pid ]; do sleep 0.01; done";
    let command = Command { leftovers: Leftovers::Keep, ..Command::shell(script) };
    same!(sandbox.execute(&command).await?.end.reason, EndReason::Done, "end");
    Ok(())
}

/// S8: a server started in one call is stopped in the next.
async fn a_later_call_ends_what_stayed(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    leave_a_server(&sandbox).await?;
    let ended = run(&sandbox, "kill $(cat pid) && flock -w 5 lock true").await?;
    sandbox.destroy().await?;
    ensure!(ended.end.exit_code == Some(0), "it cannot be signalled: {}", ended.stderr.text());
    Ok(())
}

/// S8: and it is found there.
async fn a_later_call_sees_what_stayed(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    leave_a_server(&sandbox).await?;
    let seen = run(&sandbox, "cat /proc/$(cat pid)/cmdline").await?;
    sandbox.destroy().await?;
    ensure!(seen.end.exit_code == Some(0), "it is not seen: {}", seen.stderr.text());
    Ok(())
}

/// A daemon that keeps the output open must not keep the call open.
async fn leftovers_do_not_hold_up_the_end(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for leftovers in [Leftovers::Kill, Leftovers::Keep] {
        // Longer than a call may take: one that waited for it would not be done.
        let command = Command { leftovers, ..Command::shell("sleep 1000 & echo main") };
        let finished = sandbox.execute(&command).await?;
        same!(finished.stdout.text(), "main\n", "output");
        same!(finished.end.reason, EndReason::Done, "the end, with {leftovers:?}");
    }
    sandbox.destroy().await?;
    Ok(())
}

/// What stays is held up by nobody who does not listen, and holds up nobody.
async fn leftovers_may_write_for_ever(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    // More than a pipe and what is under way can hold, and some of it late.
    let script = "{ for n in $(seq 30); do echo more; sleep 0.1; done; \
        head -c 4000000 /dev/zero; touch written; } & echo main";
    let command = Command { leftovers: Leftovers::Keep, ..Command::shell(script) };
    let finished = sandbox.execute(&command).await?;
    ensure!(finished.stdout.text().contains("main\n"), "output is lost");
    let early = run(&sandbox, "[ ! -e written ]").await?.end.exit_code;
    same!(early, Some(0), "the end, which came only after all was written");
    let wait = "for try in $(seq 600); do [ -e written ] && exit 0; sleep 0.02; done; exit 1";
    same!(run(&sandbox, wait).await?.end.exit_code, Some(0), "what stayed is held up");
    sandbox.destroy().await?;
    Ok(())
}

async fn orphans_are_reaped(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "i=0; while [ $i -lt 100 ]; do (true & ) ; i=$((i + 1)); done; \
        for try in $(seq 200); do \
            grep -qs '^State:.*Z' /proc/[0-9]*/status || { echo clean; exit 0; }; sleep 0.02; \
        done; grep -s '^State:.*Z' /proc/[0-9]*/status";
    same!(output(&sandbox, script).await?, "clean\n", "zombies");
    Ok(())
}

async fn twenty_calls_run_at_once(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = Arc::new(f.sandbox().await?);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20u8 {
        let sandbox = sandbox.clone();
        calls.spawn(async move {
            let cat = Command { input: Input::Stream, ..Command::new(["/bin/cat"]) };
            let mut call = sandbox.start(&cat).await?;
            let bytes = vec![number; 300_000];
            call.writer().write(bytes.clone());
            call.writer().close();
            let (stdout, stderr, end) = finish(&mut call).await;
            same!((end.reason, stderr.len()), (EndReason::Done, 0), "call {number}");
            ensure!(stdout == bytes, "call {number} got another's output");
            Ok(())
        });
    }
    while let Some(result) = calls.join_next().await {
        result??;
    }
    Ok(())
}

/// CPU time is that of all processes of a call, and of that call alone.
async fn cpu_time_is_counted(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let burn = "sh -c 'ulimit -t 1; while :; do :; done'";
    let usage = run(&sandbox, &format!("{burn} & wait")).await?.end.usage;
    let cpu = usage.cpu.as_secs_f64();
    // Two shells start as well, which takes a while where everything is emulated.
    let most = f.within(Duration::from_millis(200)).as_secs_f64().max(2.0) + 1.0;
    ensure!((0.5..most).contains(&cpu), "{cpu} s of CPU were counted for about 1 s");
    let idle = run(&sandbox, "sleep 0.1").await?.end.usage.cpu;
    ensure!(
        idle < f.within(Duration::from_millis(100)),
        "{idle:?} of CPU were counted for a sleep"
    );
    Ok(())
}

async fn peak_memory_is_counted(f: &Fixture) -> anyhow::Result<()> {
    if f.is_watched() {
        // A peak between two looks would be missed, so none is told.
        let usage = run(&f.sandbox().await?, "true").await?.end.usage;
        same!(usage.peak_memory_bytes, None, "a peak that nothing counted");
        return Ok(());
    }
    let sandbox = f.sandbox().await?;
    let peak = async |script| {
        run(&sandbox, script).await?.end.usage.peak_memory_bytes.context("no peak is told")
    };
    let large = peak("dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null").await?;
    ensure!((64 * MIB..128 * MIB).contains(&large), "{large} bytes for a program of 64 MiB");
    let small = peak("true").await?;
    ensure!(small < 16 * MIB, "{small} bytes for `true`, in a call of its own");
    Ok(())
}

async fn written_bytes_are_counted(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let usage = run(&sandbox, "head -c 5000000 /dev/zero > file").await?.end.usage;
    let written = usage.written_bytes;
    ensure!((5_000_000..6_000_000).contains(&written), "{written} bytes for 5,000,000");
    Ok(())
}

async fn wall_time_is_counted(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let started = Instant::now();
    let wall = run(&sandbox, "sleep 0.3").await?.end.usage.wall;
    let most = started.elapsed();
    let counted = (Duration::from_millis(300)..=most).contains(&wall);
    ensure!(counted, "{wall:?} for a sleep of 0.3 s, which took {most:?}");
    Ok(())
}
