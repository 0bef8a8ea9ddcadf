//! Package indexes: which are configured, what they promise, and a verified cache.
//!
//! The preset `packages` of a network policy is made here, in four steps:
//!
//! 1. [`configured::read`] finds the indexes of a root filesystem's own managers.
//! 2. [`rules::of`] allows reading them, and nothing else: a registry that may be
//!    written to is a way out.
//! 3. [`promise::read`] takes each page that they answer, and a session's
//!    [`Learned`] remembers the files that it names: exactly those may be fetched,
//!    wherever they lie.
//! 4. [`cache::Cache`] keeps files by the digests that were promised for them.
//!
//! A URL that is in [`Learned`] is a file; what is not, and lies below an index
//! ([`Indexes::above`]), is read as a page. Ask for pages without
//! `accept-encoding` and without conditions (`if-none-match`): an answer that
//! says "as before" promises nothing.

// One panic here is the end of more than one request.
#![warn(clippy::indexing_slicing, clippy::string_slice)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::string_slice,
        reason = "a test that panics has failed"
    )
)]

pub mod cache;
pub mod configured;
mod digest;
mod files;
mod learned;
pub mod promise;
pub mod rules;
mod url;

pub use configured::{Environment, Index, Indexes, Manager};
pub use digest::{Digest, Hasher};
pub use files::{Files, OpenError, Tree};
pub use learned::{Learned, Trust};
pub use rules::Told;
pub use url::{Credential, InvalidUrl, Key, Url};
