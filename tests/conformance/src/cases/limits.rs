//! Every limit ends the code with its own name.
//!
//! Requirements: S5

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::limits::MIB;
use belljar_domain::{EndReason, Limits, Tier};
use belljar_node::{Command, NodeError, Sandbox};

use crate::fixture::Fixture;
use crate::verbs::{at_home, output, patience, put_with_mode, run};
use crate::{cases, same};

cases!["limits":
    wall_time_ends_a_call,
    a_call_may_have_its_own_wall_time,
    a_stopped_call_still_ends,
    cpu_time_ends_a_call needs [CpuLimit],
    cpu_time_of_children_counts needs [CpuLimit],
    cpu_time_is_not_a_question_of_when_somebody_looks needs [CpuLimit],
    the_cpu_is_shared_out needs [CpuLimit],
    memory_ends_a_call needs [MemoryLimit],
    memory_of_a_child_ends_the_call needs [MemoryLimit],
    files_in_memory_count_as_memory needs [MemoryLimit, FilesAreMemory],
    processes_end_a_call needs [PidsLimit],
    a_fork_bomb_ends needs [PidsLimit],
    disk_bytes_end_a_call needs [SizedDisk],
    many_small_files_fill_the_disk_too needs [SizedDisk],
    inodes_end_a_call needs [SizedInodes],
    a_full_disk_can_be_emptied needs [SizedDisk],
    open_files_are_limited,
    a_forbidden_system_call_ends_the_call needs [CallFilter, X86],
    statuses_and_signals_cannot_pass_for_a_limit,
    a_limit_hits_only_its_own_call needs [WholeCalls],
    impossible_limits_are_refused,
];

/// The sandbox goes on after a call was ended.
async fn alive(sandbox: &Sandbox) -> anyhow::Result<()> {
    same!(output(sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

async fn ends_with(sandbox: &Sandbox, script: &str, reason: EndReason) -> anyhow::Result<()> {
    let finished = run(sandbox, script).await?;
    let end = finished.end;
    ensure!(
        end.reason == reason,
        "ended by {} (exit {:?}, signal {:?}), not {reason}: {}",
        end.reason,
        end.exit_code,
        end.signal,
        finished.stderr.text()
    );
    same!(Some(end.status()), reason.exit_code(), "status");
    Ok(())
}

async fn wall_time_ends_a_call(f: &Fixture) -> anyhow::Result<()> {
    let wall = short(f);
    let sandbox = f.limited(|limits| limits.wall = wall).await?;
    let started = Instant::now();
    ends_with(&sandbox, "trap '' TERM; sleep 99; sleep 99", EndReason::TimeoutWall).await?;
    let took = started.elapsed();
    ensure!(took >= wall, "it ended early, after {took:?}");
    ensure!(took < wall + patience(f), "it ended late, after {took:?}");
    alive(&sandbox).await
}

async fn a_call_may_have_its_own_wall_time(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut command = Command::shell("sleep 9");
    command.wall = Some(Duration::from_millis(100));
    same!(sandbox.execute(&command).await?.end.reason, EndReason::TimeoutWall, "end");
    alive(&sandbox).await
}

async fn a_stopped_call_still_ends(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.wall = short(f)).await?;
    ends_with(&sandbox, "kill -STOP $$", EndReason::TimeoutWall).await?;
    alive(&sandbox).await
}

/// A wall time that is over soon, and in which a program can start and end, on a slow
/// machine as well.
fn short(f: &Fixture) -> Duration {
    f.within(Duration::from_millis(300)).min(Duration::from_secs(20))
}

/// Enough CPU time for a program to start, on a slow machine as well.
fn little(f: &Fixture) -> Duration {
    f.within(Duration::from_millis(300)).min(Duration::from_secs(3))
}

async fn cpu_time_ends_a_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.cpu = Some(little(f))).await?;
    ends_with(&sandbox, "while :; do :; done", EndReason::TimeoutCpu).await?;
    // The next call has the whole time again, and sleeping costs nothing.
    same!(run(&sandbox, "sleep 0.5").await?.end.reason, EndReason::Done, "a sleep");
    alive(&sandbox).await
}

