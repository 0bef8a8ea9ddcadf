//! Our own API, under `/v1`, and its page, `/docs`.
//!
//! ```text
//!   label ──► router ──► authenticate ──► <noun>/<verb> ──► actions
//!   request id,          before a byte     translates
//!   problems as JSON     of the body
//! ```
//!
//! Nothing is decided here. What there is stands in `belljar_api::Operation`;
//! the router has a handler for each, or does not compile.

mod authenticate;
mod calls;
mod checkpoints;
mod contexts;
mod events;
mod failure;
mod files;
mod label;
mod network;
mod output;
mod read;
mod router;
mod sandboxes;
mod service;
mod templates;

pub use router::router;
