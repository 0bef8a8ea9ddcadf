//! Images whose files lead the runtime astray while it makes the container.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use belljar_domain::User;
use belljar_node::{Command, PtySize, Sandbox};
use tempfile::TempDir;

use super::ended_well;
use crate::attack::Seen;
use crate::harness::files::HANG_LIMIT;
use crate::harness::stage::Stage;

/// What a runtime that follows the link would write to.
const PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// A layer with these links in it: where each is, and where it leads.
fn layer(links: &[(&str, &str)]) -> anyhow::Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("belljar-hostile-").tempdir()?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    for (path, target) in links {
        let path = dir.path().join(path);
        let above = path.parent().context("no directory")?;
        fs::create_dir_all(above)?;
        symlink(target, &path)?;
    }
    Ok(dir)
}

/// A sandbox on a hostile layer; `None` where that is refused.
async fn on(stage: &Stage, layer: &Path) -> anyhow::Result<Option<Arc<Sandbox>>> {
    let mut spec = stage.spec();
    spec.root.layers.insert(0, layer.to_owned());
    match stage.node.create_weakened(&spec, &stage.weakened).await {
        Ok(sandbox) => stage.keep(sandbox).map(Some),
        Err(_) => Ok(None),
    }
}

/// What a sandbox on each of the layers does to the host; canaries are looked at
/// after the run as always.
async fn all(stage: &Stage, sets: &[&[(&str, &str)]]) -> anyhow::Result<Seen> {
    let before = fs::read_to_string(PATTERN)?;
    let (mut refused, mut made) = (0, 0);
    for links in sets {
        let layer = layer(links)?;
        let Some(sandbox) = on(stage, layer.path()).await? else {
            refused += 1;
            continue;
        };
        // A sandbox in which no call can start is as good as refused.
        if stage.exec(&sandbox, &Command::shell("true")).await.is_err() {
            refused += 1;
            stage.destroy(sandbox).await?;
            continue;
        }
        made += 1;
        for user in [User::User, User::Root] {
            let write = "echo '|/tmp/evil' > /dev/null; echo x > /dev/pts/0; echo x > /dev/console
                echo x > /dev/tty; stat -L -c '%F %t,%T' /dev/null";
            let command = Command { user, ..Command::shell(write) };
            let ran = stage.exec(&sandbox, &command).await?;
            let null = ran.text();
            if null.trim() != "character special file 1,3" {
                return Ok(Seen::Breach(format!("{links:?}: /dev/null is {null:?}")));
            }
        }
        // A terminal is the guest's own business, on a devpts of its own.
        let tty = Command {
            pty: Some(PtySize { rows: 24, cols: 80 }),
            ..Command::shell("tty; stat -c %F /dev/pts/0")
        };
        let ran = stage.exec(&sandbox, &tty).await?;
        ended_well(&ran)?;
        ensure!(ran.text().contains("/pts/"), "{links:?}: a terminal: {}", ran.ending());
        ensure!(fs::read_to_string(PATTERN)? == before, "{links:?}: {PATTERN} was changed");
        stage.destroy(sandbox).await?;
    }
    ensure!(fs::read_to_string(PATTERN)? == before, "{PATTERN} was changed");
    ensure!(made > 0, "no sandbox could be made at all");
    Ok(Seen::Held(format!("{refused} images refused, {made} made with devices of their own")))
}

/// CVE-2025-31133, and the same with whole directories.
pub(super) async fn null_is_a_link(stage: Stage) -> anyhow::Result<Seen> {
    let sets: [&[(&str, &str)]; 6] = [
        &[("dev/null", PATTERN)],
        &[("dev/zero", PATTERN), ("dev/full", PATTERN), ("dev/random", PATTERN)],
        &[("dev", "/proc/sys/kernel")],
        &[("proc", "/etc")],
        &[(".belljar", "/etc")],
        &[(".belljar/guest", "/proc/self/exe")],
    ];
    all(&stage, &sets).await
}

/// CVE-2025-52565: no console is ever bound, so there is nothing to swap.
pub(super) async fn terminals_are_links(stage: Stage) -> anyhow::Result<Seen> {
    let sets: [&[(&str, &str)]; 4] = [
        &[("dev/console", PATTERN)],
        &[("dev/pts/0", PATTERN), ("dev/pts/ptmx", PATTERN)],
        &[("dev/pts", "/proc/sys/kernel")],
        &[("dev/ptmx", PATTERN), ("dev/tty", PATTERN)],
    ];
    all(&stage, &sets).await
}

/// CVE-2025-52881, CVE-2019-19921: what a runtime writes to procfs goes to what the image has
/// there instead.
pub(super) async fn procfs_is_a_link(stage: Stage) -> anyhow::Result<Seen> {
    let sets: [&[(&str, &str)]; 5] = [
        &[("proc", "/tmp")],
        &[("proc/self", "/proc/1"), ("proc/thread-self", "/proc/1")],
        &[("proc/self/attr/exec", "/proc/sysrq-trigger"), ("proc/self/attr/apparmor", "/proc")],
        &[("proc/sys", "/proc/sys/kernel"), ("proc/sysrq-trigger", PATTERN)],
        &[("proc/self/oom_score_adj", PATTERN), ("proc/self/setgroups", PATTERN)],
    ];
    all(&stage, &sets).await
}

