//! Every metric, in one place.
//!
//! Names begin with `belljar_` and stand in `docs/observability.md`. Labels come
//! from short lists of ours: routes as patterns, never paths; no ids, no
//! tenants. What only some roles have is not shown by others.

mod charge_log;
mod family;
mod listen;
mod process;
mod reports;
mod runs;
mod scrape;
mod webhooks;
mod workflows;

use std::borrow::Cow;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use charge_log::ChargeLogMetrics;
use family::{Metric, Seconds, SecondsSpent};

pub use family::Described;
pub(crate) use listen::listen;
pub use reports::ReportMetrics;
pub use runs::RunMetrics;
pub(crate) use scrape::Scrape;
pub use webhooks::WebhookMetrics;
pub use workflows::WorkflowMetrics;

/// What this process counts.
pub struct Metrics {
    requests: Metric<3, Counter>,
    request_seconds: Metric<1, Histogram>,
    requests_running: Metric<0, Gauge>,
    sandboxes: Metric<2, Gauge>,
    creates: Metric<1, Counter>,
    create_seconds: Metric<1, Histogram>,
    ends: Metric<1, Counter>,
    calls: Metric<2, Counter>,
    call_seconds: Metric<1, Histogram>,
    pool_claims: Metric<1, Counter>,
    pool_made: Metric<0, Counter>,
    pool_waiting: Metric<0, Gauge>,
    pool_wanted: Metric<0, Gauge>,
    slots: Metric<0, Gauge>,
    slots_free: Metric<0, Gauge>,
    queue_length: Metric<0, Gauge>,
    queue_oldest_seconds: Metric<0, Seconds>,
    nodes: Metric<1, Gauge>,
    certificate_left_seconds: Metric<0, Seconds>,
    node_requests_rejected: Metric<1, Counter>,
    keys_refused: Metric<1, Counter>,
    placements: Metric<1, Counter>,
    outbox_waiting: Metric<0, Gauge>,
    connections: Metric<2, Counter>,
    connections_too_many: Metric<1, Counter>,
    connection_bytes: Metric<1, Counter>,
    rows_missed: Metric<0, Counter>,
    rows_stored: Metric<1, Counter>,
    rows_dropped: Metric<1, Counter>,
    charged_nano_dollars: Metric<1, Counter>,
    budget_leases: Metric<1, Counter>,
    budget_slices_forfeited: Metric<0, Counter>,
    approvals: Metric<2, Counter>,
    charge_log: ChargeLogMetrics,
    records_unreadable: Metric<1, Counter>,
    tokens: Metric<1, Counter>,
    spent_dollars: Metric<0, SecondsSpent>,
    process_cpu_seconds: Metric<1, SecondsSpent>,
    process_resident_bytes: Metric<1, Gauge>,
    spans_sent: Metric<0, Counter>,
    spans_dropped: Metric<1, Counter>,
    log_lines: Metric<1, Counter>,
    runs: RunMetrics,
    reports: ReportMetrics,
    webhooks: WebhookMetrics,
    workflows: WorkflowMetrics,
    hooks: Mutex<Vec<Hook>>,
}

type Hook = Box<dyn Fn(&Metrics) + Send + Sync>;

/// A word for a label. Only words of ours: what clients send is not one.
type Word = Cow<'static, str>;

/// What an answer of a model cost. Kinds of tokens never overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
    pub nano_dollars: u64,
}

impl Spent {
    /// Tokens by the name of their kind.
    fn tokens(self) -> [(&'static str, u64); 4] {
        [
            ("input", self.input),
            ("cache_read", self.cache_read),
            ("cache_write", self.cache_write),
            ("output", self.output),
        ]
    }
}

/// A request that is being answered; counted while it is there.
#[derive(Debug)]
pub struct Timer {
    since: Instant,
}

/// This process's metrics.
pub fn metrics() -> &'static Metrics {
    static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);
    &METRICS
}

/// From a millisecond to half a minute.
fn quick() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ])
}

/// From a hundredth of a second to an hour.
fn slow() -> Histogram {
    Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0])
}