/// No process lives long enough for a limit of its own.
async fn cpu_time_of_children_counts(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.cpu = Some(little(f))).await?;
    let script = "while :; do sh -c 'i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); done'; done";
    ends_with(&sandbox, script, EndReason::TimeoutCpu).await
}

/// The call ends by a signal, as the kernel's own limit would end it, at moments
/// that nobody chose.
async fn cpu_time_is_not_a_question_of_when_somebody_looks(f: &Fixture) -> anyhow::Result<()> {
    let limit = little(f);
    let sandbox = f.limited(|limits| limits.cpu = Some(limit)).await?;
    let mut over = 0;
    for turns in (0..10).map(|nth| 50_000 << nth) {
        let script = format!("i=0; while [ $i -lt {turns} ]; do i=$((i + 1)); done; kill -9 $$");
        let end = run(&sandbox, &script).await?.end;
        let expected = if end.usage.cpu >= limit { EndReason::TimeoutCpu } else { EndReason::Exit };
        same!(end.reason, expected, "of a call that used {:?} of {limit:?}", end.usage.cpu);
        over += usize::from(end.usage.cpu >= limit);
        if over == 2 {
            return Ok(());
        }
    }
    bail!("no call used up its time");
}

async fn the_cpu_is_shared_out(f: &Fixture) -> anyhow::Result<()> {
    if f.is_watched() {
        return whole_cores_are_shared_out(f).await;
    }
    let sandbox = f.limited(|limits| limits.cpu_millis = 200).await?;
    let mut command = Command::shell("while :; do :; done & while :; do :; done");
    command.wall = Some(Duration::from_secs(1));
    let usage = sandbox.execute(&command).await?.end.usage;
    let share = usage.cpu.as_secs_f64() / usage.wall.as_secs_f64();
    ensure!(share < 0.3, "{share:.2} cores were used where 0.2 are allowed");
    Ok(())
}

/// Without cgroups a part of a core is refused, where it could be relied on, and a whole
/// one is kept.
async fn whole_cores_are_shared_out(f: &Fixture) -> anyhow::Result<()> {
    let weak = |cpu_millis| {
        let mut spec = f.spec();
        spec.limits.cpu_millis = cpu_millis;
        let weak = f.node.engine().weak_limits(&spec);
        weak.into_iter().map(|weak| weak.limit.as_str()).collect::<Vec<_>>()
    };
    let always: &[&str] = match (f.tier, f.node.engine().facts().privileged) {
        (Tier::Process, true) => &["disk", "inodes"],
        (Tier::Process, false) => &["pids", "disk", "inodes"],
        _ => &[],
    };
    same!(weak(1000), always, "what is not kept, with whole cores");
    same!(weak(200), [&["cpus"][..], always].concat(), "what is not kept, with a part of a core");
    let part = f.limited(|limits| limits.cpu_millis = 200).await;
    if f.tier == Tier::Jail {
        let error = part.err().context("part of a core was accepted")?;
        let text = format!("{error:#}");
        ensure!(text.contains("cannot keep the limit `cpus`"), "{text}");
    }
    let sandbox = f.limited(|limits| limits.cpu_millis = 1000).await?;
    let mut command = Command::shell("while :; do :; done & while :; do :; done");
    command.wall = Some(Duration::from_secs(1));
    let usage = sandbox.execute(&command).await?.end.usage;
    let share = usage.cpu.as_secs_f64() / usage.wall.as_secs_f64();
    ensure!(share < 1.2, "{share:.2} cores were used where 1 is allowed");
    Ok(())
}

/// Collects one endless line.
const HOG: &str = "tail /dev/zero";

async fn memory_ends_a_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.memory_bytes = 64 * MIB).await?;
    ends_with(&sandbox, &format!("exec {HOG}"), EndReason::Oom).await?;
    alive(&sandbox).await
}

/// The main process survives and would even succeed.
async fn memory_of_a_child_ends_the_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.memory_bytes = 64 * MIB).await?;
    ends_with(&sandbox, &format!("{HOG}; exit 0"), EndReason::Oom).await?;
    alive(&sandbox).await
}

async fn files_in_memory_count_as_memory(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.memory_bytes = 64 * MIB).await?;
    let script = "head -c 100000000 /dev/zero > /dev/shm/file; head -c 100000000 /dev/zero > file";
    ends_with(&sandbox, script, EndReason::Oom).await
}

