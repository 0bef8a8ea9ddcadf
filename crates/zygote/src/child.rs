//! The forked child's way from the zygote to a confined process.
//!
//! The order is part of the security, as it is for calls. The groups come
//! first, so that nothing is counted elsewhere; the filter last, because the
//! steps before it need calls that it denies. What fails ends the child before
//! the interpreter runs again, and the host is told.

use std::os::fd::{AsFd, OwnedFd};

use belljar_confine::domain::{self, Rules, Writable};
use belljar_confine::{Attempt, Failure};
use belljar_guest_proto::zygote::Descriptors;
use belljar_sys::enter::enter;
use belljar_sys::process::Namespaces;
use belljar_sys::seccomp::Instruction;
use belljar_sys::{caps, fd, identity, keyring, process, seccomp};
use rustix::fs::{Mode, OFlags};

use crate::request::Received;

/// Where the context's stream is.
const STREAM: i32 = 3;
/// Where the host is told, until the last step.
const SYNC: i32 = 4;

/// Confines this process, or ends it.
pub(crate) fn settle(received: Received) {
    let sync = received.descriptors[Descriptors::SYNC].try_clone();
    if let Err(Failure { doing, errno }) = confine(received) {
        if let Ok(sync) = sync {
            let _ = rustix::io::write(&sync, format!("{errno} {doing}").as_bytes());
        }
        process::exit_now(127);
    }
}

fn confine(received: Received) -> Result<(), Failure> {
    for tasks in received.tasks() {
        rustix::io::write(tasks, b"0").doing("enter the context's cgroups")?;
    }
    let Received { entry, descriptors } = received;
    await_root(&descriptors)?;
    rustix::process::setsid().doing("start a session")?;
    caps::drop_bounding().doing("empty the bounding set")?;
    caps::lock_securebits().doing("lock the secure bits")?;
    identity::become_user(entry.user, entry.user).doing("change user")?;
    // As the sandbox's own user, whom the kernel charges for it: one user may
    // have 200 of them, and the zygote's has children without number.
    keyring::join_new_session().doing("join a new keyring")?;
    caps::clear_ambient().doing("clear ambient capabilities")?;
    caps::set(caps::Set::EMPTY, caps::Set::EMPTY).doing("clear capabilities")?;
    // Its own user may look at it, as at any program that was executed.
    process::set_dumpable(true).doing("open /proc/self")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    for &(resource, value) in &entry.rlimits {
        process::limit(resource, value).doing("set a resource limit")?;
    }
    rustix::process::chdir(&entry.cwd[..]).doing("change to the working directory")?;
    place(descriptors)?;
    if entry.landlock_abi > 0 {
        let abi = entry.landlock_abi;
        let rules = Rules { abi, device_free: true, writable: Writable::Usual, apart: false };
        domain::enter(rules, None)?;
    }
    let filter: Vec<_> = entry.seccomp.as_chunks::<{ Instruction::SIZE }>().0.to_vec();
    let filter: Vec<_> = filter.into_iter().map(Instruction::from_bytes).collect();
    seccomp::install(&filter).doing("install the seccomp filter")?;
    check(entry.user)?;
    // From here on the host knows the process by what the kernel says of the
    // sender of this word.
    let sync = fd::inherited(SYNC).doing("find the host")?;
    rustix::io::write(&sync, b"in").doing("tell the host")?;
    Ok(())
}

/// Enters what takes the sandbox longest to make, once the host says that it is
/// made.
fn await_root(descriptors: &[OwnedFd]) -> Result<(), Failure> {
    let mut word = [0u8; 2];
    let count = rustix::io::read(&descriptors[Descriptors::SYNC], &mut word);
    if count.doing("wait for the sandbox's root")? == 0 {
        // Whoever wanted this has gone.
        process::exit_now(1);
    }
    let late = Namespaces::MOUNT.and(Namespaces::CGROUP);
    enter(descriptors[Descriptors::TARGET].as_fd(), late).doing("enter the sandbox's root")
}

/// Leaves the process with its standard streams, its stream and [`SYNC`].
fn place(descriptors: Vec<OwnedFd>) -> Result<(), Failure> {
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .doing("open /dev/null")?;
    // Out of the way of the numbers that are about to be given out.
    let moved = |fd: &OwnedFd| fd::above(fd.as_fd(), 64).doing("move a descriptor");
    let (opened, null) = (moved(&null)?, null);
    let stdout = moved(&descriptors[Descriptors::STDOUT])?;
    let stderr = moved(&descriptors[Descriptors::STDERR])?;
    let stream = moved(&descriptors[Descriptors::STREAM])?;
    let sync = moved(&descriptors[Descriptors::SYNC])?;
    for (number, fd) in (0..).zip([&opened, &stdout, &stderr]) {
        fd::place_at(fd.as_fd(), number).doing("place a standard stream")?;
    }
    for (number, fd) in [(STREAM, &stream), (SYNC, &sync)] {
        fd::place_at(fd.as_fd(), number).doing("place a stream")?;
        fd::close_on_exec(number).doing("mark a stream")?;
    }
    // The owners of everything else must not close it once more.
    for owner in [null, opened, stdout, stderr, stream, sync] {
        std::mem::forget(owner);
    }
    descriptors.into_iter().for_each(std::mem::forget);
    fd::close_from(SYNC + 1).doing("close what is left")
}

/// A last look, at what the kernel says and not at what was done.
fn check(user: u32) -> Result<(), Failure> {
    let (seccomp, no_new_privs) = process::confinement().doing("ask for the confinement")?;
    let is_user = rustix::process::getuid().as_raw() == user;
    let bare = caps::any().doing("ask for capabilities")? == caps::Set::EMPTY;
    if seccomp == 2 && no_new_privs == 1 && is_user && bare {
        Ok(())
    } else {
        let wrong = std::io::ErrorKind::PermissionDenied.into();
        Err(Failure::new("pass the self-check", &wrong))
    }
}
