//! Requests, answers and errors of the HTTP API under `/v1`.
//!
//! ```text
//!   types (one file a noun) ──┐
//!   operation: what there is ─┼─► document: OpenAPI 3.1 ─► reference: a page to read
//!   bounds: what is accepted ─┘
//! ```
//!
//! A request that these types read is within the bounds that the document
//! states: both come from the same line. The server makes its routes from
//! [`Operation::ALL`], so nothing is served that the document does not list.

pub mod approval;
pub mod bounds;
pub mod call;
pub mod checkpoint;
pub mod context;
pub mod data;
mod document;
pub mod event;
pub mod file;
pub mod network;
mod operation;
mod problem;
mod reference;
pub mod run;
pub mod sandbox;
pub mod service;
pub mod stats;
pub mod template;
pub mod turn;
pub mod usage;
pub mod webhook;
pub mod workflow;

pub use document::document;
pub use operation::{Access, Answer, Content, Method, Operation, Route};
pub use problem::{CODES, Code, Envelope};
pub use reference::{SCRIPT, page, page_at};
