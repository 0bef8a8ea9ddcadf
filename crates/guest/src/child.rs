//! From the fork to the exec of a call: the child's side.
//!
//! The order is part of the security. The filter comes last but one, because
//! the steps before it need calls that it denies; the self-check after it makes
//! sure that no half-confined code ever runs.

use std::ffi::{CStr, CString, OsStr};
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use belljar_sys::landlock::Ruleset;
use belljar_sys::{caps, exec, fd, identity, process, seccomp, signal};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::confiner::Confiner;
use crate::resolve;

/// Everything that the child needs, made before the fork.
pub(crate) struct Start<'a> {
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    /// Absolute paths to try, in order.
    pub(crate) programs: Vec<CString>,
    pub(crate) cwd: CString,
    pub(crate) user: u32,
    pub(crate) stdio: [OwnedFd; 3],
    pub(crate) terminal: bool,
    pub(crate) tasks: Vec<OwnedFd>,
    pub(crate) confiner: &'a Confiner,
    /// Where a failure is told; closed by the exec.
    pub(crate) report: OwnedFd,
    /// A context's stream.
    pub(crate) stream: Option<OwnedFd>,
}

/// Where a context expects its stream.
const STREAM: i32 = 3;

impl Start<'_> {
    /// The capabilities of the program. An interpreter has none, whatever its user: one that a
    /// zygote forks has none either.
    fn capabilities(&self) -> caps::Set {
        match self.stream {
            Some(_) => caps::Set::EMPTY,
            None => self.confiner.rights.of_command(self.user),
        }
    }
}

/// Confines this process and runs the program. Never returns.
pub(crate) fn run(start: Start<'_>) -> ! {
    let report = start.report.try_clone();
    let (doing, error) = confine_and_exec(start);
    if let Ok(report) = report {
        let mut text = String::new();
        let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
        let _ = write!(text, "{errno} {doing}");
        let _ = rustix::io::write(&report, text.as_bytes());
    }
    process::exit_now(127)
}

type Failed = (&'static str, io::Error);

fn confine_and_exec(start: Start<'_>) -> Failed {
    match confine(&start) {
        Ok(()) => try_programs(&start),
        Err(failed) => failed,
    }
}

fn confine(start: &Start<'_>) -> Result<(), Failed> {
    let profile = &start.confiner.profile;
    for tasks in &start.tasks {
        step("enter the call's cgroup", rustix::io::write(tasks, b"0").map_err(Into::into))?;
    }
    step("start a session", rustix::process::setsid().map_err(Into::into))?;
    for (number, stdio) in (0..).zip(&start.stdio) {
        step("place stdio", fd::place_at(stdio.as_fd(), number))?;
    }
    if start.terminal {
        let tty = rustix::process::ioctl_tiocsctty(&start.stdio[0]);
        step("take the terminal", tty.map_err(Into::into))?;
    }
    if profile.switch_user {
        step("change user", identity::become_user(start.user, start.user))?;
    }
    step("clear ambient capabilities", caps::clear_ambient())?;
    // Root keeps its own over the exec, being root; the bounding set has no other.
    step("reduce capabilities", caps::set(start.capabilities(), caps::Set::EMPTY))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    for &(resource, value) in &profile.rlimits {
        // A context lives through many calls, whose CPU time the host counts.
        if start.stream.is_some() && resource == process::resource::CPU {
            continue;
        }
        match process::limit(resource, value) {
            Err(_) if is_unknown(start, resource) => {}
            limited => step("set a resource limit", limited)?,
        }
    }
    step("change to the working directory", enter_directory(&start.cwd))?;
    step("reset signals", signal::reset_ours())?;
    step("mark descriptors", fd::close_on_exec_from(3))?;
    if let Some(stream) = &start.stream {
        step("place the context's stream", fd::place_at(stream.as_fd(), STREAM))?;
    }
    if profile.apart_abi > 0 {
        step("leave the guest's domain", leave_domain(profile.apart_abi))?;
    }
    if !start.confiner.filter.is_empty() {
        step("install the seccomp filter", seccomp::install(&start.confiner.filter))?;
    }
    if profile.self_check {
        step("pass the self-check", self_check(start))?;
    }
    Ok(())
}

/// Limits that gVisor does not know, nor what they are about.
fn is_unknown(start: &Start<'_>, resource: u32) -> bool {
    use process::resource::{MSGQUEUE, NICE, RTPRIO, SIGPENDING};
    let unknown = [MSGQUEUE, NICE, RTPRIO, SIGPENDING].contains(&resource);
    unknown && start.confiner.rights.is_gvisor()
}

fn step<T>(doing: &'static str, done: io::Result<T>) -> Result<(), Failed> {
    done.map(drop).map_err(|error| (doing, error))
}

/// Never through a magic link: until its exec this process holds descriptors of
/// the host's, which a path could name.
fn enter_directory(path: &CStr) -> io::Result<()> {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = resolve::open_at(CWD, path, flags, ResolveFlags::empty())?;
    Ok(rustix::process::fchdir(&dir)?)
}

fn leave_domain(abi: u32) -> io::Result<()> {
    Ruleset::apart(abi)?.map_or(Ok(()), |ruleset| ruleset.restrict_self())
}

fn self_check(start: &Start<'_>) -> io::Result<()> {
    let (seccomp, no_new_privs) = process::confinement()?;
    let Confiner { profile, filter, .. } = start.confiner;
    let filtered = filter.is_empty() || seccomp == 2;
    let user = rustix::process::getuid().as_raw();
    let is_user = !profile.switch_user || user == start.user;
    if filtered && no_new_privs == 1 && is_user && caps::any()? == start.capabilities() {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Tries the programs as a shell would: the first that can be run, else the
/// most telling error.
fn try_programs(start: &Start<'_>) -> Failed {
    let mut answer = io::Error::from_raw_os_error(Errno::NOENT.raw_os_error());
    for program in &start.programs {
        let error = exec_one(program, start);
        let missing =
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        if !missing {
            answer = error;
            if answer.kind() != io::ErrorKind::PermissionDenied {
                break;
            }
        }
    }
    ("run the program", answer)
}

fn exec_one(program: &CStr, start: &Start<'_>) -> io::Error {
    // The longest text that Linux takes, as one argument or variable.
    const LONGEST: usize = 128 << 10;
    let error = exec::exec_path(program, &start.argv, &start.env);
    let too_long = || start.argv.iter().chain(&start.env).any(|text| text.count_bytes() >= LONGEST);
    if error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error()) && too_long() {
        // gVisor has another word for it.
        return Errno::TOOBIG.into();
    }
    error
}
