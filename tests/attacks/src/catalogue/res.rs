//! RES: using more than one's share.

mod cells;
mod crowd;
mod disk;
mod memory;
mod rest;

use std::time::{Duration, Instant};

use belljar_domain::limits::MIB;
use belljar_domain::{EndReason, Spec};
use belljar_node::Defence::{
    CgroupCpu, CgroupMemory, CgroupPids, NetNamespace, Rlimits, Seccomp, SizedDisk, SizedInodes,
};

use crate::attack::{Act, Attack, Control, Payload, Run, Seen, full, payload, verdict};
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::stage::{Ran, Stage};

/// RLIMIT_NPROC is a second lock on processes.
const NO_PIDS_LIMIT: Control = Control::Without(&[CgroupPids, Rlimits]);
const NO_MEMORY_LIMIT: Control = Control::Without(&[CgroupMemory]);

pub(crate) fn attacks() -> Vec<Attack> {
    let one = |id, payload: Payload, control| Attack::new(id, Act::Payload(payload), control);
    let driven = |id, act: fn(Stage) -> Run, control| Attack::new(id, Act::Driven(act), control);
    let no_device = "the writable layer is in memory: there is no device to throttle";
    let counted = "the bill is the kernel's counter; nothing else could be asked";
    let warm = "the limits are those of RES-01 to RES-13, where each is switched off in turn";
    let walk = "trees are walked without recursion; there is no other walk to switch to";
    vec![
        driven("RES-01", |stage| Box::pin(fork_bomb(stage)), NO_PIDS_LIMIT)
            .alone("a bomb of processes"),
        one("RES-02", THREADS, NO_PIDS_LIMIT).alone("a bomb of threads"),
        driven("RES-03", |stage| Box::pin(memory::touched(stage)), NO_MEMORY_LIMIT)
            .alone("it takes memory until it is stopped"),
        driven(
            "RES-04",
            |stage| Box::pin(memory::without_owner(stage)),
            Control::Without(&[CgroupMemory, Rlimits]),
        )
        .alone("it counts shared memory of the whole host"),
        one("RES-05", BUFFERS, NO_MEMORY_LIMIT).alone("it takes memory until it is stopped"),
        driven("RES-06", |stage| Box::pin(memory::of_the_manager(stage)), NO_MEMORY_LIMIT),
        driven("RES-07", |stage| Box::pin(rest::objects(stage)), Control::Without(&[Rlimits])),
        driven("RES-08", |stage| Box::pin(cpu(stage)), Control::Without(&[CgroupCpu]))
            .alone("it measures shares of the processors"),
        driven("RES-09", |stage| Box::pin(disk::full(stage)), Control::Without(&[SizedDisk])),
        driven("RES-10", |stage| Box::pin(disk::inodes(stage)), Control::Without(&[SizedInodes])),
        driven("RES-11", |stage| Box::pin(disk::sparse(stage)), Control::Without(&[Rlimits])),
        driven("RES-12", |stage| Box::pin(disk::trees(stage)), Control::Because(walk)),
        driven("RES-13", |stage| Box::pin(rest::descriptors(stage)), Control::Without(&[Rlimits])),
        one("RES-14", payload("res/res_14.c").args(&["2"]), Control::Because(no_device))
            .alone("it floods the disk"),
        driven("RES-15", |stage| Box::pin(memory::misses(stage)), NO_MEMORY_LIMIT)
            .alone("it counts names that the whole host remembers"),
        driven("RES-16", |stage| Box::pin(rest::log_storm(stage)), Control::Without(&[Seccomp]))
            .alone("it floods the log of the kernel"),
        one("RES-17", payload("res/res_17.c").args(&["5"]), Control::Without(&[Rlimits])),
        driven("RES-18", |stage| Box::pin(crowd::of_memory(stage)), NO_MEMORY_LIMIT)
            .alone("a crowd takes the memory of the host"),
        driven("RES-19", |stage| Box::pin(crowd::of_processes(stage)), NO_PIDS_LIMIT)
            .alone("a crowd takes the processes of the host"),
        driven(
            "RES-20",
            |stage| Box::pin(crowd::one_after_another(stage)),
            Control::Because("what is counted is the clean-up itself"),
        )
        .alone("it counts what is left on the host"),
        driven(
            "RES-21",
            |stage| Box::pin(rest::connections(stage)),
            Control::Without(&[NetNamespace]),
        ),
        one("RES-22", BURSTS, Control::Because(counted)),
        driven("RES-23", |stage| Box::pin(cells::all(stage)), Control::Because(warm)),
        // The limit for each user does not hold it, so it is there in the control as well.
        one("RES-24", MANY_USERS, Control::Without(&[CgroupPids]))
            .alone("a bomb of processes of many users"),
    ]
}