/// Between two looks of a watch only the kernel stops code that forks. It counts the processes
/// of a user: those of the sandbox alone where that has a user, or a namespace, to itself.
async fn kernel_bounds_processes(f: &Fixture, sandbox: &Sandbox) -> anyhow::Result<()> {
    let text = output(sandbox, "cat /proc/self/limits").await?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max processes"));
    let most = line.and_then(|line| line.split_whitespace().next()).unwrap_or("no line");
    let most: u64 = most.parse().with_context(|| format!("a limit of {most} processes"))?;
    let own = u64::from(sandbox.limits().pids) + 2;
    let shares_user = f.tier == Tier::Process && !f.node.engine().facts().privileged;
    let is_bound = if shares_user { most < own + 5000 } else { most == own };
    ensure!(is_bound, "the kernel allows {most} processes where {own} are meant");
    Ok(())
}

async fn processes_end_a_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.pids = 16).await?;
    if f.is_watched() {
        kernel_bounds_processes(f, &sandbox).await?;
    }
    let script = "i=0; while [ $i -lt 14 ]; do sleep 60 & i=$((i + 1)); done; echo fits; exit 0";
    let fits = run(&sandbox, script).await?;
    same!((fits.end.reason, fits.stdout.text().as_str()), (EndReason::Done, "fits\n"), "15");
    // In a sandbox of its own: what was left of that call counts until it is dead. None of
    // those that count here ends by itself, however slow the host is.
    let sandbox = f.limited(|limits| limits.pids = 16).await?;
    let script = "i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i + 1)); done; wait";
    ends_with(&sandbox, script, EndReason::Pids).await?;
    alive(&sandbox).await
}

async fn a_fork_bomb_ends(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.pids = 64).await?;
    let bomb = "bomb() { bomb | bomb & }; bomb; wait; sleep 9";
    let finished = run(&sandbox, bomb).await?;
    let end = finished.end;
    let text = finished.stderr.text();
    // The kernel refuses each process over the limit. Without a counter of that, a bomb that ends
    // between two looks has ended by itself.
    let was_refused = f.is_watched() && text.contains("Cannot fork");
    let is_told = end.reason == EndReason::Pids || (was_refused && end.reason == EndReason::Done);
    ensure!(is_told, "ended by {} (exit {:?}): {text}", end.reason, end.exit_code);
    alive(&sandbox).await
}

async fn disk_bytes_end_a_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.disk_bytes = 8 * MIB).await?;
    ends_with(&sandbox, "exec dd if=/dev/zero of=file bs=64K count=1000", EndReason::Disk).await?;
    alive(&sandbox).await
}

async fn many_small_files_fill_the_disk_too(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.disk_bytes = 8 * MIB).await?;
    let script = "i=0; while head -c 1000000 /dev/zero > f$i; do i=$((i + 1)); done; exit 3";
    ends_with(&sandbox, script, EndReason::Disk).await?;
    alive(&sandbox).await
}

async fn inodes_end_a_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.inodes = 256).await?;
    let script = "i=0; while [ $i -lt 1000 ]; do : > f$i || exit 3; i=$((i + 1)); done";
    ends_with(&sandbox, script, EndReason::Disk).await?;
    alive(&sandbox).await
}

async fn a_full_disk_can_be_emptied(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.disk_bytes = 8 * MIB).await?;
    ends_with(&sandbox, "head -c 100000000 /dev/zero > file", EndReason::Disk).await?;
    same!(
        output(&sandbox, "rm file; head -c 5000000 /dev/zero | tee f | wc -c").await?.trim(),
        "5000000",
        "room"
    );
    // A failure that has nothing to do with the disk is not blamed on it.
    same!(run(&sandbox, "exit 1").await?.end.reason, EndReason::Exit, "a plain failure");
    Ok(())
}

async fn open_files_are_limited(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.open_files = 64).await?;
    same!(output(&sandbox, "ulimit -n; ulimit -Hn").await?, "64\n64\n", "the limit");
    ensure!(run(&sandbox, "ulimit -n 65").await?.end.exit_code != Some(0), "it can be raised");
    Ok(())
}

