//! Listens, finds out who asks for what, and serves Belljar's own API.
//!
//! ```text
//!   this process ─► inside ─────────────┐
//!   plain ports ─┐                      ├─► v1 (ours): /v1, /docs
//!                ├─► limits ─► route ─┬─┘
//!   TLS port ────┘                    ├─► belljar-console: /console
//!                                     └─► belljar-e2b: everything else
//! ```
//!
//! A port serves everything; which port a client uses is a matter of its own
//! connection limits. Requests to a sandbox's own servers always go there,
//! whatever their path looks like.

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

mod behind;
mod enrol;
mod inside;
mod member;
mod route;
mod row_keeper;
mod serve;
pub mod v1;

pub use behind::Cluster;
pub use belljar_listen::{ListenError, Listener, Settings, tls};
pub use enrol::{EnrolError, enrol};
pub use inside::Inside;
pub use member::{AskError, Me, Member, PlatformBudgets, load};
pub use row_keeper::{KEEP_ROWS, RowKeeper, forward_rows};
pub use serve::{EngineGone, Server};