const fn few(spec: &mut Spec) {
    spec.limits.pids = 64;
}

/// Held by the limit of processes: by its verdict, or because it ended so.
fn by_pids(ran: &Ran) -> anyhow::Result<Seen> {
    if ran.end.reason == EndReason::Pids {
        return Ok(Seen::Held("ended for its processes".to_owned()));
    }
    verdict(ran)
}

/// Held by the limit of memory: by its verdict, or because it ended so. The
/// kernel's own count must never have been above the limit.
fn by_memory(ran: &Ran, limit: u64) -> anyhow::Result<Seen> {
    let peak = ran.end.usage.peak_memory_bytes.unwrap_or(0);
    if peak > limit {
        return Ok(Seen::Breach(format!("{} MiB were in use", peak / MIB)));
    }
    if ran.end.reason == EndReason::Oom {
        return Ok(Seen::Held(format!("ended for its memory at {} MiB", peak / MIB)));
    }
    verdict(ran)
}

const THREADS: Payload = payload("res/res_02.c").args(&["200"]).tune(few).judge(by_pids);

const MANY_USERS: Payload = payload("res/res_24.c")
    .args(&["300"])
    .as_full_root()
    .tune(|spec| {
        few(spec);
        full(spec);
    })
    .judge(by_pids);

const BUFFERS: Payload = payload("res/res_05.c")
    .args(&["128"])
    .tune(|spec| spec.limits.memory_bytes = 64 * MIB)
    .judge(|ran| by_memory(ran, 64 * MIB));

const BURSTS: Payload = payload("res/res_22.c").args(&["2", "64"]).judge(|ran| {
    let bill = ran.end.usage;
    let said = ran.after("NOTE CPU_MS=").concat();
    let own: u64 = said.split(' ').next().unwrap_or_default().parse()?;
    let mut findings = Findings::default();
    let billed = bill.cpu >= Duration::from_millis(own * 95 / 100);
    findings.expect(billed, "CPU time is billed", format!("{:?} of {own} ms", bill.cpu));
    let peak = bill.peak_memory_bytes.unwrap_or(0);
    findings.expect(peak >= 64 * MIB, "peak memory is billed", peak);
    findings.verdict(ran)?;
    Ok(findings.seen())
});

/// Compares how long the host takes to start a program with how long it took before.
fn starts_on(findings: &mut Findings, before: Duration, now: Duration) {
    let is_so = now < before * host::SLOWER_START;
    findings.expect_in_time(is_so, "the host starts programs", format!("{before:?}, then {now:?}"));
}

async fn fork_bomb(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let before = host::usual_start().await?;
    for mode in ["once", "stubborn"] {
        let sandbox = stage.sandbox(few).await?;
        let command = stage.place(&sandbox, "res/res_01.c", &[mode, "200"]).await?;
        let running = stage.start(&sandbox, &command).await?;
        let (ran, start) = tokio::join!(running.finish(), host::usual_start());
        let (ran, start) = (ran?, start?);
        findings.add(by_pids(&ran)?);
        if findings.is_breached() {
            break;
        }
        let typed = ran.end.reason == EndReason::Pids;
        findings.expect(typed, "it ended for its processes", ran.ending());
        starts_on(&mut findings, before, start);
    }
    Ok(findings.seen())
}

async fn cpu(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    // So small a share that also a busy host would give more, if nothing limited it.
    let sandbox = stage.sandbox(|spec| spec.limits.cpu_millis = 200).await?;
    let command = stage.place(&sandbox, "res/res_08.c", &["200", "2"]).await?;
    let begin = Instant::now();
    let ran = stage.exec(&sandbox, &command).await?;
    findings.verdict(&ran)?;
    let used = ran.end.usage.cpu;
    let share = begin.elapsed() * 2 / 5;
    findings.expect(used < share, "the bill is its share", format!("{used:?}"));
    Ok(findings.seen())
}
