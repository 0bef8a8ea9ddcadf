//! What of the world a sandbox may reach, and what became of its attempts.
//!
//! A host is parsed once, into a [`Host`]; everything after that compares typed
//! values. Two spellings of one place are therefore one place, or none.

mod block;
mod ceiling;
mod host;
mod policy;
mod row;
mod scheme;

pub use block::{Block, InvalidBlock};
pub use ceiling::{Ceiling, UnknownCeiling};
pub use host::{Host, HostName, HostPattern, InvalidHost};
pub use policy::{
    CassetteId, IndexKind, InvalidCassetteId, Miss, PackageIndex, Policy, Reach, Rule, Tape,
    Throttle,
};
pub use row::{Bytes, CallRef, Charge, Decision, Kind, Process, Reason, Row, Subject};
pub use scheme::Scheme;
