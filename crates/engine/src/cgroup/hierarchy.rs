//! Where this host's control groups are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::write;

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    pub root: PathBuf,
    pub v2: bool,
    /// The controllers that we use here.
    pub controllers: Vec<String>,
}

impl Site {
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|known| known == controller)
    }

    pub fn has_controllers(&self) -> bool {
        !self.controllers.is_empty()
    }

    /// What to write to `cgroup.subtree_control`.
    pub(super) fn enable(&self) -> String {
        let names = self.controllers.iter().filter(|name| *name != "cpuacct");
        names.map(|name| format!("+{name}")).collect::<Vec<_>>().join(" ")
    }
}

/// All hierarchies of the host, and where ours hang in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    pub unified: Option<Site>,
    pub v1: Vec<Site>,
    pub counts_swap: bool,
    /// The devices' hierarchy of version 1, in which runc makes groups whatever
    /// it is told. We only remove them.
    pub(super) devices: Option<PathBuf>,
    /// The directory of all our groups, below each hierarchy's root.
    ours: String,
    /// Whether the unified root is a group that was delegated to this user, and not
    /// the host's own root.
    is_delegated: bool,
}

/// Controllers that Belljar limits or counts with.
const WANTED: [&str; 4] = ["memory", "pids", "cpu", "cpuacct"];

const OURS: &str = "belljar";

/// The extended attribute by which systemd marks the group of a unit with `Delegate=`.
const DELEGATE_MARK: &str = "user.delegate";

/// The leaf of a delegated group that the engine's own process moves to.
const SUPERVISOR: &str = "supervisor";

