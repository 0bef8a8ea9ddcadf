//! How calls are confined inside a sandbox, as plain data.
//!
//! The guest applies it between a call's fork and its exec. This crate knows no
//! guest messages; whoever speaks to the guest translates.

use std::path::{Path, PathBuf};

use belljar_model::{Disk, Spec, Tier};
use belljar_sys::process::resource;

use crate::defence::{Defence, Weakened};
use crate::plan::Facts;
use crate::seccomp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// A classic BPF program, 8 bytes an instruction.
    pub seccomp: Vec<u8>,
    pub landlock_abi: u32,
    pub paths: Vec<PathRule>,
    pub no_tcp: bool,
    /// Resource number and value.
    pub rlimits: Vec<(u32, u64)>,
    pub switch_user: bool,
    pub self_check: bool,
    /// The home and temporary directory of calls.
    pub home: PathBuf,
    pub temporary: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    pub path: PathBuf,
    pub access: Access,
    pub only_uid: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Device,
}

impl Confinement {
    pub(crate) fn new(spec: &Spec, facts: Facts, weakened: &Weakened, work: Option<&Path>) -> Self {
        let keeps = |defence| weakened.keeps(defence);
        let filter = if keeps(Defence::Seccomp) {
            seccomp::to_bytes(&seccomp::assemble(&seccomp::user()))
        } else {
            Vec::new()
        };
        let landlock = keeps(Defence::Landlock) && work.is_some();
        Self {
            seccomp: filter,
            // The calls of a jail share the domain that its guest is in: in one
            // of its own, a call could not see or signal what another left.
            landlock_abi: if landlock { facts.landlock_abi } else { 0 },
            paths: work.map(process_paths).unwrap_or_default(),
            no_tcp: spec.tier == Tier::Process,
            rlimits: if keeps(Defence::Rlimits) { rlimits(spec) } else { Vec::new() },
            switch_user: spec.tier == Tier::Jail && facts.privileged,
            self_check: keeps(Defence::Seccomp)
                && keeps(Defence::NoNewPrivs)
                && keeps(Defence::Capabilities),
            home: work.map_or_else(|| "/home/user".into(), |work| work.join("home")),
            temporary: work.map_or_else(|| "/tmp".into(), |work| work.join("tmp")),
        }
    }
}

fn rule(path: impl Into<PathBuf>, access: Access) -> PathRule {
    PathRule { path: path.into(), access, only_uid: None }
}

/// Without a root of its own, a sandbox sees programs and libraries of the host
/// and its own working directory; nothing else of any file system.
fn process_paths(work: &Path) -> Vec<PathRule> {
    let readable = [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib64",
        "/lib32",
        "/etc/alternatives",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/localtime",
        "/etc/nsswitch.conf",
        "/etc/passwd",
        "/etc/group",
        "/etc/hosts",
        "/etc/ssl",
        "/etc/mime.types",
        "/etc/protocols",
        "/etc/services",
        "/proc",
    ];
    let mut paths: Vec<_> = readable.map(|path| rule(path, Access::Read)).into();
    let devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
    paths.extend(devices.map(|path| rule(path, Access::Write)));
    paths.extend(["/dev/pts", "/dev/tty", "/dev/ptmx"].map(|path| rule(path, Access::Device)));
    paths.push(rule(work, Access::Write));
    paths
}

fn rlimits(spec: &Spec) -> Vec<(u32, u64)> {
    let limits = &spec.limits;
    let mut list = vec![
        (resource::CORE, 0),
        (resource::NOFILE, limits.open_files),
        // Per user id, and every sandbox has its own: a second lock on forks,
        // one wider than the first, which counts the guest.
        (resource::NPROC, u64::from(limits.pids) + 2),
        (resource::MEMLOCK, 64 << 10),
        (resource::MSGQUEUE, 0),
        (resource::SIGPENDING, 512),
        (resource::RTPRIO, 0),
        (resource::NICE, 0),
    ];
    if spec.disk == Disk::Memory {
        list.push((resource::FSIZE, limits.disk_bytes));
    }
    if let Some(cpu) = limits.cpu {
        // A back-stop, should the engine's own timer never come.
        list.push((resource::CPU, cpu.as_secs() * 2 + 2));
    }
    if spec.tier == Tier::Process {
        // No cgroup is promised here, so address space is the only bound.
        list.push((resource::AS, limits.memory_bytes.max(256 << 20)));
    }
    list
}
