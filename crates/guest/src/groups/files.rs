//! Small files of the kernel's, below a directory that is held open.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

pub(super) fn open_dir(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

pub(super) fn make_dir(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => open_dir(dir, name),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn open_write(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

pub(super) fn write(dir: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    rustix::io::write(open_write(dir, name)?, text.as_bytes())?;
    Ok(())
}

/// The whole text of a file; `None` where there is none.
pub(super) fn read(dir: &OwnedFd, name: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    let mut text = Vec::new();
    let mut piece = [0u8; 4096];
    loop {
        match rustix::io::read(&file, &mut piece) {
            Ok(0) => return String::from_utf8(text).ok(),
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

pub(super) fn number(dir: &OwnedFd, name: &str) -> Option<u64> {
    read(dir, name)?.trim().parse().ok()
}

/// The value behind `key` in a file of `key value` lines; 0 when absent.
pub(super) fn field(dir: &OwnedFd, name: &str, key: &str) -> u64 {
    read(dir, name).and_then(|text| value_of(&text, key)).unwrap_or(0)
}

fn value_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "oom 3\noom_kill 2\nmax 0\n";
        assert_eq!(value_of(text, "oom"), Some(3));
        assert_eq!(value_of(text, "oom_kill"), Some(2));
        assert_eq!(value_of(text, "oom_k"), None);
    }
}
