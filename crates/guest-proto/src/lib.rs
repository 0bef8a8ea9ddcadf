//! What the host and the guest say to each other over one byte stream.
//!
//! ```text
//! frame:  body length (u32, little endian) · kind (u8) · channel (u32) · body
//! ```
//!
//! A channel is a number that the host chose for one request; a call keeps the
//! channel of the request that spawned it. Bodies of messages are postcard;
//! bodies of data frames are the bytes themselves, so nothing that code prints
//! can be taken for a message. Streams flow by credit: a side sends at most
//! [`WINDOW`] bytes on a channel and direction before the other grants more.
//!
//! The format is numbered by [`GENERATION`]. Golden files in `tests/golden`
//! keep the bytes of each generation; they are only ever added to.

#[cfg(feature = "context")]
pub mod context;
mod frame;
mod message;
pub mod zygote;

pub use frame::{Decoder, FrameError, Header, MAX_BODY, encode, encode_header};
pub use message::{
    ATTRIBUTE_BYTES, Attribute, Awaken, Changed, Counters, DiskCount, Entry, EntryKind, Exit,
    Failure, FromGuest, Hello, InnerGroups, MOST_ATTRIBUTES, PointsTo, Profile, PtySize, Reply,
    Request, Spawn, Stdin, ToGuest, WatchEvent, WatchKind,
};

/// The version of the format. A guest of another generation is refused.
pub const GENERATION: u16 = 5;

/// Bytes that may be under way on one channel in one direction.
pub const WINDOW: u32 = 1 << 20;

/// The longest path in an event of a watch; what happened further down is told as lost events.
pub const MAX_PATH: usize = 4096;

/// The most data that one frame carries.
pub const CHUNK: usize = 256 << 10;
