//! HTTP/1 requests, read so that nobody behind us can read them differently.
//!
//! Two parties that disagree on where a request ends let the second half of it
//! pass as a request that nobody judged. So nothing is repaired: what could be
//! read in two ways is refused, and the connection is closed. What is accepted
//! is kept as typed values and written anew; the bytes of a client never reach
//! a server as framing.

mod bytes;
mod chunked;
mod fields;
mod head;
mod line;
mod scan;
mod target;

pub use chunked::{BadChunk, CHUNK_END, ChunkHead, Chunked, LAST_CHUNK, Progress, chunk_head};
pub use fields::{Fields, is_hop_by_hop, is_ours_to_say};
pub use head::{Framing, Head, Version};
pub use scan::Scan;
pub use target::Target;

/// The longest head, with its empty line.
pub const LONGEST_HEAD: usize = 64 << 10;
/// The most fields in a head.
pub const MOST_FIELDS: usize = 128;
/// The longest method.
pub const LONGEST_METHOD: usize = 32;

/// Why a head was refused. The connection has no meaning after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    #[error("the head is longer than 64 KiB")]
    TooLong,
    #[error("the head has more than 128 fields")]
    TooManyFields,
    #[error("lines end with CR LF, and neither stands alone")]
    LineEnd,
    #[error("the head holds a control character")]
    Control,
    #[error("the first line is `METHOD target HTTP/1.1`, with single spaces")]
    RequestLine,
    #[error("the method is not a short token")]
    Method,
    #[error("the version is neither HTTP/1.1 nor HTTP/1.0")]
    Version,
    #[error("the target is not `host:port`, `http://host/path` or `/path`")]
    Target,
    #[error("the target's form does not belong to the method")]
    TargetForm,
    #[error("only http:// is asked of a proxy in this way; use CONNECT for https://")]
    Scheme,
    #[error("a port is a number from 1 to 65535 without leading zeros")]
    Port,
    #[error("the host is not a name or an address in its usual form")]
    Host,
    #[error("there is no Host field")]
    NoHost,
    #[error("a field that must stand alone is there twice")]
    Twice,
    #[error("the Host field names another host than the target")]
    HostMismatch,
    #[error("a field continues on a second line")]
    Fold,
    #[error("a field's name is not a token directly before its colon")]
    FieldName,
    #[error("the Content-Length is not a plain number")]
    Length,
    #[error("there are both a Content-Length and a Transfer-Encoding")]
    TwoLengths,
    #[error("the Transfer-Encoding is not exactly `chunked`")]
    Coding,
    #[error("a request of this kind has no body")]
    Body,
    #[error("the Connection field is not a list of names, or names what must stay")]
    Connection,
}

#[cfg(test)]
mod tests;
