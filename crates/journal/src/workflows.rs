//! Durable records of workflows: append-only events under a lease, like those of runs.
//!
//! A store keeps texts and does not read them. `crates/workflow` says what an event is.

mod directory;

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::error::Failure;

pub use directory::WorkflowDirectory;

/// The key of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkflowAddress {
    pub tenant: String,
    /// `wf_` and 32 hexadecimal digits.
    pub id: String,
}

/// A workflow to create.
#[derive(Debug, Clone)]
pub struct NewWorkflow {
    pub address: WorkflowAddress,
    pub name: String,
    /// The first event.
    pub first: String,
    /// Unfinished workflows that the tenant may have, this one included.
    pub most_unfinished: u64,
}

/// The result of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkflowCreated {
    Made,
    /// It was there before, with this first event.
    Already(String),
    /// The tenant has as many unfinished workflows as it may have.
    TooMany,
}

/// The right to append, until it expires or another worker claims the workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowLease {
    pub address: WorkflowAddress,
    /// The fencing token. It grows with each claim.
    pub generation: u64,
}

/// A workflow without its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRow {
    pub id: String,
    pub name: String,
    pub made_at: OffsetDateTime,
    pub events: u64,
    /// True after a request to cancel it.
    pub is_cancelled: bool,
    /// Absent while it is unfinished.
    pub outcome: Option<String>,
}

/// A workflow with its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRecord {
    pub row: WorkflowRow,
    pub events: Vec<String>,
}

/// The reason that an event was not appended, or a lease not renewed.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowAppendError {
    /// Stop, and append nothing more.
    #[error("another worker has the workflow, or it is over")]
    Fenced,
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A durable store of workflows. A tenant's address finds nothing of another tenant.
pub trait WorkflowStore: fmt::Debug + Send + Sync {
    fn create<'a>(
        &'a self,
        new: &'a NewWorkflow,
    ) -> BoxFuture<'a, Result<WorkflowCreated, Failure>>;

    /// Reads a workflow with all its events.
    fn read<'a>(
        &'a self,
        address: &'a WorkflowAddress,
    ) -> BoxFuture<'a, Result<Option<WorkflowRecord>, Failure>>;

    /// Lists the newest workflows of a tenant.
    fn list<'a>(
        &'a self,
        tenant: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<WorkflowRow>, Failure>>;

    /// Appends events in one write. With an outcome, they are the last.
    fn append<'a>(
        &'a self,
        lease: &'a WorkflowLease,
        events: &'a [String],
        outcome: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WorkflowAppendError>>;

    /// Records a request to cancel. False: there is no such unfinished workflow.
    fn cancel<'a>(&'a self, address: &'a WorkflowAddress) -> BoxFuture<'a, Result<bool, Failure>>;

    /// Claims the oldest unfinished workflow that has no live lease, of a tenant that is not among
    /// the busy ones. With an id, no other one.
    fn claim<'a>(
        &'a self,
        owner: &'a str,
        time: Duration,
        busy: &'a [String],
        only: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<WorkflowLease>, Failure>>;

    /// Extends a lease. Returns true if the workflow is to be cancelled.
    fn renew<'a>(
        &'a self,
        lease: &'a WorkflowLease,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, WorkflowAppendError>>;

    /// Gives a lease back, so that another worker can go on at once.
    fn release<'a>(&'a self, lease: &'a WorkflowLease) -> BoxFuture<'a, Result<(), Failure>>;
}
