//! The guest's own capabilities, and acting on files with the rights of a user.
//!
//! A guest that can give capabilities to root (profile `full`) holds them without using them:
//! they are permitted and not effective. They count only while it acts on files for root, and in
//! the calls of root that it starts.

use std::io;

use belljar_confine::rights::{FILES, GUEST, ROOT};
use belljar_sys::caps::Set;
use belljar_sys::{caps, identity};

/// How the guest takes the rights of another user, and its capabilities.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rights {
    kind: Kind,
    /// Its own user id.
    guest: u32,
    /// The capabilities that count for itself.
    own: Set,
    /// All that it can use or give away.
    permitted: Set,
    /// Those of root's commands and file operations.
    root: Set,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Linux has ids for files alone.
    FileIds,
    /// gVisor has no such ids, so the effective ones change. No process gains from that: who may
    /// signal or trace the guest depends on its real and saved ids too.
    EffectiveIds,
}

impl Rights {
    /// Takes stock of the guest's capabilities on the host's kernel, and stops using all but its
    /// own.
    pub(crate) fn of_files(own: Set) -> io::Result<Self> {
        Self::begin(Kind::FileIds, own)
    }

    /// As [`Self::of_files`], on gVisor's kernel.
    pub(crate) fn effective(own: Set) -> io::Result<Self> {
        Self::begin(Kind::EffectiveIds, own)
    }

    /// The capabilities of a guest in a jail.
    pub(crate) const JAIL: Set = GUEST;

    fn begin(kind: Kind, own: Set) -> io::Result<Self> {
        let permitted = caps::effective()?;
        let guest = rustix::process::getuid().as_raw();
        let own = own.only(permitted);
        let rights = Self { kind, guest, own, permitted, root: Set::EMPTY };
        if permitted != own {
            caps::clear_ambient()?;
            rights.use_also(Set::EMPTY)?;
        }
        Ok(rights)
    }

    /// Fixes the capabilities of root. Those that it does not get are gone for good, for the
    /// guest as well. To be called before anything of anyone's runs, and again only to take more
    /// away.
    pub(crate) fn settle(&mut self, root: Set) -> io::Result<()> {
        let root = root.only(ROOT).only(self.permitted);
        if self.permitted.has(Set::SETPCAP) {
            self.use_also(Set::SETPCAP)?;
            caps::limit_bounding(root)?;
            if root.is_empty() {
                lock_securebits()?;
            }
        }
        // It lets go of the rest with this one.
        let rest = if root.is_empty() { Set::EMPTY } else { Set::SETPCAP };
        self.root = root;
        if self.permitted != self.own {
            self.permitted = self.permitted.only(self.own.and(root).and(rest));
            self.use_also(Set::EMPTY)?;
        }
        Ok(())
    }

    /// The capabilities of a command of `user`.
    pub(crate) fn of_command(self, user: u32) -> Set {
        if user == 0 { self.root } else { Set::EMPTY }
    }

    pub(crate) fn is_gvisor(self) -> bool {
        self.kind == Kind::EffectiveIds
    }

    pub(crate) fn take(self, user: u32) -> io::Result<()> {
        match self.kind {
            Kind::FileIds => identity::act_on_files_as(user, user)?,
            Kind::EffectiveIds => identity::become_effective(user, user)?,
        }
        // The kernel changes some of the effective ones with the id, depending on the id that it
        // was. This is the same for all.
        if self.root.is_empty() { Ok(()) } else { self.use_also(self.of_command(user).only(FILES)) }
    }

    pub(crate) fn give_back(self) -> io::Result<()> {
        match self.kind {
            Kind::FileIds => {
                identity::act_on_files_as(self.guest, self.guest)?;
                if self.root.is_empty() { Ok(()) } else { self.use_also(Set::EMPTY) }
            }
            Kind::EffectiveIds => {
                // Root's effective ids cost the effective capabilities that are
                // needed to leave them again.
                self.use_also(Set::EMPTY)?;
                identity::become_effective(self.guest, self.guest)?;
                self.use_also(Set::EMPTY)
            }
        }
    }

    /// Makes its own capabilities effective, and these.
    fn use_also(self, more: Set) -> io::Result<()> {
        caps::set_effective(self.permitted, self.own.and(more).only(self.permitted))
    }
}

/// gVisor has no such bits: there, an empty bounding set and `no_new_privs` have to do.
pub(crate) fn lock_securebits() -> io::Result<()> {
    match caps::lock_securebits() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        locked => locked,
    }
}
