//! Making a confined process: what its parent does, and what it does itself.

pub(crate) mod apply;
pub(crate) mod mounts;
pub(crate) mod parent;

pub(crate) use belljar_confine::{Attempt, Failure};
