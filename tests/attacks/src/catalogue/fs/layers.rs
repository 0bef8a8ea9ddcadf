//! The writable layer, the base under it, and what becomes of both.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use belljar_domain::limits::MIB;
use belljar_domain::{Bind, EndReason, Spec, User};
use belljar_node::{Defence, EntryKind, FileError, Leftovers};

use crate::attack::{Seen, verdict};
use crate::harness::disk;
use crate::harness::files::{self, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::on_host::{self, Resolved};
use crate::harness::stage::Stage;

/// A tree full of links to the host's canaries is taken down. The oracle looks
/// at owner, mode and change time of the canary after it.
pub(super) async fn clean_up(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let (file, dir) = {
        let canaries = stage.canaries();
        (canaries.file().display().to_string(), canaries.dir().display().to_string())
    };
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "fs/fs_07.c", &["/tmp/fs07", &*file, &*dir]).await?;
    findings.verdict(&ran)?;
    // The one deletion that does walk is asked for too: it stays inside.
    let removed = sandbox.remove(User::User, b"/tmp/fs07/tmp").await;
    findings.held(format!("removal inside: {}", removed.is_ok()));
    let took = stage.destroy(sandbox).await?;
    findings.in_time(took, "it is destroyed at once");
    let alive = Path::new(&file).exists() && stage.canaries().touched().is_empty();
    findings.expect(alive, "the canaries are untouched", "they are not");
    Ok(findings.seen())
}

/// The same tree, with links to a directory of the host's that is there for it, taken down
/// by the mutant, which walks.
pub(super) async fn walking_clean_up(stage: Stage) -> anyhow::Result<Seen> {
    let outside = stage.canaries().dir().join("own-fs07");
    fs::create_dir_all(&outside)?;
    let file = outside.join("f");
    fs::write(&file, "HOST\n")?;
    let sandbox = stage.sandbox(|_| {}).await?;
    let args = ["/tmp/fs07".to_owned(), file.display().to_string(), outside.display().to_string()];
    verdict(&stage.run(&sandbox, "fs/fs_07.c", &args).await?)?;
    let removed = on_host::remove_below(&sandbox, b"/tmp/fs07", &outside);
    let is_there = file.exists();
    fs::remove_dir_all(&outside)?;
    removed?;
    Ok(if is_there {
        Seen::Held("the host's file is still there".to_owned())
    } else {
        Seen::Breach("a file of the host's was removed by way of a link".to_owned())
    })
}

/// The owner of the base's directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// Another user than the code's.
    Owned,
    /// Anyone: the mutant, whose `/etc` is open.
    Open,
}

pub(super) async fn unpacked(stage: Stage, base: Base) -> anyhow::Result<Seen> {
    let layer = tempfile::Builder::new().prefix("belljar-open-").tempdir()?;
    let etc = layer.path().join("etc");
    fs::create_dir(&etc)?;
    fs::set_permissions(layer.path(), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&etc, fs::Permissions::from_mode(0o777))?;
    let open = |spec: &mut Spec| {
        if base == Base::Open {
            spec.root.layers.insert(0, layer.path().to_owned());
        }
    };
    let sandbox = stage.sandbox(open).await?;
    verdict(&stage.run(&sandbox, "fs/fs_08.py", &[""; 0]).await?)
}

/// The archive comes out as it is; no parser of the host has a look at it.
pub(super) async fn hidden_members(stage: Stage, resolved: Resolved) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "fs/fs_09.py", &["/tmp/fs09.tar"]).await?;
    findings.verdict(&ran)?;
    let archive = files::download(&sandbox, b"/tmp/fs09.tar", LIMIT).await??;
    let whole = archive.len() % 512 == 0 && archive.windows(12).any(|part| part == b"hidden-inner");
    findings.expect(whole, "the archive comes out as it is", archive.len());
    if resolved == Resolved::OnHost {
        let names = on_host::names_in(&archive);
        let hidden = names.iter().any(|name| name.starts_with("../"));
        findings.expect(!hidden, "no hidden member is found", format!("{names:?}"));
    }
    Ok(findings.seen())
}

/// A program of the base that all sandboxes share.
const SHARED: &str = "/usr/bin/env";

pub(super) async fn base(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let before = std::fs::read(SHARED)?;
    for user in [User::User, User::Root] {
        let sandbox = stage.sandbox(|_| {}).await?;
        let mut command = stage.place(&sandbox, "fs/fs_12.c", &[""; 0]).await?;
        command.user = user;
        findings.verdict(&stage.exec(&sandbox, &command).await?)?;
    }
    let same = std::fs::read(SHARED)? == before && disk::is_unchanged(Path::new(SHARED)).is_ok();
    findings.expect(same, "the shared base is as it was", "it changed");
    Ok(findings.seen())
}

