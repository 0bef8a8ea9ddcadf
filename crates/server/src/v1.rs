//! Our own API, under `/v1`, and its page, `/docs`.
//!
//! ```text
//!   label ──► router ──► authenticate ──► fence ──► <noun>/<verb> ──► actions
//!   request id,          before a byte     who was    translates
//!   problems as JSON     of the body       replaced?
//! ```
//!
//! Nothing is decided here. What there is stands in `belljar_api::Operation`;
//! the router has a handler for each, or does not compile.

mod approvals;
mod attribution;
mod authenticate;
mod calls;
mod checkpoints;
mod contexts;
mod data;
mod events;
mod failure;
mod fence;
mod files;
mod hint;
mod label;
mod network;
mod once;
mod output;
mod read;
mod router;
mod runs;
mod sandboxes;
mod service;
mod templates;
mod webhooks;
mod workflows;

pub(crate) use router::refusing_hosts;
pub use router::{Offers, router, runs_alone, webhooks_alone, workflows_alone};
