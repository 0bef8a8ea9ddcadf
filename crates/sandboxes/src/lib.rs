//! What can be done with Belljar, once.
//!
//! ```text
//!   /v1 ─┐                       ┌─ registry: who owns which sandbox
//!        ├─► Actions (this) ─────┤─ lifecycle: deadlines, pause, ends
//!   E2B ─┘                       ├─ snapshots, templates, volumes, secrets
//!                                └─► node: the sandboxes themselves
//! ```
//!
//! The HTTP surfaces translate; every rule about who may do what, and what
//! becomes of a sandbox, is here. A [`Problem`] says why something was not done,
//! in words that any surface can pass on.
//!
//! Invariant: whatever is looked up for a tenant belongs to that tenant; what
//! belongs to another is answered as what does not exist.

mod attribution;
mod budgets;
pub mod builds;
mod charges;
mod clock;
mod config;
mod contexts;
mod create;
mod data;
mod events;
mod figures;
mod files;
mod host;
mod journal;
mod keys;
mod lifecycle;
mod limits;
mod list;
mod logs;
mod member;
mod network;
mod observe;
mod offered;
mod once;
mod private;
mod problem;
mod processes;
mod profile;
mod quarantine;
mod ran;
mod registry;
mod row_queue;
mod sandbox;
mod secret;
mod secrets;
mod shared;
mod snapshots;
mod start;
mod stored;
mod template;
mod tier;
mod traffic;
mod volumes;
mod warming;
mod watchers;

pub use belljar_objects::{Digest, InvalidDigest};
pub use belljar_peer_proto::gateway::{Budget, Minted, PORT as GATEWAY_PORT};
pub use budgets::{BudgetFile, counted_budgets};
pub use charges::{CHARGE_LOG_FOLDER, settle_charges};
pub use clock::{Moment, now};
pub use config::{BuildDisks, BuildLimits, Config, Quota};
pub use contexts::{
    Allowance, ContextInfo, Contexts, Ending, Execution, Flaw, Output, Pieces, Place,
};
pub use create::{Create, Idempotency};
pub use events::{Event, EventKind, EventObserver, Events};
pub use figures::Figures;
pub use files::{Files, METADATA, kind as kind_of, name_of};
pub use journal::Ended;
pub use keys::{KeyError, Keys, Tenant};
pub use lifecycle::{Connected, OnTimeout, PauseMode, ResumeMode};
pub use list::{Filter, Keys as PageKeys, LONGEST_PAGE, Order, Page};
pub use logs::{Level, LogLine, LogQuery};
pub use member::OnBehalf;
pub use network::{
    Approval, Ceiling, Following as Connections, Network, NetworkWish, Networks, RowQuery,
    TokenWish, Transfer, UnknownCeiling, capped, unknown_operation,
};
pub use once::{Amount, Asked, Heard, Listening, OnceCommand, Said, Told};
pub use problem::{Kind, Problem};
pub use processes::{
    Following, Happened, Leaving, Process, ProcessEnd, ProcessInput, Processes, Selector,
    StartProcess, Stream,
};
pub use registry::Registry;
pub use row_queue::{RowBatch, RowQueue};
pub use sandbox::{Facts, Live, Paused, Sandbox, State};
pub use secret::{Secret, mark};
pub use secrets::SecretInfo;
pub use snapshots::{MOST_FORKS, Snapshot};
pub use start::{Actions, StartError};
pub use template::{BuildRecord, BuildStatus, Known, Reason, Record, Tag};
pub use tier::{Tiers, TiersError};
pub use traffic::{Barred, Connection, MOST_CONNECTIONS};
pub use volumes::{Incoming, Volume, VolumeEntry, VolumeEntryKind, VolumeOwner};
pub use watchers::{Change, ChangeKind, Watch, WatchWish, Watchers};
