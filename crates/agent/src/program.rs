//! Published programs that are agents, such as Claude Code: how each is started, what it prints,
//! and what a journal keeps of that.
//!
//! ```text
//!   description.rs: argv ──► program ──► lines.rs ──► dialect.rs: one form of its events
//!                                                          │
//!             decide.rs ◄── journal ◄── transcript.rs: turns, calls, results
//! ```

mod decide;
mod description;
mod dialect;
mod lines;
mod message;
mod transcript;
mod written;

pub(crate) use decide::{CONTINUE, ProgramRun, between, category};
pub use description::{GATEWAY, Known, Program, Task, Turns, program};
pub use dialect::{ProgramDialect, ProgramEvent, ProgramWork, Verdict};
pub use lines::{Line, Lines};
pub use message::{TurnWarning, user_line};
pub(crate) use transcript::OUTPUT_GAP;
pub use transcript::{Note, Transcript};
pub(crate) use written::{cut, finished, intended};
