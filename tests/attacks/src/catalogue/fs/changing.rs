//! Files that change while they are moved.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::EndReason;
use belljar_domain::User;
use belljar_domain::limits::MIB;
use belljar_node::{Command, FileError};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::attack::{Seen, verdict};
use crate::harness::files::{self, Broken, HANG_LIMIT, LIMIT, Then};
use crate::harness::findings::Findings;
use crate::harness::on_host::{self, Resolved};
use crate::harness::stage::{Running, Stage};

/// A directory and a symlink to the host's canary change places all the time.
pub(super) async fn swapped(stage: Stage, resolved: Resolved) -> anyhow::Result<Seen> {
    let outside = stage.canaries().dir().join("own-fs03");
    std::fs::create_dir_all(&outside)?;
    std::fs::write(outside.join("f"), "HOST\n")?;
    let seen = match resolved {
        Resolved::Inside => transfer_through_swaps(&stage, &outside).await,
        Resolved::OnHost => transfer_on_host(&stage, &outside).await,
    };
    let left = std::fs::read_dir(&outside)?.count();
    std::fs::remove_dir_all(&outside)?;
    if left != 1 {
        return Ok(Seen::Breach(format!("{left} files came into the host's directory")));
    }
    seen
}

async fn transfer_through_swaps(stage: &Stage, outside: &std::path::Path) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let outside = outside.display().to_string();
    let command = stage.place(&sandbox, "fs/fs_03.c", &["/tmp/fs03", &*outside, "2"]).await?;
    let mut running = stage.start(&sandbox, &command).await?;
    running.until("NOTE swapping").await?;
    let end = Instant::now() + Duration::from_millis(1700);
    let (mut transfers, mut inside, mut decoys) = (0, 0, 0);
    while Instant::now() < end {
        match files::download(&sandbox, b"/tmp/fs03/d/f", LIMIT).await? {
            Ok(bytes) if bytes == b"INSIDE\n" => inside += 1,
            Ok(bytes) if bytes == b"GUEST-DECOY\n" => decoys += 1,
            Ok(bytes) => findings.breach(format!("read {}", bytes.escape_ascii())),
            Err(_) => {}
        }
        let path = format!("/tmp/fs03/d/new-{}", transfers % 16);
        let _ = files::upload(&sandbox, path.as_bytes(), b"fs03").await?;
        transfers += 2;
    }
    findings.verdict(&running.finish().await?)?;
    ensure!(inside > 0 && decoys > 0 && transfers > 100, "{transfers} {inside} {decoys}");
    findings.held(format!("{transfers} transfers, {decoys} through the link"));
    Ok(findings.seen())
}

/// The same by the mutant: a link that is there for a moment leads it to the host's file.
async fn transfer_on_host(stage: &Stage, outside: &std::path::Path) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let shown = outside.display().to_string();
    let command = stage.place(&sandbox, "fs/fs_03.c", &["/tmp/fs03", &*shown, "2"]).await?;
    let mut running = stage.start(&sandbox, &command).await?;
    running.until("NOTE swapping").await?;
    let end = Instant::now() + Duration::from_millis(1700);
    let (mut read, mut written) = (0, 0);
    while Instant::now() < end && (read == 0 || written == 0) {
        let got = on_host::download(&sandbox, b"/tmp/fs03/d/f", LIMIT);
        read += usize::from(got.is_ok_and(|bytes| bytes == b"HOST\n"));
        let place = (&b"/tmp/fs03/d"[..], "new");
        written += usize::from(on_host::upload(&sandbox, place, b"fs03", outside).is_ok());
        tokio::task::yield_now().await;
    }
    running.call.kill();
    running.finish().await?;
    Ok(match (read, written) {
        (0, _) | (_, 0) => Seen::Held(format!("read {read}, written {written}")),
        _ => Seen::Breach("the host's file was read, and another one written beside it".to_owned()),
    })
}

pub(super) async fn under_the_reader(stage: Stage, resolved: Resolved) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for mode in ["grow", "shrink", "vanish"] {
        let sandbox = stage.sandbox(|_| {}).await?;
        let command = stage.place(&sandbox, "fs/fs_06.c", &[mode, "/tmp/f", "1"]).await?;
        let mut running = stage.start(&sandbox, &command).await?;
        running.until("NOTE changing").await?;
        let end = Instant::now() + Duration::from_millis(900);
        let (mut whole, mut refused) = (0, 0);
        while Instant::now() < end {
            let got = match resolved {
                Resolved::Inside => files::download(&sandbox, b"/tmp/f", LIMIT).await?,
                Resolved::OnHost => {
                    tokio::task::yield_now().await;
                    let got = on_host::download_by_first_size(&sandbox, b"/tmp/f");
                    got.map_err(FileError::Source)
                }
            };
            match got {
                Ok(bytes) => {
                    whole += 1;
                    // A hole that the file had for a moment reads as zero.
                    let own = bytes.iter().all(|&byte| byte == b'g' || byte == 0);
                    findings.expect(own, "only its own bytes", format!("{mode}: others"));
                }
                Err(FileError::Link(error)) => findings.breach(format!("{mode}: {error}")),
                Err(_) => refused += 1,
            }
        }
        findings.verdict(&running.finish().await?)?;
        let ran = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
        findings.expect(ran.end.reason == EndReason::Done, "it still serves", ran.ending());
        ensure!(whole + refused > 2, "too few downloads");
    }
    Ok(findings.seen())
}

