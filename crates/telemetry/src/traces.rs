//! Traces: which span belongs to which, and where they go.
//!
//! A span that `tracing` opens within another is its child. Work that outlives
//! the request that began it (a process, a cell) must not keep that request's
//! span open, so its own span has no parent within the process; it is given
//! [`here`] as its `traceparent` instead, like a request that comes in from
//! outside.

mod context;
mod endpoint;
mod export;
mod options;
mod otlp;
mod tls;
mod whose;

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::fields::{Fields, Value};

pub use context::{Context, here};
pub use endpoint::EndpointError;
pub(crate) use export::{Exporter, Queue};
pub use options::ExportOptions;
pub use tls::TlsError;
pub use whose::{Whose, recall, remember};

/// A span that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) name: Cow<'static, str>,
    pub(crate) context: Context,
    pub(crate) parent: Option<u64>,
    /// Spans of other traces that led to it.
    pub(crate) links: Vec<Context>,
    /// Asks something of another service.
    pub(crate) is_client: bool,
    /// Nanoseconds since 1970.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) fields: Fields,
}

/// A span whose id follows from a fact that all processes know, so that each of them can name it
/// as a parent.
#[derive(Debug)]
pub struct KnownSpan {
    pub name: String,
    pub context: Context,
    pub parent: Option<Context>,
    pub links: Vec<Context>,
    pub is_client: bool,
    /// Nanoseconds since 1970.
    pub start: u64,
    pub end: u64,
    pub fields: Vec<(&'static str, Value)>,
}

/// Something that another process saw, and told when it was over.
#[derive(Debug)]
pub struct Past {
    pub name: &'static str,
    pub parent: Context,
    /// Nanoseconds since 1970.
    pub start: u64,
    pub end: u64,
    pub fields: Vec<(&'static str, Value)>,
}

static QUEUE: OnceLock<Queue> = OnceLock::new();

pub(crate) fn install(queue: Queue) {
    let _ = QUEUE.set(queue);
}

/// Whether anything is traced at all.
pub(crate) fn is_on() -> bool {
    QUEUE.get().is_some()
}

/// Adds what has happened to its trace.
pub fn record(past: Past) {
    let Some(queue) = QUEUE.get() else { return };
    queue.push(Finished {
        name: Cow::Borrowed(past.name),
        context: past.parent.child(),
        parent: Some(past.parent.span),
        links: Vec::new(),
        is_client: past.name == "connection",
        start: past.start,
        end: past.end,
        fields: Fields(past.fields),
    });
}

/// Adds a span with its own id to its trace.
pub fn record_known(span: KnownSpan) {
    let Some(queue) = QUEUE.get() else { return };
    queue.push(Finished {
        name: Cow::Owned(span.name),
        context: span.context,
        parent: span.parent.map(|parent| parent.span),
        links: span.links,
        is_client: span.is_client,
        start: span.start,
        end: span.end,
        fields: Fields(span.fields),
    });
}

pub(crate) fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
