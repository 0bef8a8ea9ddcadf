//! One suite for every journal.
//!
//! [`Place`] is where a journal can be opened, by this process and by others;
//! [`suite`] is what must hold there. `belljar-journals`, the program, is the other
//! process: it works on a run as an agent would, and dies when it is told to.

pub mod agent;
pub mod build;
pub mod place;
pub mod suite;

pub use place::{InDirectory, InPostgres, Place};
