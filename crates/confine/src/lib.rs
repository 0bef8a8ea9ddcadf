//! What a process does to itself on its way into a sandbox.
//!
//! Two kinds of process go that way: the first one of a sandbox, and an
//! interpreter that was forked into one that is already there. What they have
//! in common is here.

pub mod descendants;
pub mod domain;
mod failure;
pub mod procfs;
pub mod rights;

pub use failure::{Attempt, Failure};
