//! JSON, walked once: no tree of the document is built.

mod escape;
mod scan;
mod walk;

pub(crate) use scan::{HEAD, Lines, Scanner, Stop};
pub(crate) use walk::Walk;
