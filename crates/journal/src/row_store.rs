//! Rows of the calls and connections of runs, beside their transcripts.
//!
//! The transcript says what the run's worker saw. Rows say what sandboxes and gateways saw: they
//! are written by others, arrive later, and are forgotten after a time that the operator sets.

mod directory;

use std::fmt;

use belljar_domain::rows::AttributedRow;
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::error::Failure;
use crate::journal::Address;

pub use directory::RowDirectory;

/// The number of rows that were new, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredRows {
    pub calls: u64,
    pub connections: u64,
    pub charged: Charged,
}

/// The cost of the rows that were new, by account, in nano-dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Charged {
    pub models: u64,
    pub egress: u64,
}

/// The most that is read of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MostRows {
    pub rows: usize,
    /// As rows are stored. The one that exceeds it is the last.
    pub bytes: usize,
}

/// Rows of a turn, in the order in which they began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundRows {
    pub rows: Vec<FoundRow>,
    /// True if these are not all.
    pub is_cut: bool,
}

/// A row, with its writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRow {
    pub row: AttributedRow,
    /// True if a node sent it: it counts only for sandboxes that the run had.
    pub is_of_node: bool,
}

/// A store of rows.
pub trait RowStore: fmt::Debug + Send + Sync {
    /// Stores rows that this process vouches for, and charges for them. A row that is there already
    /// is not stored again, and not charged again.
    fn put<'a>(&'a self, rows: &'a [AttributedRow]) -> BoxFuture<'a, Result<StoredRows, Failure>>;

    /// Reads rows of a turn.
    fn of_turn<'a>(
        &'a self,
        run: &'a Address,
        turn: u32,
        most: MostRows,
    ) -> BoxFuture<'a, Result<FoundRows, Failure>>;

    /// Forgets rows that began before this.
    fn forget(&self, before: OffsetDateTime) -> BoxFuture<'_, Result<(), Failure>>;
}
