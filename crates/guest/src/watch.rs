//! Telling the host when files change.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use belljar_guest_proto::{Failure, FromGuest, MAX_PATH, WatchEvent, WatchKind};
use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::files::{open, path_of};
use crate::outcome::{Attempt, refuse};
use crate::wire::Wire;

/// Directories that one recursive watch follows.
const MOST_DIRECTORIES: usize = 1024;

pub(crate) struct Watch {
    pub(crate) inotify: OwnedFd,
    recursive: bool,
    directories: BTreeMap<i32, PathBuf>,
}

impl Watch {
    pub(crate) fn start(path: &[u8], recursive: bool) -> Result<Self, Failure> {
        let path = path_of(path)?;
        open(path, OFlags::PATH).doing("open what to watch")?;
        let inotify =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).doing("start watching")?;
        let mut watch = Self { inotify, recursive, directories: BTreeMap::new() };
        watch.add_tree(path).doing("watch the directory")?;
        if watch.directories.is_empty() {
            return refuse("watch the directory", Errno::NOENT);
        }
        Ok(watch)
    }

    /// Watches `root` and, where asked, what is below. Answers what was there
    /// already: in a directory that has just appeared, nobody has told of it.
    fn add_tree(&mut self, root: &Path) -> Result<Vec<PathBuf>, Errno> {
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::DONT_FOLLOW;
        let mut waiting = vec![root.to_owned()];
        let mut there = Vec::new();
        while let Some(path) = waiting.pop() {
            if self.directories.len() >= MOST_DIRECTORIES {
                return Err(Errno::NOSPC);
            }
            match inotify::add_watch(&self.inotify, &path, flags) {
                Ok(number) => drop(self.directories.insert(number, path.clone())),
                Err(errno) if path == root => return Err(errno),
                Err(_) => continue,
            }
            if !self.recursive {
                continue;
            }
            let Ok(dir) = open(&path, OFlags::RDONLY | OFlags::DIRECTORY) else { continue };
            let Ok(entries) = rustix::fs::Dir::read_from(&dir) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let path = path.join(std::ffi::OsStr::from_bytes(name));
                if entry.file_type().is_dir() {
                    waiting.push(path.clone());
                }
                there.push(path);
            }
        }
        Ok(there)
    }

    pub(crate) fn pump(&mut self, channel: u32, wire: &mut Wire) {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut seen = Vec::new();
        let mut reader = inotify::Reader::new(&self.inotify, &mut space);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            seen.push((event.wd(), event.events(), name));
            if reader.is_buffer_empty() {
                break;
            }
        }
        for (number, flags, name) in seen {
            self.tell(channel, wire, number, flags, name.as_deref());
        }
    }

    fn tell(
        &mut self,
        channel: u32,
        wire: &mut Wire,
        number: i32,
        flags: ReadFlags,
        name: Option<&[u8]>,
    ) {
        let kind = if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            WatchKind::Overflow
        } else if flags.contains(ReadFlags::CREATE) {
            WatchKind::Created
        } else if flags.contains(ReadFlags::MODIFY) {
            WatchKind::Written
        } else if flags.contains(ReadFlags::DELETE) {
            WatchKind::Removed
        } else if flags.intersects(ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO) {
            WatchKind::Renamed
        } else if flags.contains(ReadFlags::ATTRIB) {
            WatchKind::Attributes
        } else {
            return;
        };
        let mut path = self.directories.get(&number).cloned().unwrap_or_default();
        if let Some(name) = name {
            path.push(std::ffi::OsStr::from_bytes(name));
        }
        let appeared = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let mut there = Vec::new();
        if self.recursive && appeared && flags.contains(ReadFlags::ISDIR) {
            // A full table is told as lost events by the kernel's own means.
            there = self.add_tree(&path).unwrap_or_default();
        }
        send(wire, channel, kind, &path);
        for path in there {
            send(wire, channel, WatchKind::Created, &path);
        }
    }
}

fn send(wire: &mut Wire, channel: u32, kind: WatchKind, path: &Path) {
    let mut path = path.as_os_str().as_bytes().to_vec();
    let mut kind = kind;
    if path.len() > MAX_PATH {
        // No call could use it: the host is told that there is more than it hears of.
        (kind, path) = (WatchKind::Overflow, Vec::new());
    }
    wire.send(channel, &FromGuest::Changed(WatchEvent { kind, path }));
}