/// CVE-2026-41579, by every road that a link can take.
pub(super) async fn dev_is_a_link(stage: Stage) -> anyhow::Result<Seen> {
    let sets: [&[(&str, &str)]; 6] = [
        &[("dev", "/etc")],
        &[("dev", "../../../../../../dev")],
        &[("dev", "/proc/self/root/dev")],
        &[("dev", "elsewhere"), ("elsewhere", "/sys")],
        &[("dev", "dev")],
        &[("dev/shm", "/etc"), ("dev/mqueue", "/etc")],
    ];
    let before = fs::read_dir("/dev")?.count();
    let seen = all(&stage, &sets).await;
    let after = fs::read_dir("/dev")?.count();
    ensure!(before == after, "the host's /dev has {after} entries, and had {before}");
    seen
}

/// Directories that a runtime mounts something on.
const TARGETS: [&str; 4] = ["dev", "proc", "tmp", "home"];

/// CVE-2021-30465: what a runtime mounts on is swapped for a link while it does.
pub(super) async fn targets_are_swapped(stage: Stage) -> anyhow::Result<Seen> {
    let outside = stage.canaries().dir().join("own-oci07");
    fs::create_dir_all(&outside)?;
    let layer = layer(&[])?;
    for name in TARGETS {
        fs::create_dir(layer.path().join(name))?;
        symlink(&outside, layer.path().join(format!("{name}.link")))?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let (dir, stop) = (layer.path().to_owned(), stop.clone());
        move || swap(&dir, &stop)
    });
    let seen = make_all(&stage, layer.path(), &outside).await;
    stop.store(true, Ordering::Relaxed);
    let swaps = swapping.join().ok().context("the swapping broke off")??;
    fs::remove_dir_all(&outside)?;
    ensure!(swaps > 100, "only {swaps} swaps");
    seen
}

fn swap(dir: &Path, stop: &AtomicBool) -> std::io::Result<u32> {
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        for name in TARGETS {
            let (target, link, aside) =
                (dir.join(name), dir.join(format!("{name}.link")), dir.join("aside"));
            fs::rename(&target, &aside)?;
            fs::rename(&link, &target)?;
            fs::rename(&target, &link)?;
            fs::rename(&aside, &target)?;
            swaps += 1;
        }
    }
    Ok(swaps)
}

async fn make_all(stage: &Stage, layer: &Path, outside: &Path) -> anyhow::Result<Seen> {
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let place = outside.display().to_string();
    let (mut made, mut refused) = (0, 0);
    for _ in 0..12 {
        let sandbox = on(stage, layer).await?;
        ensure!(!mounts().contains(&place), "something is mounted on the host's directory");
        ensure!(fs::read_dir(outside)?.next().is_none(), "something is in the host's directory");
        let Some(sandbox) = sandbox else {
            refused += 1;
            continue;
        };
        let look = Command::shell(
            "stat -L -c '%F %t,%T' /dev/null; grep -c own-oci07 /proc/self/mountinfo",
        );
        let ran = stage.exec(&sandbox, &look).await;
        if let Ok(ran) = ran
            && ran.text().lines().last().is_some_and(|count| count != "0")
        {
            return Ok(Seen::Breach(format!("a mount leads to the host: {}", ran.text())));
        }
        made += 1;
        stage.destroy(sandbox).await?;
    }
    Ok(Seen::Held(format!("{made} made and {refused} refused while their targets were swapped")))
}

/// A program of the host that opens such a target by its name meets the link.
pub(super) async fn swaps_are_met(stage: Stage) -> anyhow::Result<Seen> {
    let outside = stage.canaries().dir().join("own-oci07-met");
    fs::create_dir_all(&outside)?;
    fs::write(outside.join("mark"), "")?;
    let layer = layer(&[])?;
    for name in TARGETS {
        fs::create_dir(layer.path().join(name))?;
        symlink(&outside, layer.path().join(format!("{name}.link")))?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let (dir, stop) = (layer.path().to_owned(), stop.clone());
        move || swap(&dir, &stop)
    });
    let begin = std::time::Instant::now();
    let mut met = false;
    while !met && begin.elapsed() < HANG_LIMIT {
        met = TARGETS.iter().any(|name| layer.path().join(name).join("mark").exists());
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().ok().context("the swapping broke off")??;
    fs::remove_dir_all(&outside)?;
    Ok(if met {
        Seen::Breach("a walk by name ends in the host's directory".to_owned())
    } else {
        Seen::Held("no walk met the link".to_owned())
    })
}

/// The same act finds a device that is none: a file of the code's own in its
/// place, where the code may write.
pub(super) async fn detected(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let look = "ln -s /etc/hostname /tmp/null; stat -L -c '%F %t,%T' /tmp/null";
    let ran = stage.exec(&sandbox, &Command::shell(look)).await?;
    ended_well(&ran)?;
    Ok(match ran.text().trim() {
        "character special file 1,3" => Seen::Held("a link to a file passes for a device".into()),
        other => Seen::Breach(format!("a link is seen for what it leads to: {other}")),
    })
}
