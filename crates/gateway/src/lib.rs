//! The only way out of a sandbox.
//!
//! ```text
//!  listener in the sandbox's network namespace, or one stream a connection
//!        │
//!      front ── SOCKS5, or HTTP/1 read strictly, one request at a time
//!        ├─ CONNECT ──► tunnel: bytes, once the name in them is the one asked for
//!        │          └─► front again, behind TLS that ends here
//!        ├─ http://… ─► tape ─► forward ─► a pinned address
//!        └─ /…      ──► operations: tokens, budgets, credentials
//! ```
//!
//! What a request may do is decided by its session, and its session is the
//! listener it came in by: nothing that a client says names one. The process
//! ends when the node does, and with it every way out.

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

mod answer;
mod approvals;
mod authority;
mod body;
mod budget;
mod charge_log;
mod charges;
mod config;
mod connection;
mod control;
mod forward;
mod front;
mod judge;
mod lanes;
mod listen;
mod log;
mod meter;
mod metered;
mod moving;
mod operations;
mod packages;
mod resolve;
mod respond;
mod room;
mod session;
mod shared;
mod socks;
mod tape;
mod tokens;
mod trust;
mod tunnel;
mod upstream;
mod whose;
mod wire;

pub use authority::AuthorityError;
pub use config::{Config, InvalidConfig};
pub use control::hook;
pub use operations::{InvalidOperations, MintError};
pub use shared::{Events, Gateway, OpenError, StartError};
pub use trust::TrustError;