/// A program of 64 bit that asks the kernel the 32-bit way (`int 0x80`), where
/// the numbers mean other calls: `mov eax, 20; int 0x80; mov eax, 60; xor edi,
/// edi; syscall`.
fn foreign_call() -> Vec<u8> {
    let code = [0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];
    let base: u64 = 0x40_0000;
    let start: u64 = 64 + 56;
    let size = start + code.len() as u64;
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let halves = |values: &[u16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let mut tail = Vec::new();
    // Header: executable, x86-64, version 1, entry, program headers at 64.
    elf.extend(halves(&[2, 62]));
    elf.extend(1u32.to_le_bytes());
    for value in [base + start, 64, 0] {
        elf.extend(value.to_le_bytes());
    }
    elf.extend(0u32.to_le_bytes());
    elf.extend(halves(&[64, 56, 1, 0, 0, 0]));
    // One segment: load, readable and executable.
    tail.extend(1u32.to_le_bytes());
    tail.extend(5u32.to_le_bytes());
    for value in [0, base, base, size, size, 0x1000] {
        tail.extend(value.to_le_bytes());
    }
    elf.extend(tail);
    elf.extend(code);
    elf
}

async fn a_forbidden_system_call_ends_the_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    put_with_mode(&sandbox, &at_home(&sandbox, "foreign"), &foreign_call(), 0o755).await?;
    ends_with(&sandbox, "exec ./foreign", EndReason::Seccomp).await?;
    alive(&sandbox).await
}

/// Reasons come from what the kernel counted, not from what code pretends.
async fn statuses_and_signals_cannot_pass_for_a_limit(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for code in (115..=124).chain([137, 139, 152, 153, 159]) {
        let script = format!("echo 'killed: out of memory' >&2; exit {code}");
        let end = run(&sandbox, &script).await?.end;
        same!((end.reason, end.exit_code), (EndReason::Exit, Some(code)), "exit {code}");
    }
    // KILL as by the OOM killer, SYS as by seccomp, XCPU and XFSZ as by limits.
    for signal in [9, 31, 24, 25] {
        let end = run(&sandbox, &format!("kill -{signal} $$; exit 1")).await?.end;
        same!(end.reason, EndReason::Exit, "signal {signal}");
    }
    Ok(())
}

async fn a_limit_hits_only_its_own_call(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut steady =
        sandbox.start(&Command::shell("while [ ! -e stop ]; do sleep 0.01; done")).await?;
    let mut loud = Command::shell("yes");
    loud.wall = Some(Duration::from_millis(50));
    let end = sandbox.execute(&loud).await?.end;
    ensure!(matches!(end.reason, EndReason::TimeoutWall | EndReason::Output), "{}", end.reason);
    output(&sandbox, "touch stop").await?;
    same!(crate::verbs::finish(&mut steady).await.2.reason, EndReason::Done, "the other call");
    Ok(())
}

async fn impossible_limits_are_refused(f: &Fixture) -> anyhow::Result<()> {
    type Change = fn(&mut Limits);
    let table: [(&str, Change); 12] = [
        ("no memory", |limits| limits.memory_bytes = 0),
        ("endless memory", |limits| limits.memory_bytes = u64::MAX),
        ("no CPU", |limits| limits.cpu_millis = 0),
        ("no processes", |limits| limits.pids = 0),
        ("too many processes", |limits| limits.pids = u32::MAX),
        ("no disk", |limits| limits.disk_bytes = 0),
        ("no inodes", |limits| limits.inodes = 0),
        ("no output", |limits| limits.output_bytes = 0),
        ("no wall time", |limits| limits.wall = Duration::ZERO),
        ("endless wall time", |limits| limits.wall = Duration::MAX),
        ("no CPU time", |limits| limits.cpu = Some(Duration::ZERO)),
        ("no open files", |limits| limits.open_files = 0),
    ];
    for (what, change) in table {
        let mut spec = f.spec();
        change(&mut spec.limits);
        match f.node.create(&spec).await {
            Err(NodeError::Start(error)) => {
                let text = format!("{:#}", anyhow::Error::from(error));
                ensure!(text.contains("must be between"), "{what}: {text}");
            }
            Err(error) => bail!("{what}: {error}"),
            Ok(_) => bail!("{what}: was accepted"),
        }
    }
    Ok(())
}
