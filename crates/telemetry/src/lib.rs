//! Logs, metrics and traces: the same set-up for every role.
//!
//! ```text
//!   tracing spans and events ─► trail ─┬─► lines on standard error
//!                                      └─► queue ─► exporter ─► OTLP/HTTP
//!   metrics() ─► registry ─► listener ─► GET /metrics
//! ```
//!
//! Other crates speak to `tracing` and to [`metrics`]; what becomes of it is
//! decided here, once, by [`start`]. Everything that has a name for operators
//! stands in `docs/observability.md`, and a test holds the two together.
//!
//! Invariant: nothing here makes a request wait or fail. What cannot be kept is
//! counted and dropped.

mod fields;
mod lines;
mod metrics;
mod requests;
mod start;
mod traces;
mod trail;

pub use fields::Value;
pub use metrics::{
    Described, Metrics, ReportMetrics, RunMetrics, Spent, Timer, WebhookMetrics, WorkflowMetrics,
    metrics,
};
pub use requests::{Route, name_sandbox, observe, origin, pass_on};
pub use start::{
    Format, Role, Settings, StartError, Telemetry, serve_metrics, start, start_traces,
};
pub use traces::{
    Context, EndpointError, ExportOptions, KnownSpan, Past, TlsError, Whose, here, recall, record,
    record_known, remember,
};