impl Metrics {
    fn new() -> Self {
        Self {
            requests: Metric::new(
                "requests",
                "Completed requests by method, route pattern and status",
                &["method", "route", "status"],
            ),
            request_seconds: Metric::with(
                "request_seconds",
                "Time to the start of the response, by route pattern",
                &["route"],
                quick,
            ),
            requests_running: Metric::new(
                "requests_running",
                "Requests whose response has not started",
                &[],
            ),
            sandboxes: Metric::new(
                "sandboxes",
                "Live sandboxes by state and tier",
                &["state", "tier"],
            ),
            creates: Metric::new(
                "creates",
                "Attempts to create a sandbox, by result: ok, or the error code",
                &["result"],
            ),
            create_seconds: Metric::with(
                "create_seconds",
                "Time to create a sandbox that is ready for calls, by tier",
                &["tier"],
                quick,
            ),
            ends: Metric::new("ends", "Ended sandboxes by end reason", &["reason"]),
            calls: Metric::new(
                "calls",
                "Ended calls (processes and cells) by end reason",
                &["kind", "reason"],
            ),
            call_seconds: Metric::with(
                "call_seconds",
                "Duration of calls by kind",
                &["kind"],
                slow,
            ),
            pool_claims: Metric::new(
                "pool_claims",
                "Sandboxes requested from a pool: hit or miss",
                &["result"],
            ),
            pool_made: Metric::new("pool_made", "Sandboxes created for pools", &[]),
            pool_waiting: Metric::new("pool_waiting", "Sandboxes waiting in pools", &[]),
            pool_wanted: Metric::new(
                "pool_wanted",
                "Target number of sandboxes waiting in pools",
                &[],
            ),
            slots: Metric::new("slots", "Total slots for sandboxes", &[]),
            slots_free: Metric::new("slots_free", "Free slots for sandboxes", &[]),
            queue_length: Metric::new("queue_length", "Create requests waiting in the queue", &[]),
            queue_oldest_seconds: Metric::new(
                "queue_oldest_seconds",
                "Waiting time of the oldest create request in the queue",
                &[],
            ),
            nodes: Metric::new("nodes", "Nodes by state", &["state"]),
            certificate_left_seconds: Metric::new(
                "certificate_left_seconds",
                "Time until this process's certificate expires. It is renewed well before that",
                &[],
            ),
            node_requests_rejected: Metric::new(
                "node_requests_rejected",
                "Rejected requests between control and nodes, by reason",
                &["reason"],
            ),
            keys_refused: Metric::new("keys_refused", "Refused API keys by reason", &["reason"]),
            placements: Metric::new(
                "placements",
                "Attempts to place a sandbox on a node, by result",
                &["result"],
            ),
            outbox_waiting: Metric::new(
                "outbox_waiting",
                "Unpublished messages in the outbox",
                &[],
            ),
            connections: Metric::new(
                "connections",
                "Connections out of sandboxes, by kind and decision",
                &["kind", "decision"],
            ),
            connections_too_many: Metric::new(
                "connections_too_many",
                "Connections and bodies of sandboxes beyond their bounds, by kind",
                &["kind"],
            ),
            connection_bytes: Metric::new(
                "connection_bytes",
                "Bytes of connections out of sandboxes, by direction as seen from the sandbox",
                &["direction"],
            ),
            rows_missed: Metric::new(
                "rows_missed",
                "Packets of connection rows lost between gateway and node",
                &[],
            ),
            rows_stored: Metric::new(
                "rows_stored",
                "Rows of calls and connections that were stored, by kind",
                &["kind"],
            ),
            rows_dropped: Metric::new(
                "rows_dropped",
                "Rows of calls and connections that were lost, by reason",
                &["reason"],
            ),
            charged_nano_dollars: Metric::new(
                "charged_nano_dollars",
                "Charges that this process wrote to the ledger, by account",
                &["account"],
            ),
            budget_leases: Metric::new(
                "budget_leases",
                "Requests of the gateway for slices of budgets, by outcome",
                &["outcome"],
            ),
            budget_slices_forfeited: Metric::new(
                "budget_slices_forfeited",
                "Slices of budgets that a gateway held when it died",
                &[],
            ),
            approvals: Metric::new(
                "approvals",
                "Requests and tool calls that waited for a human, by action and result",
                &["action", "result"],
            ),
            charge_log: ChargeLogMetrics::new(),
            records_unreadable: Metric::new(
                "records_unreadable",
                "Records that could not be read at startup, by kind",
                &["kind"],
            ),
            tokens: Metric::new("tokens", "Model tokens spent through the gateway", &["type"]),
            spent_dollars: Metric::new(
                "spent_dollars",
                "Cost of model tokens by the price list",
                &[],
            ),
            process_cpu_seconds: Metric::new(
                "process_cpu_seconds",
                "CPU time of this process, its spawner and its gateway, without sandboxes",
                &["process"],
            ),
            process_resident_bytes: Metric::new(
                "process_resident_bytes",
                "Resident memory of this process, its spawner and its gateway",
                &["process"],
            ),
            spans_sent: Metric::new("spans_sent", "Spans accepted by the trace receiver", &[]),
            spans_dropped: Metric::new("spans_dropped", "Dropped spans by reason", &["reason"]),
            log_lines: Metric::new("log_lines", "Warnings and errors in the log", &["level"]),
            runs: RunMetrics::new(),
            reports: ReportMetrics::new(),
            webhooks: WebhookMetrics::new(),
            workflows: WorkflowMetrics::new(),
            hooks: Mutex::default(),
        }
    }

