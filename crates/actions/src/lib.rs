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

mod clock;
mod config;
mod create;
mod events;
mod figures;
mod journal;
mod keys;
mod lifecycle;
mod list;
mod problem;
mod registry;
mod sandbox;
mod secret;
mod snapshots;
mod start;
mod template;

pub use clock::{Moment, now};
pub use config::{Config, Quota};
pub use create::{Create, Idempotency};
pub use events::{Event, EventKind, Events};
pub use figures::Figures;
pub use journal::Ended;
pub use keys::{KeyError, Keys, Tenant};
pub use lifecycle::{Connected, OnTimeout, PauseMode};
pub use list::{Filter, LONGEST_PAGE, Order, Page};
pub use problem::{Kind, Problem};
pub use registry::Registry;
pub use sandbox::{Facts, Live, Paused, Sandbox, State};
pub use secret::Secret;
pub use snapshots::{MOST_FORKS, Snapshot};
pub use start::{Actions, StartError};
pub use template::Known;
