//! The durable transcript of runs.
//!
//! An agent's loop is a log already: what the model was asked, what it said, what
//! was done in the sandbox. So the transcript is the journal, and there is no
//! workflow engine beside it. Three parts, from the inside out:
//!
//! - [`event`]: typed, versioned facts. What a newer version wrote is carried along.
//! - [`RunView`]: pure folding of events into what a run is, and [`RunView::next`],
//!   the one thing to do now. Going on after a crash is the same as going on.
//! - [`Journal`]: where events are kept, with leases as fences. [`Directory`] is one
//!   for a laptop, without any service; `crates/store` has the one in PostgreSQL.
//!
//! Beside them, [`FigureStore`]: sums of what runs did, for tables of the last day, and
//! [`RowStore`]: rows of their calls and connections. And [`WorkflowStore`]: the records of
//! workflows, whose steps are runs.

mod answers;
mod blob;
mod directory;
mod error;
mod essence;
pub mod event;
mod figures;
mod journal;
mod key;
mod ledger;
mod lines;
mod row_store;
pub mod rules;
mod view;
mod watch;
mod workflows;

pub use answers::AnswerFolder;
pub use blob::{BlobRef, MOST_BLOB_BYTES, MOST_INLINE_BYTES, Stored};
pub use directory::{Directory, OpenError, stored_run_bytes};
pub use error::{
    AppendError, BlobError, ClaimError, CreateError, Failure, LeaseError, ReadError, RequestError,
};
pub use essence::essence;
pub use event::{Body, Event, FORMAT};
pub use figures::{FigureFile, FigureStore, SpanSums, Sums, span_of};
pub use journal::{
    Address, Appended, AppendedAll, ApprovalQuery, Batch, ClaimQuery, Created, First, Journal,
    Lease, ListQuery, Listed, NewEvent, NewRun, Page, Parent, ReservedMoney, RunRow, State,
    read_all,
};
pub use key::Key;
pub use ledger::{
    Account, Amounts, InvalidUsageKey, LedgerDirectory, LedgerEntry, LedgerStore, UsageGroup,
    UsageKey, UsageName, UsagePage, UsageQuery,
};
pub use row_store::{Charged, FoundRow, FoundRows, MostRows, RowDirectory, RowStore, StoredRows};
pub use view::{
    Asked, CRASHES, Call, CallApproval, CallState, Ending, ForkPoint, HumanQuestion, HumanReply,
    INSTALL_CALL, Next, PROGRAM_CALL, Pending, Progress, QUESTION_CALL, RUN_CALL, RunView,
    STAGE_CALL_PREFIX, Spent, fork_points, stage_calls,
};
pub use watch::{Bells, Watch};
pub use workflows::{
    NewWorkflow, WorkflowAddress, WorkflowAppendError, WorkflowCreated, WorkflowDirectory,
    WorkflowLease, WorkflowRecord, WorkflowRow, WorkflowStore,
};
