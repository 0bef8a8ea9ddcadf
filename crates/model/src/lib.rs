//! The words that every other crate speaks: ids, specs, limits, end reasons.
//!
//! Nothing here does I/O. A value of these types is valid by construction, so
//! the layers above check input once, where it enters.

pub mod end;
pub mod id;
pub mod limits;
pub mod network;
pub mod spec;
pub mod units;

pub use end::{End, EndReason, Usage};
pub use id::{NodeNumber, SandboxId};
pub use limits::Limits;
pub use spec::{Bind, Disk, RootFs, Runtime, Spec, Strength, Tier, User};