    /// Enters everything in the registry. Without `..`: a metric that is left out
    /// here does not compile.
    fn enter(&self, registry: &mut Registry) -> Vec<Described> {
        let Self {
            requests,
            request_seconds,
            requests_running,
            sandboxes,
            creates,
            create_seconds,
            ends,
            calls,
            call_seconds,
            pool_claims,
            pool_made,
            pool_waiting,
            pool_wanted,
            slots,
            slots_free,
            queue_length,
            queue_oldest_seconds,
            nodes,
            certificate_left_seconds,
            node_requests_rejected,
            keys_refused,
            placements,
            outbox_waiting,
            connections,
            connections_too_many,
            connection_bytes,
            rows_missed,
            rows_stored,
            rows_dropped,
            charged_nano_dollars,
            budget_leases,
            budget_slices_forfeited,
            approvals,
            charge_log,
            records_unreadable,
            tokens,
            spent_dollars,
            process_cpu_seconds,
            process_resident_bytes,
            spans_sent,
            spans_dropped,
            log_lines,
            runs,
            reports,
            webhooks,
            workflows,
            hooks: _,
        } = self;
        let mut all = vec![
            requests.enter(registry),
            request_seconds.enter(registry),
            requests_running.enter(registry),
            sandboxes.enter(registry),
            creates.enter(registry),
            create_seconds.enter(registry),
            ends.enter(registry),
            calls.enter(registry),
            call_seconds.enter(registry),
            pool_claims.enter(registry),
            pool_made.enter(registry),
            pool_waiting.enter(registry),
            pool_wanted.enter(registry),
            slots.enter(registry),
            slots_free.enter(registry),
            queue_length.enter(registry),
            queue_oldest_seconds.enter(registry),
            nodes.enter(registry),
            certificate_left_seconds.enter(registry),
            node_requests_rejected.enter(registry),
            keys_refused.enter(registry),
            placements.enter(registry),
            outbox_waiting.enter(registry),
            connections.enter(registry),
            connections_too_many.enter(registry),
            connection_bytes.enter(registry),
            rows_missed.enter(registry),
            rows_stored.enter(registry),
            rows_dropped.enter(registry),
            charged_nano_dollars.enter(registry),
            budget_leases.enter(registry),
            budget_slices_forfeited.enter(registry),
            approvals.enter(registry),
            records_unreadable.enter(registry),
            tokens.enter(registry),
            spent_dollars.enter(registry),
            process_cpu_seconds.enter(registry),
            process_resident_bytes.enter(registry),
            spans_sent.enter(registry),
            spans_dropped.enter(registry),
            log_lines.enter(registry),
        ];
        all.extend(charge_log.enter(registry));
        all.extend(runs.enter(registry));
        all.extend(reports.enter(registry));
        all.extend(webhooks.enter(registry));
        all.extend(workflows.enter(registry));
        all
    }

