//! The first message of TLS, read without taking part.
//!
//! The name in it must be the one that the tunnel was asked for: see
//! [`crate::judge_name`]. It may arrive in any number of records and segments,
//! so bytes are collected until it is whole; the caller keeps them as well, to
//! pass them on unchanged.
//!
//! Some clients encrypt a second greeting inside the first (ECH, extension
//! `0xfe0d`), and many put random bytes there so that those do not stand out.
//! From here both look alike, and refusing them would refuse ordinary browsers.
//! The name outside must be the right one in either case. A server that is
//! allowed and opens the inner greeting can then serve another of its names:
//! whoever shares a server with an allowed name is allowed by it, with ECH or
//! without, unless the policy has the content read.

mod again;
mod reader;
mod wire;

use belljar_domain::network::HostName;

pub use again::{After, Again};
pub use reader::Reader;

/// The most bytes until the greeting is whole, headers of records included.
pub const LONGEST: usize = 64 << 10;
/// The most extensions; clients have about twenty.
pub const MOST_EXTENSIONS: usize = 128;

/// What a client says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Whom it wants to speak to.
    pub sni: Option<HostName>,
    /// The protocols that it would speak inside, best first.
    pub alpn: Vec<Vec<u8>>,
    /// Whether there is, or seems to be, a second greeting inside.
    pub has_ech: bool,
    /// Whether encrypted data may follow before the server has answered.
    pub has_early_data: bool,
}

/// Why these bytes are not a greeting that we let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotHello {
    #[error("the bytes are not TLS")]
    NotTls,
    #[error("the greeting is not whole after 64 KiB")]
    TooLong,
    #[error("a record of the greeting is empty or too long")]
    Record,
    #[error("the first message of the handshake is not the client's greeting")]
    OtherMessage,
    #[error("the greeting breaks its format")]
    Malformed,
    #[error("the greeting has an extension twice, or too many of them")]
    Extensions,
    #[error("the greeting names several hosts")]
    SeveralNames,
    #[error("the greeting's host is not a name in its usual form")]
    Name,
}

#[cfg(test)]
mod tests;
