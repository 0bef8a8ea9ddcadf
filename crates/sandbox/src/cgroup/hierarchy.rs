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
}

/// Controllers that Belljar limits or counts with.
const WANTED: [&str; 4] = ["memory", "pids", "cpu", "cpuacct"];

const OURS: &str = "belljar";

impl Hierarchies {
    /// Reads `/proc/self/mountinfo` and the version 2 root.
    pub fn detect() -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let controllers =
            |root: &Path| fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let mut found = Self::parse(&mounts, controllers);
        found.counts_swap = found
            .site("memory")
            .is_some_and(|site| site.v2 || site.root.join("memory.memsw.limit_in_bytes").exists());
        Ok(found)
    }

    fn parse(mountinfo: &str, controllers: impl Fn(&Path) -> String) -> Self {
        let ours = OURS.to_owned();
        let mut found =
            Self { unified: None, v1: Vec::new(), counts_swap: false, devices: None, ours };
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let Some(root) = left.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut right = right.split(' ');
            let (kind, options) = (right.next(), right.nth(1).unwrap_or(""));
            match kind {
                Some("cgroup2") if found.unified.is_none() => {
                    let mut names = wanted(controllers(&root).split_whitespace());
                    if names.iter().any(|name| name == "cpu") {
                        // Version 2 counts CPU time in the cpu controller.
                        names.push("cpuacct".to_owned());
                    }
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

    /// Whether groups can be made here at all.
    pub fn is_writable(&self) -> bool {
        self.all_sites().next().is_some()
            && self.all_sites().all(|site| {
                let ours = site.root.join(&self.ours);
                fs::create_dir_all(&ours).is_ok()
                    && rustix::fs::access(&ours, rustix::fs::Access::WRITE_OK).is_ok()
            })
    }
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
    fn a_unified_host_has_them_on_version_2() {
        let line = "24 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchies::parse(line, |_| "cpuset cpu io memory pids".to_owned());
        assert!(found.site("cpuacct").unwrap().v2);
        assert_eq!(found.unified.unwrap().enable(), "+cpu +memory +pids");
        assert!(found.v1.is_empty());
    }
}