    /// A request or a tool call waits for a human no more.
    pub fn approval_ended(&self, action: &'static str, result: &'static str) {
        self.approvals.at([action.into(), result.into()]).inc();
    }

    /// Those of runs.
    pub fn runs(&self) -> &RunMetrics {
        &self.runs
    }

    /// Those of workflows.
    pub fn workflows(&self) -> &WorkflowMetrics {
        &self.workflows
    }

    /// Those of reports.
    pub fn reports(&self) -> &ReportMetrics {
        &self.reports
    }

    /// Those of webhooks.
    pub fn webhooks(&self) -> &WebhookMetrics {
        &self.webhooks
    }

    /// What there is, for the test of its documentation.
    pub fn described() -> Vec<Described> {
        let mut all = Self::new().enter(&mut Registry::default());
        all.push(scrape::BUILD);
        all
    }

    /// Runs before metrics are shown, to set what is cheaper to look at then. It is
    /// kept for good, so it must not hold what should end.
    pub fn before_scrape(&self, hook: impl Fn(&Self) + Send + Sync + 'static) {
        self.hooks().push(Box::new(hook));
    }

    fn hooks(&self) -> std::sync::MutexGuard<'_, Vec<Hook>> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happens.
impl Metrics {
    /// A request has come in.
    #[must_use]
    pub fn request(&self) -> Timer {
        self.requests_running.at([]).inc();
        Timer { since: Instant::now() }
    }

    /// A sandbox takes calls, so long after it was asked for.
    pub fn created(&self, tier: &'static str, took: Duration) {
        self.creates.at(["ok".into()]).inc();
        self.create_seconds.at([tier.into()]).observe(took.as_secs_f64());
    }

    /// A sandbox was not made: the problem's code.
    pub fn not_created(&self, code: &'static str) {
        self.creates.at([code.into()]).inc();
    }

    pub fn ended(&self, reason: &'static str) {
        self.ends.at([reason.into()]).inc();
    }

    /// A call ended: `process` or `cell`.
    pub fn called(&self, kind: &'static str, reason: &'static str, took: Duration) {
        self.calls.at([kind.into(), reason.into()]).inc();
        self.call_seconds.at([kind.into()]).observe(took.as_secs_f64());
    }

    /// An attempt to place a sandbox: `placed`, `refused`, `unreachable`, `no_node` …
    pub fn placed(&self, result: &'static str) {
        self.placements.at([result.into()]).inc();
    }

    /// Traffic that the gateway told of.
    pub fn connection(&self, kind: &'static str, decision: &'static str) {
        self.connections.at([kind.into(), decision.into()]).inc();
    }

    /// A connection, or the body of a request, for which there was no room.
    pub fn connection_too_many(&self, kind: &'static str) {
        self.connections_too_many.at([kind.into()]).inc();
    }

    /// Bytes of a row; no two rows count the same ones.
    pub fn connection_bytes(&self, out: u64, into: u64) {
        self.connection_bytes.at(["out".into()]).inc_by(out);
        self.connection_bytes.at(["in".into()]).inc_by(into);
    }

    pub fn rows_missed(&self, packets: u64) {
        self.rows_missed.at([]).inc_by(packets);
    }

    /// Rows of calls or connections were stored for the first time.
    pub fn rows_stored(&self, kind: &'static str, rows: u64) {
        self.rows_stored.at([kind.into()]).inc_by(rows);
    }

    /// Rows of calls or connections were lost.
    pub fn rows_dropped(&self, reason: &'static str, rows: u64) {
        self.rows_dropped.at([reason.into()]).inc_by(rows);
    }

    /// Charges were written to the ledger.
    pub fn charged(&self, account: &'static str, nano_dollars: u64) {
        self.charged_nano_dollars.at([account.into()]).inc_by(nano_dollars);
    }

