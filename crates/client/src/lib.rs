//! Belljar's own API, `/v1`, as Rust functions.
//!
//! ```text
//!                                     ┌─ Dial: over a network, with a key
//!   Client ─► Sandbox ─► Server ──────┤
//!             cells, calls, files     └─ Within: a service of this very process
//! ```
//!
//! Requests and answers are the types of `belljar-api`; which method and path an
//! operation has is read from its table, so that the two cannot drift apart.
//! Nothing is tried again behind the caller's back: an [`Error`] says whether
//! something can have been done, and [`Backoff`] tries again where it was asked to.
//!
//! A call or a cell that bears a [`Key`] is executed once. Whoever was cut off asks
//! for it again, with the same key, and hears it from its beginning.

mod approvals;
mod backoff;
mod call;
mod cell;
mod client;
mod dial;
mod error;
mod events;
mod file;
mod key;
mod network;
mod request;
mod runs;
mod sandbox;
mod server;
mod webhooks;
mod within;
mod workflows;

pub use backoff::Backoff;
pub use call::{CallRun, CallSaid, Command, Ran};
pub use cell::{Cell, CellRun};
pub use client::Client;
pub use dial::{Dial, DialError, Trust};
pub use error::{Error, Outcome, Problem, Protocol, Transport};
pub use file::FileBody;
pub use key::{Key, UnusableKey};
pub use network::Connections;
pub use runs::{RunEvents, RunNews, RunWish};
pub use sandbox::Sandbox;
pub use server::{Body, Server};
pub use within::Within;
