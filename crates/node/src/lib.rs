//! The sandboxes of this host: calls, files, limits, ends.
//!
//! [`Node`] makes a [`Sandbox`]; a sandbox executes [`Command`]s as [`Call`]s
//! and moves files. Everything is said to the guest over the sandbox's stream;
//! what it answers is taken as the word of a stranger.

mod call;
mod capture;
mod command;
mod files;
mod link;
mod node;
mod profile;
mod sandbox;
mod supervisor;

pub use call::{Call, Event, Writer};
pub use capture::{Capture, Captured};
pub use command::{Command, Input, Leftovers};
pub use files::{Changes, FileError, Listing};
pub use link::LinkError;
pub use node::{Node, NodeError};
pub use sandbox::{CallError, Finished, Sandbox};

pub use belljar_guest_proto::{Entry, EntryKind, PtySize, WatchEvent, WatchKind};
pub use belljar_sandbox::{Defence, Weakened, hook};

/// The static program that becomes pid 1 of each sandbox.
pub static GUEST: &[u8] = include_bytes!(env!("BELLJAR_GUEST"));
