//! Workflows: a graph of steps that are runs or calls.
//!
//! ```text
//!   file ─► Definition ─► check ─► WorkflowStore ─► worker ─► Client: runs, sandboxes
//!           TOML or JSON  errors   events, leases     │
//!                         by line                     └────► FileStore: data by digest
//! ```
//!
//! [`decide`] is a pure function of the recorded events: it says which events come next. The
//! worker appends them, then does what the open attempts ask for. It holds nothing else, so a
//! workflow that is resumed goes the same way as one that never stopped.

mod decide;
mod definition;
mod expression;
mod graph;
mod locate;
mod memory;
mod record;
mod resolve;
mod service;
mod state;
mod step;
mod validate;
mod worker;

pub use decide::{StopSignals, decide};
pub use definition::{
    Bounds, CallStep, Definition, Factor, InputKind, OnFailure, Retry, Step, StepKind,
};
pub use expression::{Condition, Expression, InvalidExpression, Operand, Operator, Part};
pub use graph::graph;
pub use record::{
    AttemptKey, AttemptOutcome, AttemptUsage, Event, FileRef, Outputs, StepEnded, StepStarted,
    StepValue, WorkflowOutcome,
};
pub use service::{
    CreateWorkflowError, FileError, FileStore, MAX_FILE_BYTES, Parts, Settings, Signal,
    WantedInput, WantedWorkflow, Workflows,
};
pub use state::{Attempt, Ending, State, StateError, StepState, StepStatus};
pub use validate::{DefinitionError, Problem, check, parse};
