//! Memory of every kind.

use belljar_model::EndReason;
use belljar_model::limits::MIB;
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

/// Names that are not there are remembered at the asker's expense.
pub(super) async fn misses(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let before = host::slab("dentry");
    let sandbox = stage.sandbox(|spec| spec.limits.memory_bytes = LIMIT).await?;
    let ran = stage.run(&sandbox, "res/res_15.c", &["1000000", "3"]).await?;
    findings.add(by_memory(&ran, LIMIT)?);
    stage.destroy(sandbox).await?;
    if let (Some(before), Some(after)) = (before, host::slab("dentry")) {
        // Misses below shared directories stay until the kernel wants them
        // back, but never more than the sandbox had memory for.
        let grown = after.saturating_sub(before);
        findings.expect(grown < 600_000, "the host keeps few of them", format!("{grown} more"));
    }
    Ok(findings.seen())
}
