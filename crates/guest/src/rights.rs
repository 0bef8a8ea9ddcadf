//! Acting on files with the rights of whoever asks.

use std::io;

use belljar_sys::{caps, identity};

/// How the guest takes another user's rights for a while.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rights {
    /// Linux has ids for files alone.
    OfFiles { guest: u32 },
    /// gVisor has not: there it is the effective ids. Nobody gains from that:
    /// who may signal or trace the guest depends on its real and saved ids too.
    Effective {
        guest: u32,
        /// Lost with every turn as root, and taken again.
        capabilities: caps::Set,
    },
}

impl Rights {
    pub(crate) fn of_files() -> Self {
        Self::OfFiles { guest: rustix::process::getuid().as_raw() }
    }

    pub(crate) fn effective(capabilities: caps::Set) -> Self {
        Self::Effective { guest: rustix::process::getuid().as_raw(), capabilities }
    }

    pub(crate) fn is_gvisor(self) -> bool {
        matches!(self, Self::Effective { .. })
    }

    pub(crate) fn take(self, user: u32) -> io::Result<()> {
        match self {
            Self::OfFiles { .. } => identity::act_on_files_as(user, user),
            Self::Effective { .. } => identity::become_effective(user, user),
        }
    }

    pub(crate) fn give_back(self) -> io::Result<()> {
        match self {
            Self::OfFiles { guest } => identity::act_on_files_as(guest, guest),
            Self::Effective { guest, capabilities } => {
                // Root's effective ids cost the effective capabilities that are
                // needed to leave them again.
                caps::set(capabilities, caps::Set::EMPTY)?;
                identity::become_effective(guest, guest)?;
                caps::set(capabilities, caps::Set::EMPTY)
            }
        }
    }
}
