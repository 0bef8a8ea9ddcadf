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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    /// Receives a request with so many descriptors.
    fn received(into_cgroup: bool, descriptors: usize) -> io::Result<Received> {
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (host, zygote) = socketpair(unix, packets, SocketFlags::CLOEXEC, None).unwrap();
        let entry = Entry {
            user: 1000,
            cwd: b"/".to_vec(),
            seccomp: Vec::new(),
            rlimits: Vec::new(),
            landlock_abi: 0,
            into_cgroup,
        };
        packet::send(&host, &entry.encode(), &vec![host.as_fd(); descriptors]).unwrap();
        receive(zygote.as_raw_fd())
    }

    #[test]
    fn a_request_that_lacks_descriptors_is_refused() {
        let least = Descriptors::GROUPS;
        for (into_cgroup, descriptors) in [(false, 0), (false, least - 1), (true, least)] {
            let error = received(into_cgroup, descriptors).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{into_cgroup} {descriptors}");
        }
    }

    #[test]
    fn groups_are_a_cgroup_to_be_born_into_and_files_to_write_to() {
        let least = Descriptors::GROUPS;
        let written = received(false, least + 2).unwrap();
        assert!(written.cgroup().is_none());
        assert_eq!(written.tasks().len(), 2);
        let born = received(true, least + 2).unwrap();
        assert!(born.cgroup().is_some());
        assert_eq!(born.tasks().len(), 1);
    }
}
