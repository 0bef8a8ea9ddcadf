//! Listens, finds out who asks for what, and serves Belljar's own API.
//!
//! ```text
//!   plain ports ─┐                    ┌─ /v1, /docs          v1 (ours)
//!                ├─► limits ─► route ─┤
//!   TLS port ────┘                    └─ everything else     belljar-e2b
//! ```
//!
//! A port serves everything; which port a client uses is a matter of its own
//! connection limits. Requests to a sandbox's own servers always go there,
//! whatever their path looks like.

mod behind;
mod member;
mod route;
mod serve;
pub mod v1;

pub use behind::Cluster;
pub use belljar_listen::{ListenError, Listener, Settings, tls};
pub use member::{AskError, Me, Member, load};
pub use serve::{EngineGone, Server};
