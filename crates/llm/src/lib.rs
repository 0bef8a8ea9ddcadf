//! What model providers say, seen through views on opaque JSON.
//!
//! ```text
//!   path ─► Route        body ─► json::Reader ─► Request ─► Rewritten ─► upstream
//!                                                              │
//!                                      price::Table::reserve ◄─┘
//!   upstream ─► Tap ─► client
//!                └─► Report::settle ─► Price::cost
//! ```
//!
//! Nothing here does I/O, keeps a budget or knows a credential. Bodies are never
//! turned into types and back: clients send fields that nobody has heard of, and
//! one that is lost breaks a feature or the provider's cache.

// One panic here is the end of more than one request.
#![warn(clippy::indexing_slicing, clippy::string_slice)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::string_slice,
        reason = "a test that panics has failed"
    )
)]

pub mod dialect;
pub mod hold;
pub mod json;
mod media;
pub mod price;
pub mod refusal;
pub mod request;
pub mod rewrite;
pub mod sse;
pub mod tap;
pub mod usage;

pub use dialect::{CredentialForm, Dialect, Endpoint, Route};
pub use hold::{Hold, HoldError};
pub use price::{Reservation, Table};
pub use request::Request;
pub use rewrite::{Rewritten, Rules};
pub use tap::{Form, Pass, Report, Tap};
pub use usage::Usage;
