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

mod listener;
mod route;
mod serve;
pub mod tls;
pub mod v1;

pub use listener::{ListenError, Listener};
pub use serve::{EngineGone, Server, Settings};
