//! The writable layer of a sandbox as one stream of records, to be laid out in
//! another.
//!
//! The host packs what code has written, so it trusts nothing it finds: it
//! opens every name by the descriptor of its directory, follows no link, reads
//! regular files only where they hold data, and stops at a depth and a size.
//! Ids are kept as the sandbox counts them. Sockets are left out: nobody would
//! answer.
//!
//! It is laid out by the new sandbox's first process, with the rights that its
//! code will have and in its own sized file system. An archive may have lain on
//! a disk meanwhile, so its names are not believed either: none leads out of the
//! directory that it is in, and the overlay's own marks are only those that say
//! what is gone. A forged archive can do no more than the code that follows.
//!
//! ```text
//! archive:  record length (u32) · record · bytes, if it is `Data` …
//!           the first record is the `Layout`
//! ```

mod pack;
mod unpack;

use std::io;

use serde::{Deserialize, Serialize};

use crate::jail::mounts;
use crate::jail::parent::IDS;
use crate::plan::USER_UID;

pub(crate) use pack::{in_memory, pack_scratch, write_scratch};
pub(crate) use unpack::{FromStart, layout_of, unpack_descriptor};

#[cfg(test)]
use {
    pack::pack,
    unpack::{check, unpack},
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Record {
    /// What follows, up to its `Leave`, is in this directory.
    Enter {
        name: Vec<u8>,
        about: About,
    },
    Leave,
    File {
        name: Vec<u8>,
        about: About,
        size: u64,
    },
    /// Bytes of the file named last, which follow this record.
    Data {
        offset: u64,
        length: u64,
    },
    Symlink {
        name: Vec<u8>,
        about: About,
        target: Vec<u8>,
    },
    Fifo {
        name: Vec<u8>,
        about: About,
    },
    /// Something of the base that was removed.
    Whiteout {
        name: Vec<u8>,
    },
    /// The first record. Archives of older versions have none.
    Layout(Layout),
}

/// The place of the user's home and the temporary directories. Each layout is of no use in the
/// other: what is laid out there would be hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Layout {
    /// In the writable layer, of a server that runs as root.
    Layer,
    /// Beside that layer, of a server without root.
    OwnPlaces,
}

impl Layout {
    pub(crate) fn of(is_root: bool) -> Self {
        if is_root { Self::Layer } else { Self::OwnPlaces }
    }
}

impl Record {
    /// Makes its ids those of a range of the host that begins at `first`.
    fn count_from(&mut self, first: u32) -> io::Result<()> {
        let (Self::Enter { about, .. }
        | Self::File { about, .. }
        | Self::Symlink { about, .. }
        | Self::Fifo { about, .. }) = self
        else {
            return Ok(());
        };
        for id in [&mut about.uid, &mut about.gid] {
            let inside = (*id < IDS).then(|| first.checked_add(*id)).flatten();
            *id = inside.ok_or(io::ErrorKind::InvalidData)?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    mode: u32,
    uid: u32,
    gid: u32,
    seconds: i64,
    nanos: u32,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Directories of the scratch that are packed: the writable layer, shared memory, and those
/// that a sandbox without ids of its own has beside that layer.
const TOPS: [&str; 5] = [
    mounts::UPPER,
    mounts::SHARED_MEMORY,
    mounts::HOME,
    mounts::TEMPORARY,
    mounts::LASTING_TEMPORARY,
];

/// The ids of the host that stand for those of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostIds {
    /// A range that begins with the sandbox's 0.
    From(u32),
    /// One user and one group, which are [`USER_UID`] inside.
    One { uid: u32, gid: u32 },
}

impl HostIds {
    /// Those of this process, which is no root and has no others to give.
    pub(crate) fn own() -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self::One { uid: uid.as_raw(), gid: gid.as_raw() }
    }

    fn layout(self) -> Layout {
        Layout::of(matches!(self, Self::From(_)))
    }

    /// The ids inside; [`OVERFLOW_ID`] for those that the sandbox does not have.
    fn inside(self, uid: u32, gid: u32) -> (u32, u32) {
        let from = |first: u32, id: u32| id.checked_sub(first).filter(|&id| id < IDS);
        let one = |own: u32, id: u32| (id == own).then_some(USER_UID);
        let (uid, gid) = match self {
            Self::From(first) => (from(first, uid), from(first, gid)),
            Self::One { uid: own_uid, gid: own_gid } => (one(own_uid, uid), one(own_gid, gid)),
        };
        (uid.unwrap_or(OVERFLOW_ID), gid.unwrap_or(OVERFLOW_ID))
    }
}

/// The id inside of users that the sandbox does not have.
const OVERFLOW_ID: u32 = 65_534;

/// Whether a name stands for something in the directory that it is in.
fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/')
}

/// Attributes of the overlay that a copy keeps: what hides the base, and what
/// users have under such names. All others tie a file to the base it was copied
/// from; the copy stands on the same base, and finds it by name.
const MARKS: [&[u8]; 3] =
    [b"user.overlay.opaque", b"user.overlay.whiteout", b"user.overlay.overlay."];

fn is_kept(name: &[u8]) -> bool {
    let is_mark = |mark: &&[u8]| {
        if mark.ends_with(b".") { name.starts_with(mark) } else { name == *mark }
    };
    name.starts_with(b"user.") && (!name.starts_with(b"user.overlay.") || MARKS.iter().any(is_mark))
}

/// The longest record: a name, and attributes of a bounded size.
const LONGEST_RECORD: usize = 256 << 10;

/// Directories within directories.
const DEEPEST: usize = 256;

/// How much of a file is moved at once.
const PIECE: usize = 256 << 10;

#[cfg(test)]
mod tests;
