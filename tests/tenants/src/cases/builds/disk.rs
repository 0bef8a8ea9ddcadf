//! The disk of a build's step: bounded whatever the step does.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use belljar_sandboxes::{BuildDisks, Config};
use belljar_template::measure::Amount;
use serde_json::json;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::JoinHandle;

use super::{new_directory, run};
use crate::small::{SmallServer, make_base, until};
use crate::world::World;

/// How much a step may write in these cases.
const MOST: Amount = Amount { bytes: 64 << 20, entries: 2000 };

/// A command that tries to use so many MiB, or so many files.
struct Attempt {
    name: &'static str,
    command: fn(u64) -> String,
    /// More than may be, and well below it.
    too_much: u64,
    little: u64,
    /// Whether a watch sees it: what comes and goes between two looks is not seen.
    watched: bool,
}

/// Writes so many MiB into ten files, each by way of a command.
fn ten_files(mib: u64, each: &str) -> String {
    let count = mib.div_ceil(10);
    format!("for i in {{1..10}}; do {}; done", each.replace("COUNT", &count.to_string()))
}

const ATTEMPTS: [Attempt; 5] = [
    Attempt {
        name: "named",
        command: |mib| {
            let write = ten_files(mib, "dd if=/dev/zero of=/named$i bs=1M count=COUNT");
            format!("{write}; rm /named*")
        },
        too_much: 600,
        little: 20,
        watched: true,
    },
    Attempt {
        name: "unlinked",
        command: |mib| {
            let write = "exec {fd}>/x; rm /x; dd if=/dev/zero bs=1M count=COUNT >&$fd";
            ten_files(mib, write)
        },
        too_much: 600,
        little: 20,
        watched: true,
    },
    Attempt {
        name: "deep",
        command: |mib| {
            let way = "for i in {1..300}; do mkdir d; cd d; done";
            let write = ten_files(mib, "dd if=/dev/zero of=f$i bs=1M count=COUNT");
            format!("cd /; {way}; {write}; cd /; rm -r /d")
        },
        too_much: 600,
        little: 20,
        watched: false,
    },
    Attempt {
        name: "allocated",
        command: |mib| format!("{}; rm /f*", ten_files(mib, "fallocate -l COUNTM /f$i")),
        too_much: 800,
        little: 20,
        watched: false,
    },
    Attempt {
        name: "files",
        command: |files| format!("mkdir /m; for i in {{1..{files}}}; do > /m/$i; done; rm -r /m"),
        too_much: 6000,
        little: 100,
        watched: false,
    },
];

/// RES-09/builds: what a step uses is bounded, whatever it is called.
pub(crate) async fn steps_are_bounded(_: &World) -> anyhow::Result<String> {
    let dir = new_directory()?;
    // A file system of its own for the store: what others on this host write is not seen.
    let own = OwnDisk::mount(&dir.path().join("own"), 2 << 30)?;
    make_base(dir.path(), &own.path().join("one-store"))?;
    let adapt = |_: &Path, config: &mut Config| {
        config.builds.written = MOST;
        config.builds.spare_bytes = 1 << 20;
        Ok(())
    };
    let server = SmallServer::start(own.path(), "one", adapt).await?;
    let sized = Box::pin(bounded(&server, own.path(), &ATTEMPTS, 64 << 20)).await;
    server.stop().await?;
    own.unmount()?;
    let watched = Box::pin(watched_steps()).await;
    Ok(format!("{}; watched: {}", sized?, watched?))
}

