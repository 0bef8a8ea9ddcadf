//! Files without end: in size, in number, in depth.

use std::time::Instant;

use anyhow::Context as _;
use belljar_domain::limits::MIB;
use belljar_domain::{EndReason, User};
use belljar_node::{Command, FileError};

use crate::attack::{Seen, verdict};
use crate::harness::files::{self, HANG_LIMIT, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::stage::Stage;

const DISK: u64 = 32 * MIB;

pub(super) async fn full(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for dir in ["/tmp", "/home/user"] {
        for mode in ["many", "write", "fallocate", "deleted"] {
            let sandbox = stage
                .sandbox(|spec| {
                    spec.limits.disk_bytes = DISK;
                    spec.limits.memory_bytes = 512 * MIB;
                })
                .await?;
            let ran = stage.run(&sandbox, "res/res_09.c", &[mode, "256", dir]).await?;
            findings.verdict(&ran)?;
            let written = ran.end.usage.written_bytes;
            findings.expect(written <= DISK, "no more than the disk is written", written);
            if findings.is_breached() {
                return Ok(findings.seen());
            }
        }
    }
    // A program that fails for it ends so.
    let sandbox = stage.sandbox(|spec| spec.limits.disk_bytes = DISK).await?;
    let ran = stage.exec(&sandbox, &Command::shell("cat /dev/zero > /tmp/full")).await?;
    findings.expect(ran.end.reason == EndReason::Disk, "it ended for its disk", ran.ending());
    Ok(findings.seen())
}

pub(super) async fn inodes(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for mode in ["links", "symlinks", "dirs", "files"] {
        let sandbox = stage
            .sandbox(|spec| {
                spec.limits.inodes = 4096;
                spec.limits.memory_bytes = 512 * MIB;
            })
            .await?;
        let ran = stage.run(&sandbox, "res/res_10.c", &[mode, "20000"]).await?;
        findings.verdict(&ran)?;
        if findings.is_breached() {
            break;
        }
        let ran = stage.exec(&sandbox, &Command::shell(": > /tmp/res10/more")).await?;
        findings.expect(ran.end.reason == EndReason::Disk, "it ended for its disk", ran.ending());
    }
    Ok(findings.seen())
}

pub(super) async fn sparse(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    // Once with a usual disk, once with one that is large by name.
    for disk in [DISK, 2 << 40] {
        let sandbox = stage.sandbox(|spec| spec.limits.disk_bytes = disk).await?;
        let ran = stage.run(&sandbox, "res/res_11.c", &["1024"]).await?;
        verdict(&ran)?;
        let said = ran.after("NOTE APPARENT=").concat();
        let apparent = said.split(' ').next().unwrap_or_default();
        let apparent: u64 = apparent.parse().context("no size was said")?;
        let fits = apparent <= disk;
        findings.expect(fits, "a file is no larger than the disk", apparent);
        let written = ran.end.usage.written_bytes;
        findings.expect(written < MIB, "holes are not counted", written);
        let before = host::own_resident();
        let got = files::download(&sandbox, b"/tmp/res11.sparse", LIMIT).await?;
        let refused = match &got {
            Err(FileError::TooLarge { size, .. }) => *size == apparent,
            Err(_) => false,
            Ok(bytes) => bytes.len() as u64 == apparent,
        };
        findings.expect(refused, "a large file is refused by its size", format!("{got:?}"));
        let grown = host::own_resident().saturating_sub(before);
        findings.expect(grown < 8 * MIB, "no memory is taken for it", grown);
    }
    Ok(findings.seen())
}

pub(super) async fn trees(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for (mode, count) in [("deep", "8000"), ("wide", "15000")] {
        for remove in [true, false] {
            let sandbox = stage
                .sandbox(|spec| {
                    spec.limits.inodes = 200_000;
                    spec.limits.memory_bytes = 512 * MIB;
                })
                .await?;
            let ran = stage.run(&sandbox, "res/res_12.c", &[mode, count]).await?;
            verdict(&ran)?;
            let before = host::own_resident();
            let listing = files::list(&sandbox, b"/tmp/res12").await??;
            let bounded = listing.entries.len() <= 10_000;
            findings.expect(bounded, "a list is bounded", listing.entries.len());
            let deep =
                tokio::time::timeout(HANG_LIMIT, sandbox.list(User::User, b"/tmp/res12", 9999));
            let deep = deep.await.context("a deep list hangs")?;
            let entries = deep.map_or(0, |listing| listing.entries.len());
            findings.expect(entries <= 10_000, "a deep list is bounded", entries);
            let grown = host::own_resident().saturating_sub(before);
            findings.expect(grown < 24 * MIB, "lists take little memory", grown);
            if remove {
                let begin = Instant::now();
                sandbox.remove(User::User, b"/tmp/res12").await.context("cannot remove it")?;
                findings.in_time(begin.elapsed(), "it is removed");
            }
            let took = stage.destroy(sandbox).await?;
            findings.in_time(took, "it is destroyed at once");
        }
    }
    Ok(findings.seen())
}
