//! The sandboxes of this host: calls, files, limits, ends.
//!
//! [`Node`] makes a [`Sandbox`]; a sandbox executes [`Command`]s as [`Call`]s
//! and moves files. Everything is said to the guest over the sandbox's stream;
//! what it answers is taken as the word of a stranger.

// One panic here is the end of every sandbox of this host.
#![warn(clippy::indexing_slicing, clippy::string_slice)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::string_slice,
        reason = "a test that panics has failed"
    )
)]

mod call;
mod capture;
mod command;
mod context;
mod copy;
mod counts;
mod dial;
mod files;
mod gateway;
mod hint;
mod ledger;
mod link;
mod machines;
mod network;
mod node;
mod pool;
mod profile;
mod random;
mod reading;
mod relay;
mod runtime;
mod sandbox;
mod supervisor;
mod warm;
mod whole;

pub use call::{Call, Event, Writer};
pub use capture::{Capture, Captured};
pub use command::{Command, Input, Leftovers, Tag};
pub use context::{
    CellEnd, CellError, CellEvent, CellOptions, Context, ContextError, ContextOptions, Facts,
    Origin, Ran, Running,
};
pub use copy::{Checkpoint, SaveError};
pub use dial::{DialError, PortStream};
pub use files::{Changes, Creator, FileError, Listing};
pub use gateway::{
    BudgetLessor, Desk, Gateway, GatewayError, GatewayOptions, LeaseFuture, PendingApproval,
    Variables,
};
pub use hint::{NetworkNeed, NetworkSigns};
pub use link::LinkError;
pub use node::{Node, NodeError};
pub use pool::{Claimant, PoolFigures, PoolSize};
pub use reading::Reading;
pub use relay::RelayError;
pub use runtime::Language;
pub use sandbox::{CallError, Finished, Sandbox};

pub use warm::{LONGEST_LIFE, MOST_FORKS, WarmError, Warmth};

pub use belljar_engine::{Defence, SandboxUsage, Weakened, hook};
pub use belljar_guest_proto::context::{Bundle, Display};
pub use belljar_guest_proto::{
    Attribute, Entry, EntryKind, PointsTo, PtySize, WatchEvent, WatchKind,
};

/// The static program that becomes pid 1 of each sandbox.
pub static GUEST: &[u8] = include_bytes!(env!("BELLJAR_GUEST"));