/// Whether someone writes to the file in its place instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InPlace {
    No,
    Yes,
}

/// Uploads from many sides, some of which break off half-way.
pub(super) async fn uploads(stage: Stage, in_place: InPlace) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|spec| spec.limits.memory_bytes = 512 * MIB).await?;
    let args = ["watch", "/tmp/fs17", "1024", "2"];
    let watch = stage.place(&sandbox, "fs/fs_17.c", &args).await?;
    let mut watching = stage.start(&sandbox, &watch).await?;
    watching.until("NOTE watching").await?;
    let end = Instant::now() + Duration::from_millis(1500);
    if in_place == InPlace::Yes {
        let script = "while :; do /usr/bin/head -c 1048576 /dev/zero > /tmp/fs17/target; done";
        let mut command = Command::shell(script);
        command.wall = Some(Duration::from_millis(1500));
        stage.exec(&sandbox, &command).await?;
    } else {
        let mut sides = JoinSet::new();
        for side in 0..8u8 {
            sides.spawn(upload_until(sandbox.clone(), side, end));
        }
        while let Some(side) = sides.join_next().await {
            side??;
        }
    }
    findings.verdict(&watching.finish().await?)?;
    let mut check = watch.clone();
    check.argv[1] = b"check".to_vec();
    let last = vec![b'z'; 1 << 20];
    files::upload(&sandbox, b"/tmp/fs17/target", &last).await??;
    findings.verdict(&stage.exec(&sandbox, &check).await?)?;
    if in_place == InPlace::No {
        broken_off(&stage, &mut findings).await?;
    }
    Ok(findings.seen())
}

/// An upload that is dropped in the middle of a frame, because a paused guest
/// takes no more, leaves the stream to the guest in order.
async fn broken_off(stage: &Stage, findings: &mut Findings) -> anyhow::Result<()> {
    let sandbox = stage.sandbox(|_| {}).await?;
    for _ in 0..3 {
        sandbox.pause().await?;
        let mut source = &*vec![b'x'; 4 << 20];
        let upload = sandbox.upload(User::User, b"/tmp/broken-off", 0o644, &mut source);
        let dropped = timeout(Duration::from_millis(30), upload).await.is_err();
        sandbox.resume().await?;
        ensure!(dropped, "a paused guest took it all");
        let later = timeout(HANG_LIMIT, stage.exec(&sandbox, &Command::new(["/bin/true"]))).await;
        let later = later.context("a call after an upload that was broken off hangs")?;
        let serves = matches!(&later, Ok(ran) if ran.end.reason == EndReason::Done);
        findings.expect(serves, "an upload that is broken off hurts no other", "it does");
        if !serves {
            break;
        }
    }
    Ok(())
}

async fn upload_until(
    sandbox: std::sync::Arc<belljar_node::Sandbox>,
    side: u8,
    end: Instant,
) -> anyhow::Result<()> {
    let bytes = vec![b'a' + side; 1 << 20];
    let mut round = 0u32;
    while Instant::now() < end {
        let then = if round.is_multiple_of(8) { Then::Stall } else { Then::Fail };
        let mut broken = Broken { byte: b'a' + side, left: 1 << 19, then };
        let mut whole = &bytes[..];
        let source: &mut (dyn tokio::io::AsyncRead + Unpin + Send) =
            if round.is_multiple_of(4) { &mut broken } else { &mut whole };
        // A stalled one is dropped in the middle.
        let patience = if round.is_multiple_of(8) { Duration::from_millis(50) } else { HANG_LIMIT };
        let path = b"/tmp/fs17/target";
        let _ = timeout(patience, sandbox.upload(User::User, path, 0o644, source)).await;
        round += 1;
    }
    ensure!(round > 0, "no upload");
    Ok(())
}

/// Writes are acknowledged while the sandbox is paused and resumed; all of them
/// must be there after it, and `more` that were never written must not.
pub(super) async fn paused(stage: Stage, more: u64) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let args = ["write", "/tmp/fs19.log", "2000"];
    let write = stage.place(&sandbox, "fs/fs_19.c", &args).await?;
    let mut running = stage.start(&sandbox, &write).await?;
    running.until("NOTE ACK 1").await?;
    for _ in 0..15 {
        sandbox.pause().await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        sandbox.resume().await?;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    let acknowledged = last_acknowledged(running).await? + more;
    let args = ["check".to_owned(), "/tmp/fs19.log".to_owned(), acknowledged.to_string()];
    let check = stage.place(&sandbox, "fs/fs_19.c", &args).await?;
    verdict(&stage.exec(&sandbox, &check).await?)
}

/// Ends the writer in the middle.
async fn last_acknowledged(running: Running) -> anyhow::Result<u64> {
    running.call.kill();
    let ran = running.finish().await?;
    let last = ran.after("NOTE ACK ").pop().context("nothing was acknowledged")?;
    Ok(last.parse()?)
}
