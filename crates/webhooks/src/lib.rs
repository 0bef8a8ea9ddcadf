//! Webhooks: signed messages to tenants about their sandboxes and runs.
//!
//! ```text
//!   state change ──► Shelf ──► worker ──► target ──► send
//!   (same transaction)  │       claims     vetted     signed, bounded,
//!                       │       by lease   address    no redirects
//!   PostgreSQL: belljar-store; one server: Directory
//! ```
//!
//! - A message is delivered at least once, in no particular order. The receiver drops
//!   repetitions by `webhook-id`.
//! - A message has ids and facts. It never has code, output, questions or secrets.
//! - The signature follows the Standard Webhooks specification: see [`sign`].

mod directory;
mod event;
mod runs;
mod schedule;
mod send;
mod shelf;
pub mod sign;
mod target;
mod webhooks;
mod worker;

pub use directory::{Directory, OpenError};
pub use event::{EventKind, Message, UnknownEventKind};
pub use runs::AnnouncedJournal;
pub use schedule::Schedule;
pub use send::{Sender, TlsError};
pub use shelf::{
    CLAIMED_OF_TENANT, Claimed, DISABLED_ERROR, DeliveryRecord, DeliveryState, DisabledReason,
    MAX_QUEUE, MAX_WEBHOOKS, NewWebhook, Outcome, QueueOutcome, SWEEP_STEP, Shelf, ShelfError,
    Webhook,
};
pub use sign::Secret;
pub use target::{Reach, TargetError};
pub use webhooks::{CreateError, Settings, Webhooks};
pub use worker::Signal;
