//! Memory of every kind.

use belljar_domain::EndReason;
use belljar_domain::limits::MIB;
use belljar_node::Command;

use super::by_memory;
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::stage::Stage;

const LIMIT: u64 = 128 * MIB;

pub(super) async fn touched(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for mode in ["one", "child"] {
        let sandbox = stage.sandbox(|spec| spec.limits.memory_bytes = LIMIT).await?;
        let ran = stage.run(&sandbox, "res/res_03.c", &[mode, "512"]).await?;
        findings.add(by_memory(&ran, LIMIT)?);
        if findings.is_breached() {
            break;
        }
        findings.expect(ran.end.reason == EndReason::Oom, "it ended as oom", ran.ending());
        // The guest is spared: another call can still run.
        let later = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
        let serves = later.end.reason == EndReason::Done;
        findings.expect(serves, "the sandbox still serves", later.ending());
    }
    Ok(findings.seen())
}

pub(super) async fn without_owner(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let segments = host::segments();
    for mode in ["memfd", "shm", "tmp", "sysv", "all"] {
        let sandbox = stage
            .sandbox(|spec| {
                spec.limits.memory_bytes = LIMIT;
                spec.limits.disk_bytes = 64 * MIB;
            })
            .await?;
        let ran = stage.run(&sandbox, "res/res_04.c", &[mode]).await?;
        findings.add(by_memory(&ran, LIMIT)?);
        if findings.is_breached() {
            break;
        }
    }
    let now = host::segments();
    findings.expect(now == segments, "no segment is left on the host", now);
    Ok(findings.seen())
}

pub(super) async fn of_the_manager(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let limit = 64 * MIB;
    for mode in ["tables", "vmas", "splits"] {
        let sandbox = stage.sandbox(|spec| spec.limits.memory_bytes = limit).await?;
        let ran = stage.run(&sandbox, "res/res_06.c", &[mode]).await?;
        findings.add(by_memory(&ran, limit)?);
        if findings.is_breached() {
            break;
        }
    }
    Ok(findings.seen())
}

/// What the host may keep of the names: fewer than the sandbox had memory for.
const KEPT_NAMES: u64 = 600_000;

/// Names that are not there are remembered at the asker's expense. Only the whole host's
/// names can be counted, and programs of the host look for names, too: a sandbox that
/// leaves them behind does so each time.
pub(super) async fn misses(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let mut grown = Vec::new();
    for _ in 0..3 {
        let before = host::slab("dentry");
        let sandbox = stage.sandbox(|spec| spec.limits.memory_bytes = LIMIT).await?;
        let ran = stage.run(&sandbox, "res/res_15.c", &["1000000", "3"]).await?;
        findings.add(by_memory(&ran, LIMIT)?);
        stage.destroy(sandbox).await?;
        // Misses below shared directories stay until the kernel wants them back.
        let Some((before, after)) = before.zip(host::slab("dentry")) else { break };
        grown.push(after.saturating_sub(before));
        if after.saturating_sub(before) < KEPT_NAMES || findings.is_breached() {
            break;
        }
    }
    let few = grown.last().is_none_or(|grown| *grown < KEPT_NAMES);
    findings.expect(few, "the host keeps few of them", format!("{grown:?} more"));
    Ok(findings.seen())
}
