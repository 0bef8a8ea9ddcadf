//! Who may be reached, and what clients say, read strictly.
//!
//! Everything here but [`own`] is a function of its arguments: no sockets, no clock,
//! no names looked up. The gateway asks in this order, and each step can only
//! refuse:
//!
//! ```text
//!   bytes ─► http1 │ socks5 ─► Destination ─► judge ─► Deny │ Tunnel │ Content
//!                                                             │        │
//!                               client_hello ─► judge_name ◄──┘        ▼
//!                                                  │      http1 ─► judge_request
//!                                                  ▼                   ▼
//!                                          names are looked up    may_leave
//!                                                  └────────► vet ◄────┘
//! ```
//!
//! Invariant: a name is looked up only after the policy said yes to it, and no
//! address is connected to that `vet` did not see.

pub mod address;
pub mod client_hello;
pub mod http1;
pub mod judge;
pub mod own;
pub mod path;
pub mod socks5;

pub use address::{Opening, Openings, vet};
pub use judge::{Destination, Verdict, holds_hosts, judge, judge_name, judge_request, may_leave};

#[cfg(test)]
mod mutate;
