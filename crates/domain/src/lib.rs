//! The words that every other crate speaks: ids, specs, limits, end reasons.
//!
//! Nothing here does I/O. A value of these types is valid by construction, so
//! the layers above check input once, where it enters.

pub mod approval;
pub mod attribution;
pub mod budget;
pub mod data;
pub mod end;
pub mod id;
pub mod instructions;
mod known_budgets;
pub mod limits;
pub mod network;
pub mod operations;
pub mod parameters;
pub mod question;
pub mod recording;
pub mod rows;
pub mod run;
pub mod spec;
pub mod stored;
pub mod target;
pub mod units;

pub use attribution::{Attribution, InvalidAttribution};
pub use data::Data;
pub use end::{End, EndReason, Usage};
pub use id::{NodeNumber, SandboxId};
pub use instructions::{Instructions, InvalidInstructions};
pub use known_budgets::{BudgetOwner, KnownBudgets};
pub use limits::{ChosenLimits, Limits, MaxLimits, OutOfRange};
pub use operations::{
    CapHolder, InvalidOperationCap, OperationCap, OperationCapped, OperationCaps, is_operation_name,
};
pub use parameters::{Effort, InvalidEffort, InvalidTemperature, ModelParameters, Temperature};
pub use question::Question;
pub use recording::{InvalidRecordingName, RecordingName};
pub use run::{ExecId, Generation, RunId, Sequence};
pub use spec::{
    Bind, Disk, Owners, RootFs, Runtime, SecurityProfile, Spec, Strength, Tier, UnknownProfile,
    User,
};
pub use stored::{StoredBytes, StoredKind};
