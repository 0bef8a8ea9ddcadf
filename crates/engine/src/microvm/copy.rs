//! Copies what a monitor writes into a pipe to a file.
//!
//! The monitor may be in the hands of its guest: it may write for ever, or not at all. The copy
//! has a bound, and its thread ends with whoever waits for it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::task::JoinHandle;

/// A copy goes on for as long as this is held.
#[derive(Debug)]
pub(super) struct Copying {
    /// The thread sees its end.
    _stop: OwnedFd,
}

/// Starts to copy `from`, a pipe, up to its end. More than `most` bytes are an error.
pub(super) fn start(
    from: OwnedFd,
    mut to: File,
    most: u64,
) -> io::Result<(JoinHandle<io::Result<()>>, Copying)> {
    let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
    let copy = move || {
        let mut buffer = vec![0; 1 << 20];
        let mut left = most;
        while wait(&from, &stopped)? {
            let count = rustix::io::read(&from, &mut buffer)?;
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
                return Ok(());
            };
            left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                let text = format!("the virtual machine monitor writes more than {most} bytes");
                io::Error::new(io::ErrorKind::FileTooLarge, text)
            })?;
            to.write_all(bytes)?;
        }
        Err(io::ErrorKind::Interrupted.into())
    };
    Ok((tokio::task::spawn_blocking(copy), Copying { _stop: stop }))
}

/// Waits until there is something to read, or an end of it. False: nobody waits for the copy.
fn wait(from: &OwnedFd, stopped: &OwnedFd) -> io::Result<bool> {
    loop {
        let mut fds = [PollFd::new(from, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [readable, is_stopped] = fds.map(|fd| !fd.revents().is_empty());
        if readable || is_stopped {
            return Ok(!is_stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn pipe() -> (OwnedFd, File) {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        (read, File::from(write))
    }

    #[tokio::test]
    async fn what_comes_is_copied_up_to_its_end() {
        let (from, mut write) = pipe();
        let file = tempfile::NamedTempFile::new().unwrap();
        let (copied, _copying) = start(from, file.reopen().unwrap(), 6).unwrap();
        write.write_all(b"memory").unwrap();
        drop(write);
        copied.await.unwrap().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"memory");
    }

    #[tokio::test]
    async fn a_monitor_that_writes_more_than_its_machine_has_is_stopped() {
        let (from, mut write) = pipe();
        let file = tempfile::NamedTempFile::new().unwrap();
        let (copied, _copying) = start(from, file.reopen().unwrap(), 1 << 20).unwrap();
        let endless = std::thread::spawn(move || {
            let zeros = vec![0; 1 << 16];
            while write.write_all(&zeros).is_ok() {}
        });
        let error = copied.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        // Nobody reads any more: its next write fails.
        endless.join().unwrap();
        assert!(std::fs::metadata(file.path()).unwrap().len() <= 1 << 20);
    }

    #[tokio::test]
    async fn the_thread_ends_with_whoever_waits_for_it() {
        let (from, silent) = pipe();
        let file = tempfile::NamedTempFile::new().unwrap();
        let (copied, copying) = start(from, file.reopen().unwrap(), 1 << 20).unwrap();
        drop(copying);
        let ended = tokio::time::timeout(PATIENCE, copied).await.expect("the thread waits on");
        assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::Interrupted);
        drop(silent);
    }
}