    /// The books of budgets answered a gateway, or were away.
    pub fn budget_lease(&self, outcome: &'static str) {
        self.budget_leases.at([outcome.into()]).inc();
    }

    /// A gateway died with so many slices.
    pub fn budget_slices_forfeited(&self, slices: u64) {
        self.budget_slices_forfeited.at([]).inc_by(slices);
    }

    pub fn record_unreadable(&self, kind: &'static str) {
        self.records_unreadable.at([kind.into()]).inc();
    }

    pub fn spent(&self, spent: Spent) {
        for (kind, count) in spent.tokens() {
            self.tokens.at([kind.into()]).inc_by(count);
        }
        // Exact for a hundred years of any budget: 2^53 of these are nine million dollars.
        #[expect(clippy::cast_precision_loss, reason = "see above")]
        self.spent_dollars.at([]).inc_by(spent.nano_dollars as f64 / 1e9);
    }

    pub(crate) fn spans_sent(&self, count: u64) {
        self.spans_sent.at([]).inc_by(count);
    }

    pub(crate) fn spans_dropped(&self, reason: &'static str, count: u64) {
        self.spans_dropped.at([reason.into()]).inc_by(count);
    }

    pub(crate) fn logged(&self, level: &'static str) {
        self.log_lines.at([level.into()]).inc();
    }
}

/// How things are.
impl Metrics {
    /// Sandboxes by state and tier; what is not named any more is none.
    pub fn set_sandboxes(&self, counts: impl IntoIterator<Item = ((&'static str, Word), usize)>) {
        for ((state, tier), count) in counts {
            self.sandboxes.at([state.into(), tier]).set(whole(count));
        }
    }

    /// What pools did since the last time, and what waits now.
    pub fn pools(&self, hits: u64, misses: u64, made: u64, waiting: usize, wanted: usize) {
        self.pool_claims.at(["hit".into()]).inc_by(hits);
        self.pool_claims.at(["miss".into()]).inc_by(misses);
        self.pool_made.at([]).inc_by(made);
        self.pool_waiting.at([]).set(whole(waiting));
        self.pool_wanted.at([]).set(whole(wanted));
    }

    /// Room for sandboxes on a node.
    pub fn set_slots(&self, all: usize, free: usize) {
        self.slots.at([]).set(whole(all));
        self.set_slots_free(free);
    }

    /// Free room: of a node, or of all that a control replica knows.
    pub fn set_slots_free(&self, free: usize) {
        self.slots_free.at([]).set(whole(free));
    }

    /// A request between control and a node was refused.
    pub fn rejected_node_request(&self, reason: &'static str) {
        self.node_requests_rejected.at([reason.into()]).inc();
    }

    /// Control refused a key.
    pub fn refused_key(&self, reason: &'static str) {
        self.keys_refused.at([reason.into()]).inc();
    }

    pub fn set_certificate_left(&self, left: Duration) {
        self.certificate_left_seconds.at([]).set(left.as_secs_f64());
    }

    /// Creates that wait for their turn, and since when the oldest does.
    pub fn set_queue(&self, length: usize, oldest: Duration) {
        self.queue_length.at([]).set(whole(length));
        self.queue_oldest_seconds.at([]).set(oldest.as_secs_f64());
    }

    /// Nodes in a state: `up`, `draining`, `lost` …
    pub fn set_nodes(&self, state: &'static str, count: usize) {
        self.nodes.at([state.into()]).set(whole(count));
    }

    pub fn set_outbox(&self, waiting: u64) {
        self.outbox_waiting.at([]).set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Timer {
    /// The answer begins. Methods and routes are words of ours.
    pub fn answered(self, method: &'static str, route: impl Into<Word>, status: u16) {
        let (metrics, route) = (metrics(), route.into());
        let took = self.since.elapsed().as_secs_f64();
        metrics.request_seconds.at([route.clone()]).observe(took);
        metrics.requests.at([method.into(), route, status.to_string().into()]).inc();
    }
}

impl Drop for Timer {
    /// Also when whoever asked has gone before there was an answer.
    fn drop(&mut self) {
        metrics().requests_running.at([]).dec();
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