/// A base that can be written, in a directory of the host's that is there for it. The rest
/// belongs to users that no sandbox has.
pub(super) async fn writable_base(stage: Stage) -> anyhow::Result<Seen> {
    let stage = stage.without(&[Defence::ReadOnlyLower]);
    let layer = tempfile::Builder::new().prefix("belljar-base-").tempdir()?;
    let shared = layer.path().join("shared");
    for dir in [&shared, &layer.path().join("opt")] {
        fs::create_dir(dir)?;
    }
    fs::set_permissions(layer.path(), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777))?;
    let sandbox = stage
        .sandbox(|spec| {
            spec.root.layers.insert(0, layer.path().to_owned());
            spec.root.binds.push(Bind::of_sandboxes(shared, "/opt"));
        })
        .await?;
    verdict(&stage.run(&sandbox, "fs/fs_12.c", &[""; 0]).await?)
}

pub(super) async fn whiteouts(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for dir in ["/dev/shm/fs13", "/home/user/fs13"] {
        let sandbox = stage.sandbox(|_| {}).await?;
        findings.verdict(&stage.run(&sandbox, "fs/fs_13.c", &[dir]).await?)?;
        sandbox.pause().await?;
        sandbox.resume().await?;
        let listing = files::list(&sandbox, dir.as_bytes()).await??;
        let own = listing.entries.len() == 3;
        findings.expect(own, "nothing foreign shows", format!("{:?}", listing.entries));
        if findings.is_breached() {
            break;
        }
    }
    Ok(findings.seen())
}

/// What becomes of processes that hold files open when their sandbox ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holders {
    Killed,
    /// The mutant.
    WaitedFor,
}

/// Longer than an end may take, shorter than the holder holds on.
const WAITED: Duration = Duration::from_secs(5);

pub(super) async fn held_open(stage: Stage, holders: Holders) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    // An end that waited for the holder would take longer than any may.
    let mut command = stage.place(&sandbox, "fs/fs_14.c", &["60"]).await?;
    command.leftovers = Leftovers::Keep;
    findings.verdict(&stage.exec(&sandbox, &command).await?)?;
    anyhow::ensure!(!host::named(&stage.engines, "bj-fs14").is_empty(), "nobody holds anything");
    if holders == Holders::WaitedFor {
        tokio::time::sleep(WAITED).await;
    } else {
        let took = stage.destroy(sandbox).await?;
        findings.in_time(took, "it is destroyed at once");
    }
    let left = host::named(&stage.engines, "bj-fs14");
    findings.expect(left.is_empty(), "nobody holds on", format!("{left:?}"));
    Ok(findings.seen())
}

/// Whether the first sandbox is gone when the second looks for its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destroyed {
    No,
    Yes,
}

pub(super) async fn former(stage: Stage, destroyed: Destroyed) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let secret = format!("fs18-{}", sandbox.id());
    findings.verdict(&stage.run(&sandbox, "fs/fs_18.c", &["plant", &*secret]).await?)?;
    let later = if destroyed == Destroyed::Yes {
        stage.destroy(sandbox).await?;
        stage.sandbox(|_| {}).await?
    } else {
        sandbox
    };
    findings.verdict(&stage.run(&later, "fs/fs_18.c", &["probe", &*secret]).await?)?;
    Ok(findings.seen())
}

pub(super) async fn special(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for dir in ["/dev/shm/fs20", "/home/user/fs20"] {
        let sandbox = stage.sandbox(|spec| spec.limits.disk_bytes = 64 * MIB).await?;
        let ran = stage.run(&sandbox, "fs/fs_20.c", &[dir]).await?;
        findings.verdict(&ran)?;
        let written = ran.end.usage.written_bytes;
        findings.expect(written < 16 * MIB, "holes are not counted", written);
        findings.expect(ran.end.reason == EndReason::Done, "it is done", ran.ending());
        sandbox.pause().await?;
        sandbox.resume().await?;
        let hole = format!("{dir}/hole");
        let got = files::download(&sandbox, hole.as_bytes(), LIMIT).await?;
        let refused = matches!(got, Err(FileError::TooLarge { .. }));
        findings.expect(refused, "a hole counts by its size", format!("{:?}", got.map(|_| ())));
        let listing = files::list(&sandbox, dir.as_bytes()).await??;
        let devices = listing.entries.iter().filter(|entry| entry.kind == EntryKind::Device);
        // Renaming leaves a node 0:0 on a plain tmpfs, which means nothing there.
        let most = usize::from(dir.starts_with("/dev/shm"));
        let devices = devices.count();
        findings.expect(devices <= most, "no device came to be", devices);
        let took = stage.destroy(sandbox).await?;
        findings.in_time(took, "it is destroyed at once");
        if findings.is_breached() {
            break;
        }
    }
    Ok(findings.seen())
}