impl Hierarchies {
    /// Reads `/proc/self/mountinfo` and the version 2 root. For an ordinary user, that
    /// root is the group that was delegated to this process, if there is one.
    pub fn detect() -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mut found = Self::parse(&mounts, controllers_of);
        if !rustix::process::geteuid().is_root() {
            let own = fs::read_to_string("/proc/self/cgroup")?;
            found.use_delegated(&own, is_marked, controllers_of);
        }
        found.counts_swap = found
            .site("memory")
            .is_some_and(|site| site.v2 || site.root.join("memory.memsw.limit_in_bytes").exists());
        Ok(found)
    }

    fn parse(mountinfo: &str, controllers: impl Fn(&Path) -> String) -> Self {
        let mut found = Self {
            unified: None,
            v1: Vec::new(),
            counts_swap: false,
            devices: None,
            ours: OURS.to_owned(),
            is_delegated: false,
        };
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let Some(root) = left.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut right = right.split(' ');
            let (kind, options) = (right.next(), right.nth(1).unwrap_or(""));
            match kind {
                Some("cgroup2") if found.unified.is_none() => {
                    let names = wanted_v2(&controllers(&root));
                    found.unified = Some(Site { root, v2: true, controllers: names });
                }
                Some("cgroup") => {
                    let names = wanted(options.split(','));
                    if !names.is_empty() {
                        found.v1.push(Site { root, v2: false, controllers: names });
                    } else if options.split(',').any(|name| name == "devices") {
                        found.devices = Some(root);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Takes the group that was delegated to this user as the root, where `own` is
    /// `/proc/self/cgroup`: the one that this process is in, or the one above it, when
    /// it is in a leaf already. One that lacks a controller is not used: a limit would
    /// be missing.
    fn use_delegated(
        &mut self,
        own: &str,
        is_marked: impl Fn(&Path) -> bool,
        controllers: impl Fn(&Path) -> String,
    ) {
        let Some(site) = self.unified.as_mut().filter(|site| site.has_controllers()) else {
            return;
        };
        let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::/")) else { return };
        let own = site.root.join(path);
        let below = own.ancestors().take_while(|dir| **dir != site.root);
        if let Some(group) = below.take(2).find(|dir| is_marked(dir)) {
            let controllers = wanted_v2(&controllers(group));
            if WANTED.iter().all(|name| controllers.iter().any(|found| found == name)) {
                *site = Site { root: group.to_owned(), v2: true, controllers };
                self.is_delegated = true;
            }
        }
    }

    /// Moves this process out of the delegated group into a leaf of it: a group with
    /// controllers for others may hold no process itself. systemd leaves this to
    /// whom it delegates to.
    fn leave_delegated(&self) -> io::Result<()> {
        let Some(site) = self.unified.as_ref().filter(|_| self.is_delegated) else { return Ok(()) };
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        if !site.root.ends_with(path) {
            return Ok(());
        }
        let leaf = site.root.join(SUPERVISOR);
        fs::create_dir_all(&leaf)?;
        write(&leaf.join("cgroup.procs"), "0")
    }

    /// Hangs our groups below a name that stands for `text` alone.
    pub(crate) fn name_apart(&mut self, text: &std::ffi::OsStr) {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        // Always seeded alike, so every engine of the same build agrees.
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        self.ours = format!("{OURS}-{:016x}", hasher.finish());
    }

    /// The hierarchy that has `controller`.
    pub fn site(&self, controller: &str) -> Option<&Site> {
        self.all_sites().find(|site| site.has(controller))
    }

    pub fn all_sites(&self) -> impl Iterator<Item = &Site> {
        self.unified.iter().chain(&self.v1)
    }

    pub(super) fn v1_sites(&self) -> impl Iterator<Item = &Site> {
        self.v1.iter()
    }

    /// Where calls have groups of their own: what is counted for each of them.
    pub(super) fn call_sites(&self) -> impl Iterator<Item = &Site> {
        self.unified.iter().chain(self.v1_call_sites())
    }

    pub(super) fn v1_call_sites(&self) -> impl Iterator<Item = &Site> {
        self.v1.iter().filter(|site| site.has("memory") || site.has("cpuacct"))
    }

    /// The group of an engine, below each root.
    pub fn engine(&self, number: u32) -> PathBuf {
        Path::new(&self.ours).join(format!("e{number}"))
    }

    /// Makes the groups of an engine, so that sandboxes can be made below.
    pub fn create_engine(&self, number: u32) -> io::Result<()> {
        self.leave_delegated()?;
        for site in self.all_sites() {
            let ours = site.root.join(&self.ours);
            let engine = site.root.join(self.engine(number));
            // Another engine that ends just now may remove the parent under us.
            let made = (0..10).map(|_| fs::create_dir_all(&engine)).find(Result::is_ok);
            made.unwrap_or_else(|| fs::create_dir_all(&engine))?;
            if site.v2 && site.has_controllers() {
                for dir in [&site.root, &ours, &engine] {
                    write(&dir.join("cgroup.subtree_control"), &site.enable())?;
                }
            }
        }
        Ok(())
    }

    /// The group of a zygote and of the sandboxes that it forks into.
    pub fn family(&self, engine: u32, zygote: u32) -> PathBuf {
        self.engine(engine).join(format!("z{zygote}"))
    }

    /// Makes the group of a zygote's family. `owner` may have children born
    /// anywhere in it that it may write to.
    pub(crate) fn create_family(&self, engine: u32, zygote: u32, owner: u32) -> io::Result<()> {
        for site in self.all_sites() {
            let dir = site.root.join(self.family(engine, zygote));
            fs::create_dir(&dir)?;
            if site.v2 {
                if site.has_controllers() {
                    write(&dir.join("cgroup.subtree_control"), &site.enable())?;
                }
                std::os::unix::fs::chown(dir.join("cgroup.procs"), Some(owner), None)?;
            }
        }
        Ok(())
    }

    pub(crate) fn remove_family(&self, engine: u32, zygote: u32) -> io::Result<()> {
        super::remove_tree(self, &self.family(engine, zygote))
    }

    /// Kills and removes all that an engine left behind.
    pub fn remove_engine(&self, number: u32) -> io::Result<()> {
        let name = self.engine(number);
        super::kill_tree(self, &name)?;
        super::remove_tree(self, &name)
    }

    /// The numbers of the engines that have groups.
    pub fn engines(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self
            .all_sites()
            .filter_map(|site| fs::read_dir(site.root.join(&self.ours)).ok())
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix('e')?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Removes our own directory when no engine is left in it.
    pub fn tidy(&self) {
        for site in self.all_sites() {
            let _ = fs::remove_dir(site.root.join(&self.ours));
        }
        if let Some(devices) = &self.devices {
            let _ = fs::remove_dir(devices.join(&self.ours));
        }
    }

    /// Returns true if groups can be made here at all. A group that is made to find out is removed.
    pub fn is_writable(&self) -> bool {
        self.all_sites().next().is_some()
            && self.all_sites().all(|site| {
                let ours = site.root.join(&self.ours);
                let is_new = fs::create_dir(&ours).is_ok();
                let is_writable = rustix::fs::access(&ours, rustix::fs::Access::WRITE_OK).is_ok();
                if is_new {
                    let _ = fs::remove_dir(&ours);
                }
                is_writable
            })
    }
}

fn controllers_of(group: &Path) -> String {
    fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default()
}

/// Version 2 counts CPU time in the cpu controller.
fn wanted_v2(controllers: &str) -> Vec<String> {
    let mut names = wanted(controllers.split_whitespace());
    if names.iter().any(|name| name == "cpu") {
        names.push("cpuacct".to_owned());
    }
    names
}

fn is_marked(group: &Path) -> bool {
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(group, DELEGATE_MARK, &mut value);
    length.is_ok_and(|length| value.get(..length) == Some(b"1"))
}

fn wanted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.filter(|name| WANTED.contains(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:5 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 30 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
36 30 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
";

    #[test]
    fn a_hybrid_host_has_its_controllers_on_version_1() {
        let found = Hierarchies::parse(HYBRID, |_| "hugetlb\n".to_owned());
        let roots: Vec<_> = found.v1.iter().map(|site| site.root.to_str().unwrap()).collect();
        assert_eq!(
            roots,
            ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/pids"]
        );
        assert_eq!(found.devices.as_deref(), Some(Path::new("/sys/fs/cgroup/devices")));
        assert!(!found.unified.as_ref().unwrap().has_controllers());
        assert!(!found.site("memory").unwrap().v2);
    }

    #[test]
    fn a_probe_leaves_no_group() {
        let place = tempfile::tempdir().unwrap();
        let mut found = Hierarchies::parse(UNIFIED, |_| "cpu memory pids".to_owned());
        found.unified.as_mut().unwrap().root = place.path().to_owned();
        assert!(found.is_writable());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        // The group of an engine that runs here stays.
        fs::create_dir(place.path().join(OURS)).unwrap();
        assert!(found.is_writable());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        found.unified.as_mut().unwrap().root = place.path().join("missing");
        assert!(!found.is_writable());
    }

    #[test]
    fn a_unified_host_has_them_on_version_2() {
        let found = Hierarchies::parse(UNIFIED, |_| "cpuset cpu io memory pids".to_owned());
        assert!(found.site("cpuacct").unwrap().v2);
        assert_eq!(found.unified.unwrap().enable(), "+cpu +memory +pids");
        assert!(found.v1.is_empty());
    }

    const UNIFIED: &str = "24 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
    const UNIT: &str = "/sys/fs/cgroup/user.slice/unit.service";

    /// What is found by a process in the group `own`, below a unit that may be delegated.
    fn found_from(own: &str, delegated: bool, controllers: &str) -> Hierarchies {
        let mut found = Hierarchies::parse(UNIFIED, |_| "cpu memory pids".to_owned());
        let is_marked = |dir: &Path| delegated && dir == Path::new(UNIT);
        found.use_delegated(&format!("0::{own}\n"), is_marked, |_| controllers.to_owned());
        found
    }

    #[test]
    fn delegated_group_becomes_the_root() {
        for own in ["/user.slice/unit.service", "/user.slice/unit.service/supervisor"] {
            let found = found_from(own, true, "cpuset cpu memory pids\n");
            assert!(found.is_delegated);
            assert_eq!(found.site("cpuacct").unwrap().root, Path::new(UNIT));
            assert_eq!(found.unified.unwrap().enable(), "+cpu +memory +pids");
        }
    }

    #[test]
    fn other_groups_do_not() {
        let all = "cpu memory pids";
        let of_a_session = "/user.slice/unit.service/app.slice/terminal.scope";
        for found in [
            found_from(of_a_session, true, all),
            found_from("/user.slice/unit.service", false, all),
            // It could not limit the CPU.
            found_from("/user.slice/unit.service", true, "memory pids"),
        ] {
            assert!(!found.is_delegated);
            assert_eq!(found.unified.unwrap().root, Path::new("/sys/fs/cgroup"));
        }
    }
}
