//! The Landlock domain of a sandbox.
//!
//! There is one, which the guest enters and calls inherit: in domains of their
//! own, calls could neither see nor signal what an earlier one left. Nothing in
//! it makes devices, drives them, or writes to the kernel's own file systems.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use belljar_sys::landlock::{Ruleset, Scope, access};
use rustix::fs::{FileType, Mode, OFlags, StatVfs, StatVfsMountFlags};

use crate::{Attempt, Failure};

/// Where Landlock lets a sandbox write, if owners and mounts do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writable {
    /// Everywhere but in procfs, `/sys` and `/dev`. New names in `/` only where these are mounted
    /// read-only: a rule for `/` holds for everything below it.
    Usual,
    /// Template builds install where they like.
    Everywhere,
    /// In the working directory only; and only programs, libraries and a few
    /// settings of the host are read.
    Work,
}

/// What a domain forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub abi: u32,
    pub device_free: bool,
    pub writable: Writable,
    /// Whether signals and abstract sockets stay inside.
    pub apart: bool,
}

/// Directories of the kernel's, where nothing is written.
const SPECIAL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Devices that may be written.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What a sandbox without a root of its own reads of the host: programs,
/// libraries, and settings that hold no secret.
const HOST: [&str; 20] = [
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

/// Enters the domain for good. Needs `no_new_privs`.
pub fn enter(rules: Rules, work: Option<&Path>) -> Result<(), Failure> {
    let Rules { abi, device_free, writable, apart } = rules;
    // Without a network namespace nothing else keeps TCP away.
    let scope = Scope { no_tcp: writable == Writable::Work, ipc: apart };
    let ruleset = Ruleset::new(abi, scope).doing("make a ruleset")?;
    let allow = |path: &Path, rights| allow(&ruleset, path, rights, Links::Skip);
    let nodes = if device_free { 0 } else { access::MAKE_CHAR | access::MAKE_BLOCK };
    let write = access::WRITE | nodes;
    match writable {
        Writable::Everywhere => allow(Path::new("/"), write)?,
        Writable::Usual if SPECIAL.iter().all(|path| is_read_only(path)) => {
            allow(Path::new("/"), write)?;
        }
        Writable::Usual => {
            allow(Path::new("/"), access::READ)?;
            // The sandbox's own; on the process tier it would be the host's.
            allow(Path::new("/dev/shm"), write)?;
            for entry in fs::read_dir("/").doing("list the root")? {
                let path = entry.doing("list the root")?.path();
                if !SPECIAL.iter().any(|special| path == Path::new(special)) {
                    allow(&path, write)?;
                }
            }
        }
        Writable::Work => {
            // The host's own links, which no template has made.
            for path in HOST {
                self::allow(&ruleset, Path::new(path), access::READ, Links::Follow)?;
            }
            if let Some(work) = work {
                allow(work, write)?;
            }
        }
    }
    for node in DEVICES {
        allow(&Path::new("/dev").join(node), write)?;
    }
    // The last one only where a machine monitor runs.
    for driven in ["/dev/pts", "/dev/tty", "/dev/ptmx", "/dev/kvm"] {
        allow(Path::new(driven), access::WRITE | access::IOCTL_DEV)?;
    }
    ruleset.restrict_self().doing("restrict files with Landlock")
}

/// Returns true if no file of the kernel's can be written at `path`: its mount is read-only, or
/// nothing is mounted there.
fn is_read_only(path: &str) -> bool {
    let device = |path: &str| rustix::fs::lstat(path).map(|stat| stat.st_dev);
    let is_ordinary = match (device(path), device("/")) {
        (Ok(here), Ok(root)) => here == root,
        (here, _) => here == Err(rustix::io::Errno::NOENT),
    };
    let has_flag = |mount: StatVfs| mount.f_flag.contains(StatVfsMountFlags::RDONLY);
    is_ordinary || rustix::fs::statvfs(path).is_ok_and(has_flag)
}

/// What a symbolic link in the place of a directory means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    /// A template may have made it, to have a rule for something else: no rule. What it
    /// leads to has its own rule, or none.
    Skip,
    Follow,
}

/// Allows `rights` at `path` and below; what is not there needs no rule.
fn allow(ruleset: &Ruleset, path: &Path, rights: u64, links: Links) -> Result<(), Failure> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    if links == Links::Skip {
        flags |= OFlags::NOFOLLOW;
    }
    let place = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(place) => place,
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno).doing(format!("open {}", path.display())),
    };
    let stat = rustix::fs::fstat(&place).doing("look at a place")?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind.is_symlink() {
        return Ok(());
    }
    let is_dir = kind.is_dir();
    let rights = if is_dir { rights } else { rights & access::ON_FILES };
    ruleset.allow(place.as_fd(), rights).doing(format!("allow {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{ErrorKind, Result};
    use std::path::PathBuf;

    use belljar_sys::{caps, landlock};

    use super::*;

    /// Enters a domain in a thread of its own, which is all that Landlock binds, and
    /// does something there. `None` where the kernel has no Landlock.
    fn inside<T: Send>(
        writable: Writable,
        work: Option<&Path>,
        act: impl FnOnce() -> T + Send,
    ) -> Option<T> {
        let abi = landlock::abi()?;
        let rules = Rules { abi, device_free: true, writable, apart: false };
        let entered = || {
            caps::set_no_new_privs().unwrap();
            enter(rules, work).unwrap();
            act()
        };
        Some(std::thread::scope(|scope| scope.spawn(entered).join().unwrap()))
    }

    fn scratch(name: &str) -> PathBuf {
        let name = format!("belljar-domain-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn open_to_write(path: &str) -> Result<File> {
        OpenOptions::new().write(true).open(path)
    }

    fn is_denied<T>(result: Result<T>) -> bool {
        result.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    }

    #[test]
    fn nothing_is_written_to_the_kernels_own_file_systems() {
        // Every user may write to these, so nothing but Landlock denies it.
        let (score, name) = ("/proc/self/oom_score_adj", "/proc/self/comm");
        assert!(open_to_write(score).is_ok() && open_to_write(name).is_ok());
        let dir = scratch("usual");
        inside(Writable::Usual, None, || {
            assert!(is_denied(open_to_write(score)) && is_denied(open_to_write(name)));
            assert!(fs::read(score).is_ok());
            assert!(open_to_write("/dev/null").is_ok());
            assert!(fs::write(dir.join("file"), "x").is_ok());
        });
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_sandbox_without_a_root_has_its_working_directory_alone() {
        let (work, other) = (scratch("work"), scratch("other"));
        fs::write(other.join("secret"), "x").unwrap();
        inside(Writable::Work, Some(&work), || {
            assert!(fs::write(work.join("file"), "x").is_ok());
            assert!(is_denied(fs::read(other.join("secret"))));
            assert!(is_denied(fs::write(other.join("new"), "x")));
            let has_tcp_rules = landlock::abi() >= Some(4);
            assert!(!has_tcp_rules || is_denied(std::net::TcpListener::bind("127.0.0.1:0")));
            assert!(fs::read("/etc/passwd").is_ok());
        });
        fs::remove_dir_all(work).unwrap();
        fs::remove_dir_all(other).unwrap();
    }
}
