//! The first process of a virtual machine.
//!
//! `crates/engine/src/microvm.rs` describes at its top everything that it finds.
//! Nobody else's code runs before all of this is done, so paths are safe here.

mod modules;
mod root;

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use belljar_confine::{Attempt as _, Failure, rights};
use belljar_sys::{caps, keyring, net, process};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::system::RebootCommand;
use rustix::time::{ClockId, Timespec};

use super::{Booted, steps};
use crate::groups::Groups;
use crate::rights::Rights;

const STREAM: &str = "/dev/vport0p1";

/// What the guest of a machine keeps: to run calls, to set the clock, to mix
/// randomness in (which is an administrator's right), and to end the machine.
const KEEPS: caps::Set =
    rights::GUEST.and(caps::Set::SYS_ADMIN).and(caps::Set::SYS_TIME).and(caps::Set::SYS_BOOT);

pub(super) fn boot() -> Result<Booted, Failure> {
    root::kernel_places()?;
    let words = fs::read_to_string("/proc/cmdline").doing("read the command line")?;
    set_clock(&words)?;
    modules::load(&words)?;
    let stream = stream()?;
    let root = root::build()?;
    settle();
    net::loopback_up().doing("bring up the loopback")?;
    rustix::system::sethostname(b"sandbox").doing("set the host name")?;
    root::enter()?;
    let _ = keyring::join_new_session();
    widen()?;
    let groups = Groups::version_2(root.groups, root.disk).doing("make groups for calls")?;
    steps::stay_root(KEEPS)?;
    caps::set_no_new_privs().doing("forbid new privileges")?;
    // Last, because complaints go there.
    steps::null_streams()?;
    let rights = Rights::of_files(KEEPS).doing("reduce capabilities")?;
    Ok(Booted { stream, rights, groups: Some(groups), own_kernel: true })
}

/// The host's clock, as of when the kernel started.
fn set_clock(words: &str) -> Result<(), Failure> {
    let Some(then) = words.split_whitespace().find_map(|word| word.strip_prefix("belljar.time="))
    else {
        return Ok(());
    };
    let unreadable = || Failure::new("read the time", &io::ErrorKind::InvalidData.into());
    let (seconds, nanos) = then.split_once('.').unwrap_or((then, "0"));
    let since = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds: i64 = seconds.parse().map_err(|_| unreadable())?;
    // A fraction: as many digits as there are.
    let nanos: i64 = format!("{nanos:0<9.9}").parse().map_err(|_| unreadable())?;
    let now = add(Timespec { tv_sec: seconds, tv_nsec: nanos }, since);
    rustix::time::clock_settime(ClockId::Realtime, now).doing("set the clock")
}

fn add(one: Timespec, other: Timespec) -> Timespec {
    const SECOND: i64 = 1_000_000_000;
    let nanos = one.tv_nsec + other.tv_nsec;
    Timespec { tv_sec: one.tv_sec + other.tv_sec + nanos / SECOND, tv_nsec: nanos % SECOND }
}

/// Settings of the kernel for calls; one that this kernel lacks needs none.
fn settle() {
    let settings = [
        ("user/max_user_namespaces", "0"),
        ("user/max_inotify_instances", "32"),
        ("user/max_inotify_watches", "16384"),
        ("net/ipv6/conf/all/disable_ipv6", "1"),
        ("kernel/dmesg_restrict", "1"),
        ("kernel/kptr_restrict", "2"),
        ("kernel/perf_event_paranoid", "3"),
        ("kernel/unprivileged_bpf_disabled", "1"),
        ("kernel/kexec_load_disabled", "1"),
        ("kernel/sysrq", "0"),
        ("kernel/modules_disabled", "1"),
    ];
    for (name, value) in settings {
        let _ = fs::write(format!("/proc/sys/{name}"), value);
    }
}

/// Makes room for the limits that calls get: the kernel gives its first process
/// few of everything where there is little memory, and only now can it be more.
fn widen() -> Result<(), Failure> {
    use process::resource::{MEMLOCK, NOFILE, NPROC, SIGPENDING};
    const MOST_FILES: u64 = 1 << 20;
    for (resource, most) in
        [(NPROC, u64::MAX), (SIGPENDING, u64::MAX), (MEMLOCK, u64::MAX), (NOFILE, MOST_FILES)]
    {
        process::limit(resource, most).doing("widen a limit")?;
    }
    Ok(())
}

/// How often, and how long apart, something is looked for that is to appear.
const LOOKS: usize = 20_000;
const BETWEEN: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// Opens a device that a driver may still be making.
fn await_device(path: &str, flags: OFlags) -> Result<OwnedFd, Failure> {
    for _ in 0..LOOKS {
        match rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => pause(),
            other => return other.doing(format!("open {path}")),
        }
    }
    Err(Failure::new(format!("find {path}"), &io::ErrorKind::NotFound.into()))
}

fn pause() {
    let _ = poll(&mut [], Some(&BETWEEN));
}

/// Opens the port and waits until the host is there: before that, reading would
/// answer as if it had gone.
fn stream() -> Result<OwnedFd, Failure> {
    let port = await_device(STREAM, OFlags::RDWR | OFlags::NONBLOCK)?;
    for _ in 0..LOOKS {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::from_borrowed_fd(port.as_fd(), PollFlags::OUT)];
        poll(&mut fds, Some(&now)).doing("wait for the host")?;
        if !fds[0].revents().contains(PollFlags::HUP) {
            return Ok(port);
        }
        pause();
    }
    Err(Failure::new("reach the host", &io::ErrorKind::TimedOut.into()))
}

/// Ends the machine. Where that is not possible the kernel does it, when its
/// first process ends.
pub(crate) fn end() {
    let _ = rustix::system::reboot(RebootCommand::Restart);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_with_carry() {
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let sum = add(time(1, 999_999_999), time(2, 2));
        assert_eq!((sum.tv_sec, sum.tv_nsec), (4, 1));
    }

    #[test]
    fn fractions_have_any_number_of_digits() {
        for (text, want) in [("5", 500_000_000), ("000000001", 1), ("1234567899", 123_456_789)] {
            assert_eq!(format!("{text:0<9.9}").parse(), Ok(want), "{text}");
        }
    }
}
