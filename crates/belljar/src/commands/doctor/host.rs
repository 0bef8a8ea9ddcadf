//! What the kernel offers.

use std::fs;
use std::path::Path;

use belljar_engine::DELEGATED_SCOPE;
use belljar_engine::cgroup::Hierarchies;

use super::{Finding, State};

/// The oldest kernel with all that the jail uses.
const OLDEST: (u32, u32) = (5, 19);

pub(super) fn findings(landlock: Option<u32>, jail_works: bool) -> Vec<Finding> {
    vec![
        kernel(),
        user(),
        user_namespaces(),
        cgroups(),
        limits(),
        seccomp(),
        landlock_abi(landlock),
        overlay(jail_works),
        mapped_mounts(jail_works),
    ]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn kernel() -> Finding {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    match version(&release) {
        Some(found) if found >= OLDEST => Finding::new("kernel", State::Ok, release),
        _ => Finding::new("kernel", State::No, release)
            .fix(format!("the jail needs Linux {}.{} or newer", OLDEST.0, OLDEST.1)),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn user() -> Finding {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return Finding::new("user", State::Ok, "root: each sandbox gets its own user ids");
    }
    let detail = format!(
        "uid {}: sandboxes share your user id on the host, have no root inside and no warm \
         interpreters, and own their copy of templates that you build",
        uid.as_raw()
    );
    let fix = "run belljar as root; docs/tiers.md#without-root tells the differences";
    Finding::new("user", State::Warn, detail).fix(fix)
}

fn user_namespaces() -> Finding {
    let most = read("/proc/sys/user/max_user_namespaces").and_then(|text| text.parse::<u64>().ok());
    let name = "user namespaces";
    match most {
        None => Finding::new(name, State::No, "not supported by this kernel")
            .fix("use a kernel with CONFIG_USER_NS"),
        Some(0) => Finding::new(name, State::No, "disabled by user.max_user_namespaces = 0")
            .fix("sysctl -w user.max_user_namespaces=10000"),
        Some(most) => {
            let closed = [
                ("kernel.unprivileged_userns_clone", "0"),
                ("kernel.apparmor_restrict_unprivileged_userns", "1"),
            ];
            let closed = closed.into_iter().find(|(key, value)| {
                let path = format!("/proc/sys/{}", key.replace('.', "/"));
                read(&path).as_deref() == Some(value)
            });
            match closed {
                Some((key, _)) => {
                    let detail = format!("up to {most}, but only for root ({key})");
                    Finding::new(name, State::Ok, detail)
                }
                None => Finding::new(name, State::Ok, format!("up to {most}")),
            }
        }
    }
}

fn cgroups() -> Finding {
    let name = "cgroups";
    let Ok(found) = Hierarchies::detect() else {
        return Finding::new(name, State::No, "/proc/self/mountinfo cannot be read");
    };
    let wanted = ["memory", "pids", "cpu"];
    let place = |controller: &&str| match found.site(controller) {
        Some(site) => format!("{controller} v{}", if site.v2 { 2 } else { 1 }),
        None => format!("{controller} missing"),
    };
    let mut detail = wanted.iter().map(place).collect::<Vec<_>>().join(", ");
    if found.unified.is_none() {
        detail.push_str("; no version 2 tree");
    }
    let missing: Vec<_> = wanted.into_iter().filter(|name| found.site(name).is_none()).collect();
    if !found.is_writable() {
        detail.push_str("; not writable");
        return Finding::new(name, State::Warn, detail).fix(delegation(&found));
    }
    if !missing.is_empty() || found.unified.is_none() {
        return Finding::new(name, State::Warn, detail)
            .fix("mount a version 2 tree and enable the missing controllers at boot");
    }
    detail.push_str("; writable");
    Finding::new(name, State::Ok, detail)
}

/// How to get a cgroup.
fn delegation(found: &Hierarchies) -> String {
    let has_controllers = found.unified.as_ref().is_some_and(|site| site.has_controllers());
    match has_controllers {
        true => format!("run `{DELEGATED_SCOPE} belljar ...`, or belljar as root"),
        false => format!(
            "run belljar as root; `{DELEGATED_SCOPE}` needs a host whose controllers are on \
             cgroup v2"
        ),
    }
}

/// Which limits hold, and for what.
fn limits() -> Finding {
    let name = "limits";
    if Hierarchies::detect().is_ok_and(|found| found.is_writable()) {
        let detail = "kept by the kernel for each sandbox as a whole";
        return Finding::new(name, State::Ok, detail);
    }
    let detail = "memory and processes are watched for each sandbox as a whole, as is CPU time; \
                  --cpus holds for whole cores; --disk, --inodes, --time and --output-limit hold \
                  as with cgroups; the process tier does not keep --disk and --inodes, nor \
                  --pids without root";
    Finding::new(name, State::Warn, detail).fix(
        "see docs/tiers.md#limits-without-root; a limit that cannot be kept is refused by name",
    )
}

fn seccomp() -> Finding {
    match read("/proc/sys/kernel/seccomp/actions_avail") {
        Some(actions) if actions.contains("errno") => {
            Finding::new("seccomp", State::Ok, "filters are available")
        }
        _ => Finding::new("seccomp", State::No, "not supported by this kernel")
            .fix("use a kernel with CONFIG_SECCOMP_FILTER"),
    }
}

fn landlock_abi(abi: Option<u32>) -> Finding {
    match abi {
        Some(0) => Finding::new("landlock", State::Warn, "not available")
            .fix("boot with landlock in the lsm= list; the process tier needs it"),
        Some(abi) if abi < 4 => {
            let detail = format!("ABI {abi}; the process tier needs ABI 4 (Linux 6.7)");
            Finding::new("landlock", State::Warn, detail)
        }
        Some(abi) if abi < 6 => {
            let detail =
                format!("ABI {abi}; ABI 6 (Linux 6.12) also restricts signals and sockets");
            Finding::new("landlock", State::Ok, detail)
        }
        Some(abi) => Finding::new("landlock", State::Ok, format!("ABI {abi}")),
        None => Finding::new("landlock", State::Info, "not tried: the engine did not start"),
    }
}

/// The jail's start has just shown it; only a failure needs a closer look.
fn overlay(jail_works: bool) -> Finding {
    let name = "overlay";
    if jail_works {
        return Finding::new(name, State::Ok, "mounted inside a user namespace by the jail");
    }
    let known = read("/proc/filesystems").is_some_and(|list| list.contains("overlay"));
    if known {
        return Finding::new(name, State::Info, "supported by the kernel; the jail did not start");
    }
    Finding::new(name, State::No, "not supported by the kernel").fix("modprobe overlay")
}

/// The jail of a root shows its layers through the sandbox's own user ids, so
/// its start has shown this, too.
fn mapped_mounts(jail_works: bool) -> Finding {
    let name = "idmapped mounts";
    let is_root = rustix::process::geteuid().is_root();
    match (is_root, jail_works) {
        (true, true) => Finding::new(name, State::Ok, "used by the jail for its layers"),
        (true, false) => Finding::new(name, State::Info, "not tested: the jail did not start")
            .fix("keep --store on a filesystem that can map ids, such as ext4, xfs or btrfs"),
        (false, _) => Finding::new(name, State::Info, "not used without root"),
    }
}

/// What building templates needs of the host.
pub(super) fn tools() -> Vec<Finding> {
    let tools =
        [("mmdebstrap", "Debian bases"), ("python3", "pip packages"), ("npm", "npm packages")];
    let places = ["/usr/local/bin", "/usr/bin", "/bin"];
    let found = tools.map(|(tool, what)| {
        let path = places.iter().map(|dir| Path::new(dir).join(tool)).find(|path| path.exists());
        match path {
            Some(path) => Finding::new(tool, State::Ok, format!("{}, for {what}", path.display())),
            None => Finding::new(tool, State::Info, format!("not installed; needed for {what}")),
        }
    });
    found.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("6.18.44-fc-v445"), Some((6, 18)));
        assert!(version("5.4.0-generic").unwrap() < OLDEST);
        assert!(version("5.19.0").unwrap() >= OLDEST);
        assert_eq!(version("unknown"), None);
    }
}
