//! Leftovers, planted: a look that has never seen one proves nothing.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal};

use super::OwnEngines;
use crate::{Process, Processes};

/// As long as the ids of sandboxes are.
const ID: &str = "plantedplantedplantedplant";

impl OwnEngines {
    /// Plants what an engine could leave behind: a process that got out of its cgroup and
    /// away from its parents, a cgroup, a mount. Fails unless each is seen, or if the
    /// process is still seen where another engine would have it. Needs root.
    pub fn prove(&self) -> anyhow::Result<()> {
        let process = self.plant_process().context("plant a process")?;
        let group = self.plant_group().context("plant a cgroup")?;
        let mount = self.plant_mount().context("plant a mount")?;
        ensure!(process.was_seen, "a process that escaped is not seen");
        ensure!(!process.was_seen_elsewhere, "another engine's process is taken for our own");
        ensure!(group, "a cgroup that was left is not seen");
        ensure!(mount, "a mount that was left is not seen");
        Ok(())
    }

    fn plant_process(&self) -> anyhow::Result<PlantedProcess> {
        let users = self.leased_users();
        let user = users.first().context("no user ids are leased")?.start + 1000;
        // Nobody else waits for so long; another engine's sandbox may have the user id.
        let seconds = format!("60.{}", std::process::id());
        // Its parent ends at once, and it leaves the session.
        let forked = Command::new("setsid")
            .args(["--fork", "sleep", &seconds])
            .current_dir("/")
            .uid(user)
            .gid(user)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(forked.success(), "setsid ended with {forked}");
        let another = self.another_tree()?;
        let planted = (0..1000).find_map(|_| find_sleeper(&seconds).or_else(wait_a_moment));
        let pid = planted.context("it did not start")?.pid;
        let is_seen = || self.processes().iter().any(|process| process.pid == pid);
        let was_seen = is_seen();
        // Now where another engine has its sandboxes.
        let engine = another.join("e0");
        let moved = fs::create_dir_all(&engine)
            .and_then(|()| fs::write(engine.join("cgroup.procs"), pid.to_string()));
        let was_seen_elsewhere = is_seen();
        kill(pid);
        for dir in [&engine, &another] {
            // Busy until the process is gone.
            (0..1000).find(|_| fs::remove_dir(dir).is_ok() || wait_a_moment::<()>().is_some());
        }
        moved.context("move it to another cgroup")?;
        Ok(PlantedProcess { was_seen, was_seen_elsewhere })
    }

    /// A tree of cgroups beside our own, which does not exist yet.
    fn another_tree(&self) -> anyhow::Result<PathBuf> {
        let engine = self.engine()?;
        let root = engine.parent().and_then(Path::parent).context("a cgroup without a parent")?;
        Ok(root.join(format!("belljar-planted-{}", std::process::id())))
    }

    fn plant_group(&self) -> anyhow::Result<bool> {
        let group = self.engine()?.join(ID);
        let before = self.count_groups();
        fs::create_dir(&group)?;
        let is_seen = self.groups_of(ID) == [group.clone()] && self.count_groups() > before;
        fs::remove_dir(&group)?;
        Ok(is_seen)
    }

    fn plant_mount(&self) -> anyhow::Result<bool> {
        let place = self.state.join("planted");
        let before = self.mounts();
        fs::create_dir(&place)?;
        let run = |program: &str, words: &[&str]| {
            let ended = Command::new(program).args(words).arg(&place).status();
            ended.is_ok_and(|status| status.success())
        };
        let is_mounted = run("mount", &["-t", "tmpfs", "planted"]);
        let after = self.mounts();
        let is_gone = !is_mounted || run("umount", &[]);
        fs::remove_dir(&place)?;
        if !is_mounted || !is_gone {
            bail!("cannot mount and unmount a file system on {}", place.display());
        }
        Ok(after.iter().any(|line| !before.contains(line)))
    }

    /// The cgroup of an engine that runs, in one of the hierarchies.
    fn engine(&self) -> anyhow::Result<PathBuf> {
        let engines = self.roots.iter().flat_map(|root| super::directories(root));
        engines.into_iter().next().context("the engine has no cgroup")
    }
}

struct PlantedProcess {
    was_seen: bool,
    was_seen_elsewhere: bool,
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // One that is gone already needs no kill.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
}

/// The process that sleeps for so long, once it runs that program.
fn find_sleeper(seconds: &str) -> Option<Process> {
    let line = format!("sleep\0{seconds}\0");
    let is_it = |process: &&Process| {
        let found = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        found == line.as_bytes()
    };
    Processes::now().iter().find(is_it).cloned()
}

#[expect(clippy::disallowed_methods, reason = "the kernel tells nobody when it is done")]
fn wait_a_moment<T>() -> Option<T> {
    std::thread::sleep(std::time::Duration::from_millis(5));
    None
}
