//! Output as a stream: without end, without a reader, full of traps.

use std::time::{Duration, Instant};

use anyhow::ensure;
use belljar_domain::EndReason;
use belljar_domain::limits::MIB;
use belljar_node::{Command, Event};

use super::twins::has_fixed_fields;
use crate::attack::{Seen, verdict};
use crate::harness::files::{self, HANG_LIMIT, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::host::{self, Groups};
use crate::harness::stage::Stage;

/// More memory than this is never taken for output.
const FLAT: u64 = 16 * MIB;

pub(super) async fn endless(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let modes: [&[&str]; 4] = [&["errors"], &["lines"], &["line"], &["bytes", "1500000"]];
    for mode in modes {
        let sandbox = stage.sandbox(|spec| spec.limits.output_bytes = MIB).await?;
        let command = stage.place(&sandbox, "out/out_01.c", mode).await?;
        let before = host::own_resident();
        let mut call = sandbox.start(&command).await?;
        let mut taken = 0;
        let end = loop {
            match call.next().await {
                Event::Stdout(bytes) | Event::Stderr(bytes) => taken += bytes.len() as u64,
                Event::End(end) => break end,
            }
        };
        let ended = end.reason == EndReason::Output;
        findings.expect(ended, "it ended for its output", format!("{mode:?}: {end:?}"));
        findings.expect(taken <= MIB, "no more came out", taken);
        let grown = host::own_resident().saturating_sub(before);
        findings.expect(grown < FLAT, "little memory is taken for it", grown);
        if findings.is_breached() {
            break;
        }
    }
    Ok(findings.seen())
}

/// Nobody reads; the call must end all the same, and nothing piles up.
pub(super) async fn unread(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let wall = Duration::from_millis(1500);
    let sandbox = stage.sandbox(|spec| spec.limits.output_bytes = 32 * MIB).await?;
    let mut command = stage.place(&sandbox, "out/out_07.c", &["64"]).await?;
    command.wall = Some(wall);
    let before = host::own_resident();
    let begin = Instant::now();
    let mut call = sandbox.start(&command).await?;
    tokio::time::sleep(wall / 2).await;
    let other = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
    findings.expect(other.end.reason == EndReason::Done, "others are served", other.ending());
    let groups = Groups::of(&sandbox);
    let ensured = groups.members(call.number());
    ensure!(!ensured.is_empty() || begin.elapsed() > wall, "the call ended too soon");
    let late = begin + wall + HANG_LIMIT;
    while !groups.members(call.number()).is_empty() && Instant::now() < late {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = begin.elapsed();
    let left = groups.members(call.number());
    findings.expect_in_time(left.is_empty(), "it ends unread", format!("{left:?} after {took:?}"));
    let grown = host::own_resident().saturating_sub(before);
    findings.expect(grown < FLAT, "nothing piles up", grown);
    let said = files::download(&sandbox, b"/tmp/out07.count", LIMIT).await??;
    let said = String::from_utf8_lossy(&said).into_owned();
    let count = said.trim_start_matches("BYTES=").split(' ').next().unwrap_or_default();
    let count: u64 = count.parse()?;
    findings.expect(count < 8 * MIB, "its output waits inside", count);
    let end = loop {
        if let Event::End(end) = call.next().await {
            break end;
        }
    };
    let typed = end.reason == EndReason::TimeoutWall;
    findings.expect(typed, "its end is told when someone asks", format!("{end:?}"));
    findings.held(format!("{count} bytes were taken"));
    Ok(findings.seen())
}

const FORGED: &[u8] = b"FORGED-RECORD";

/// Texts that would begin a new record where someone logs them carelessly.
pub(super) async fn records(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "out/out_09.c", &["/tmp/out09"]).await?;
    findings.verdict(&ran)?;
    let run = b"/tmp/out09/run\nFORGED-RECORD path=\"".to_vec();
    let dir = b"/tmp/out09/cwd\r\nFORGED-RECORD cwd=".to_vec();
    let ran = stage.exec(&sandbox, &Command::new([run.clone()])).await?;
    findings.expect(ran.end.exit_code == Some(3), "run by its name", ran.ending());
    let mut command =
        Command::new([b"/bin/echo".to_vec(), b"x\n2026 ERROR FORGED-RECORD".to_vec()]);
    command.cwd = Some(dir.clone());
    let ran = stage.exec(&sandbox, &command).await?;
    findings.expect(ran.end.reason == EndReason::Done, "run in its directory", ran.ending());
    findings.expect(has_fixed_fields(&ran), "its fields are fixed", "they are not");
    let listing = files::list(&sandbox, b"/tmp/out09").await??;
    let names = listing
        .entries
        .iter()
        .filter(|entry| entry.path.windows(FORGED.len()).any(|part| part == FORGED));
    let names = names.count();
    findings.expect(names == 3, "names come back as bytes", names);
    for entry in &listing.entries {
        let _ = files::download(&sandbox, &entry.path, LIMIT).await?;
        // What is logged of an entry is one line, with everything escaped.
        let logged = format!("{entry:?}");
        findings.expect(!logged.contains(['\n', '\r', '\x1b']), "one line", logged);
    }
    // What goes wrong is told in the host's own words, not by the name.
    let mut gone = Command::new([b"/gone\nFORGED-RECORD".to_vec()]);
    gone.cwd = Some(dir);
    let error = stage.exec(&sandbox, &gone).await.err().map(|error| format!("{error:#}"));
    let own = error.as_ref().is_some_and(|error| !error.contains(['\n', '\r']));
    findings.expect(own, "an error is one line", format!("{error:?}"));
    Ok(findings.seen())
}

/// A thousand names of everything; what the host keeps of a call stays the same.
pub(super) async fn labels(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let command = stage.place(&sandbox, "out/out_12.c", &["500"]).await?;
    let plain = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
    let before = host::own_resident();
    let ran = stage.exec(&sandbox, &command).await?;
    verdict(&ran)?;
    findings.expect(ran.end.reason == EndReason::Done, "it is done", ran.ending());
    let grown = host::own_resident().saturating_sub(before);
    findings.expect(grown < FLAT, "nothing is kept of its names", grown);
    let kept = |ran: &crate::harness::stage::Ran| serde_json::to_string(&ran.end).map(|t| t.len());
    let same = kept(&ran)?.abs_diff(kept(&plain)?) < 64;
    findings.expect(same, "a call's record is no longer for it", kept(&ran)?);
    Ok(findings.seen())
}
