//! What the host asks for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use belljar_guest_proto::zygote::{Descriptors, Entry};
use belljar_sys::{fd, packet};

/// The longest request: a filter and a few numbers.
const LONGEST: usize = 64 << 10;

pub(crate) struct Received {
    pub(crate) entry: Entry,
    /// In the order of [`Descriptors`].
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Received {
    /// The version 2 cgroup to be born into.
    pub(crate) fn cgroup(&self) -> Option<BorrowedFd<'_>> {
        let first = self.descriptors.get(Descriptors::GROUPS);
        first.filter(|_| self.entry.into_cgroup).map(AsFd::as_fd)
    }

    /// Files to write to in order to join the others.
    pub(crate) fn tasks(&self) -> &[OwnedFd] {
        &self.descriptors[Descriptors::GROUPS + usize::from(self.entry.into_cgroup)..]
    }

    /// A pidfd of the first process of the sandbox to enter.
    pub(crate) fn target(&self) -> BorrowedFd<'_> {
        self.descriptors[Descriptors::TARGET].as_fd()
    }
}

pub(crate) fn receive(socket: i32) -> io::Result<Received> {
    let (body, descriptors) = packet::receive(fd::borrowed(socket)?, LONGEST)?;
    let entry = Entry::decode(&body).ok_or(io::ErrorKind::InvalidData)?;
    if descriptors.len() < Descriptors::GROUPS + usize::from(entry.into_cgroup) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Received { entry, descriptors })
}
