//! Sums of what runs did, by tenant and time, beside their transcripts.
//!
//! A table of the last day would otherwise have to read every transcript of that day. Sums
//! are kept for spans of ten seconds. Each writer keeps the whole sum of its own spans and
//! may say it again, so a repetition changes nothing.
//!
//! Figures are for operators and tenants who watch. What happened is in the transcripts,
//! and what is owed in the ledger: a writer that is killed loses the sums that it has not
//! kept yet.

mod file;

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::error::Failure;

pub use file::FigureFile;

/// How many seconds a span has.
const SPAN_SECONDS: i64 = 10;

/// Sums by name.
pub type Sums = BTreeMap<String, u64>;

/// The sums of one writer for a tenant in one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanSums {
    pub tenant: String,
    /// The beginning of the span.
    pub from: OffsetDateTime,
    pub sums: Sums,
}

/// A store of figures.
pub trait FigureStore: fmt::Debug + Send + Sync {
    /// Keeps sums of this writer. They replace what it has said of the same spans before.
    fn put<'a>(
        &'a self,
        writer: &'a str,
        spans: &'a [SpanSums],
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Sums over the spans of a tenant that begin at `from` or later, of all writers.
    fn sums<'a>(
        &'a self,
        tenant: &'a str,
        from: OffsetDateTime,
    ) -> BoxFuture<'a, Result<Sums, Failure>>;

    /// Forgets spans that begin before this.
    fn forget(&self, before: OffsetDateTime) -> BoxFuture<'_, Result<(), Failure>>;
}

/// The beginning of the span that a time is in.
pub fn span_of(at: OffsetDateTime) -> OffsetDateTime {
    let seconds = at.unix_timestamp();
    let begin = seconds - seconds.rem_euclid(SPAN_SECONDS);
    OffsetDateTime::from_unix_timestamp(begin).unwrap_or(at)
}