/// Where no file system of a fixed size can be made, directories are watched: what has no
/// name is stopped when the host runs short of space, before it is out of it.
async fn watched_steps() -> anyhow::Result<String> {
    let dir = new_directory()?;
    let own = OwnDisk::mount(&dir.path().join("own"), 3 << 30)?;
    make_base(dir.path(), &own.path().join("one-store"))?;
    // A quarter of a GiB besides what a step may write.
    let spare = free(own.path())?.saturating_sub(MOST.bytes + (256 << 20));
    let adapt = |_: &Path, config: &mut Config| {
        config.builds.written = MOST;
        config.builds.disks = BuildDisks::Watched;
        config.builds.spare_bytes = spare;
        Ok(())
    };
    let server = SmallServer::start(own.path(), "one", adapt).await?;
    // What is written between two looks, on a host whose cores others use.
    let all: Vec<_> = ATTEMPTS.into_iter().filter(|attempt| attempt.watched).collect();
    let seen = Box::pin(bounded(&server, own.path(), &all, 1 << 30)).await;
    // Nothing is reserved ahead of writing, nor nested deeper than the watch looks.
    let mut refused = Vec::new();
    for (command, words) in [
        ("fallocate -l 1M /f", "not supported"),
        ("for i in {1..300}; do mkdir d; cd d; done; sleep 20", "nested directories too deep"),
        // SIGXFSZ ends it.
        ("dd if=/dev/zero of=/long bs=1M count=80", "failed to run command"),
    ] {
        let told = json!({ "fromTemplate": "small", "steps": [run(&format!("cd /; {command}"))] });
        let built = server.b.build_as("more:v1", &told).await?;
        if built.status != "error" || !built.said.contains(words) {
            refused.push(format!("{command}: {built:?}"));
        }
    }
    server.stop().await?;
    own.unmount()?;
    ensure!(refused.is_empty(), "{}", refused.join("\n    "));
    seen
}

async fn bounded(
    server: &SmallServer,
    own: &Path,
    attempts: &[Attempt],
    beyond: u64,
) -> anyhow::Result<String> {
    let (mut used, mut wrong) = (Vec::new(), Vec::new());
    for attempt in attempts {
        match bounded_one(server, own, attempt, beyond).await {
            Ok(taken) => used.push(format!("{} {taken} MiB", attempt.name)),
            Err(error) => wrong.push(format!("{}: {error:#}", attempt.name)),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n    "));
    Ok(used.join(", "))
}

/// Answers how many MiB the attempt took.
async fn bounded_one(
    server: &SmallServer,
    own: &Path,
    attempt: &Attempt,
    beyond: u64,
) -> anyhow::Result<u64> {
    let Attempt { command, too_much, little, .. } = attempt;
    let steps = |amount| json!([run(&format!("set -e; {}; echo it was done", command(amount)))]);
    let told = |amount| json!({ "fromTemplate": "small", "steps": steps(amount) });
    // The control: the same act with less.
    let built = server.b.build_as("less:v1", &told(*little)).await?;
    ensure!(built.status == "ready", "and little: {built:?}");
    let before = free(own)?;
    let least = Least::watch(own);
    let built = server.b.build_as("more:v1", &told(*too_much)).await?;
    let taken = before.saturating_sub(least.stop().await?);
    ensure!(!built.said.contains("]: it was done"), "it was done: {}", built.status);
    let words = ["wrote more than", "No space left on device", "short of disk space"];
    let told = words.iter().any(|words| built.said.contains(words));
    ensure!(built.status == "error" && told, "{built:?}");
    let allowed = MOST.bytes + beyond;
    ensure!(taken <= allowed, "{} MiB were used", taken >> 20);
    // What it used is free again.
    until("the space", async || Ok(free(own)? + (32 << 20) >= before)).await?;
    Ok(taken >> 20)
}

fn free(path: &Path) -> anyhow::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Watches how little space is left at least.
struct Least {
    stop: oneshot::Sender<()>,
    watching: JoinHandle<anyhow::Result<u64>>,
}

impl Least {
    fn watch(path: &Path) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let path = path.to_owned();
        let watching = tokio::spawn(async move {
            let mut least = free(&path)?;
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                least = least.min(free(&path)?);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(least)
        });
        Self { stop, watching }
    }

    async fn stop(self) -> anyhow::Result<u64> {
        let _ = self.stop.send(());
        self.watching.await?
    }
}

/// An ext4 file system in a file.
struct OwnDisk {
    at: PathBuf,
}

impl OwnDisk {
    fn mount(at: &Path, bytes: u64) -> anyhow::Result<Self> {
        let image = at.with_extension("img");
        std::fs::File::create(&image)?.set_len(bytes)?;
        std::fs::create_dir(at)?;
        let options = ["-q", "-F", "-m", "0", "-E", "nodiscard"];
        succeed(Command::new("mkfs.ext4").args(options).arg(&image))?;
        succeed(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(at))?;
        std::fs::set_permissions(at, Permissions::from_mode(0o711))?;
        Ok(Self { at: at.to_owned() })
    }

    fn path(&self) -> &Path {
        &self.at
    }

    fn unmount(self) -> anyhow::Result<()> {
        succeed(Command::new("umount").arg("-l").arg(&self.at))
    }
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let done = command.output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?}: {said}");
    Ok(())
}
