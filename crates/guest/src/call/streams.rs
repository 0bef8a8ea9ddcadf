//! The streams of a new call: pipes or a terminal.

use std::os::fd::OwnedFd;

use belljar_guest_proto::{Failure, PtySize, Stdin};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::OpenptFlags;

use crate::confiner::Confiner;
use crate::files;
use crate::outcome::Attempt;

/// The guest's ends: input, output and error output.
pub(super) type Streams = [Option<OwnedFd>; 3];

pub(super) fn open_pipes(stdin: Stdin) -> Result<(Streams, [OwnedFd; 3]), Failure> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).doing("make a pipe");
    let (stdin_host, stdin_child) = match stdin {
        Stdin::Empty => {
            let null =
                rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            (None, null.doing("open /dev/null")?)
        }
        Stdin::Stream => {
            let (read, write) = pipe()?;
            (Some(write), read)
        }
    };
    let (stdout_host, stdout_child) = pipe()?;
    let (stderr_host, stderr_child) = pipe()?;
    let host = [stdin_host, Some(stdout_host), Some(stderr_host)];
    Ok((host, [stdin_child, stdout_child, stderr_child]))
}

/// Opens a terminal that belongs to the call's user.
pub(super) fn open_terminal(
    size: PtySize,
    user: u32,
    confiner: &Confiner,
) -> Result<(Streams, [OwnedFd; 3]), Failure> {
    let (master, slave) = files::as_user(confiner, user, || {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags).doing("open a terminal")?;
        rustix::pty::unlockpt(&master).doing("unlock the terminal")?;
        let slave = match rustix::pty::ioctl_tiocgptpeer(&master, flags) {
            // gVisor: by its name, in a file system where nobody else makes any.
            Err(Errno::NOTTY) => {
                let name = rustix::pty::ptsname(&master, Vec::new()).doing("find the terminal")?;
                let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
                rustix::fs::open(name, flags, Mode::empty())
            }
            opened => opened,
        };
        let slave = slave.doing("open the terminal")?;
        Ok((master, slave))
    })?;
    set_size(&master, size)?;
    let copy = |fd: &OwnedFd| fd.try_clone().doing("copy the terminal");
    let stdio = [copy(&slave)?, copy(&slave)?, slave];
    Ok(([Some(copy(&master)?), Some(master), None], stdio))
}

pub(super) fn set_size(terminal: &OwnedFd, size: PtySize) -> Result<(), Failure> {
    let size = rustix::termios::Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(terminal, size).doing("resize the terminal")
}
