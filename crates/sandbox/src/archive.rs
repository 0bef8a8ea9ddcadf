//! The writable layer of a sandbox as one stream of records, to be laid out in
//! another.
//!
//! The host packs what code has written, so it trusts nothing it finds: it
//! opens every name by the descriptor of its directory, follows no link, reads
//! regular files only where they hold data, and stops at a depth and a size.
//! Ids are kept as the sandbox counts them. Sockets are left out: nobody would
//! answer.
//!
//! ```text
//! archive:  record length (u32) · record · bytes, if it is `Data` …
//! ```

mod pack;
mod unpack;

use serde::{Deserialize, Serialize};

pub(crate) use pack::pack_scratch;
pub(crate) use unpack::unpack_descriptor;

#[cfg(test)]
use {pack::pack, unpack::unpack};

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

/// The longest record: a name, and attributes of a bounded size.
const LONGEST_RECORD: usize = 256 << 10;

/// Directories within directories.
const DEEPEST: usize = 256;

/// How much of a file is moved at once.
const PIECE: usize = 256 << 10;

#[cfg(test)]
mod tests;
