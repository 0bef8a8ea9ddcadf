//! Copies the memory of a running process into a waiting one.
//!
//! A process cannot be forked into another sandbox: namespaces, seccomp and
//! Landlock are entered, never left. But a second process that was forked from
//! the same zygote can already wait in that other sandbox, confined like the
//! first. The two have the same layout, and pages that neither has written since
//! are the very same pages. [`capture`] takes what else the first one holds,
//! [`implant`] makes the second one hold it, registers included. Both work from
//! outside, with ptrace; neither process takes part.
//!
//! ```text
//!   zygote ──fork──▶ still       runs no more; everything is told as a
//!     │                          difference to it (`Reference`)
//!     ├─────fork──▶ context  ──capture──▶ Image
//!     └─────fork──▶ waiting  ◀──implant─────┘   in another sandbox
//! ```
//!
//! What is read of the first process is hostile: it chose its mappings, its
//! registers and its memory. It can make a copy fail or be wrong, of itself
//! only. Nothing of it leads to a write anywhere but in the second process,
//! whose own filter judges every call that is injected.

mod area;
mod capture;
mod channel;
mod image;
mod implant;
mod layout;
mod memory;
mod pages;
mod process;
mod reference;
mod refusal;
mod state;
mod stopped;

pub use capture::capture;
pub use image::{Image, Limits};
pub use implant::implant;
pub use process::Process;
pub use reference::Reference;
pub use refusal::Refusal;

/// Of x86-64; huge pages are made of these and told as these.
const PAGE: u64 = 4096;
