//! What is counted, timed and traced of all this. Nothing here decides anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use belljar_domain::network::{Charge, Decision, Kind as RowKind, Reason, Row};
use belljar_domain::{EndReason, RootFs, Usage};
use belljar_node::PoolFigures;
use belljar_telemetry::{Metrics, Past, Spent, Value, Whose, here, metrics, recall, remember};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::create::Create;
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::sandbox::{Live, Sandbox, State};
use crate::start::Actions;

impl Actions {
    /// Makes a sandbox; when this answers, it takes calls.
    pub async fn create(&self, tenant: &Tenant, wish: &Create) -> Result<Arc<Sandbox>, Problem> {
        let begun = Instant::now();
        let span = tracing::info_span!(
            "create",
            tenant = tenant.as_str(),
            // Once it is known to be one: clients put all kinds of text there, even keys.
            template = Empty,
            sandbox = Empty,
            tier = Empty,
            error = Empty,
        );
        let made = Box::pin(self.make(tenant, wish)).instrument(span.clone()).await;
        match &made {
            Ok(sandbox) => {
                let tier = sandbox.facts().tier.as_str();
                span.record("template", wish.template.as_str());
                span.record("sandbox", sandbox.id().as_str()).record("tier", tier);
                metrics().created(tier, begun.elapsed());
                if let Ok(live) = sandbox.live() {
                    span.in_scope(|| remember(whose(&live, None)));
                }
            }
            Err(problem) => {
                span.record("error", problem.code);
                metrics().not_created(problem.code);
            }
        }
        made
    }

    /// Has metrics tell of what is here.
    pub fn observe(&self) {
        let (actions, last) = (self.weakly(), Mutex::new(Last::default()));
        metrics().before_scrape(move |metrics| {
            let Some(actions) = actions() else { return };
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            last.count_sandboxes(&actions, metrics);
            last.count_pools(&actions, metrics);
            if let Some(slots) = actions.config().slots {
                let taken = actions.registry().taken();
                metrics.set_slots(slots, slots.saturating_sub(taken));
            }
        });
    }
}

/// What was told the last time.
#[derive(Default)]
struct Last {
    /// Also of those that are none now: a line that vanishes looks like one that
    /// nobody measures.
    sandboxes: BTreeMap<(&'static str, &'static str), usize>,
    pools: Vec<(RootFs, PoolFigures)>,
}

impl Last {
    fn count_sandboxes(&mut self, actions: &Actions, metrics: &Metrics) {
        self.sandboxes.values_mut().for_each(|count| *count = 0);
        for sandbox in actions.registry().all() {
            let state = match sandbox.state() {
                State::Running(_) => "running",
                State::Paused(_) => "paused",
                State::Ended(_) => continue,
            };
            *self.sandboxes.entry((state, sandbox.facts().tier.as_str())).or_default() += 1;
        }
        let counts = self.sandboxes.iter();
        metrics
            .set_sandboxes(counts.map(|((state, tier), count)| ((*state, (*tier).into()), *count)));
    }

    /// Pools count for themselves, and begin anew when a template is warmed again.
    fn count_pools(&mut self, actions: &Actions, metrics: &Metrics) {
        let now = actions.node().pools();
        let mut sum = PoolFigures::default();
        for (root, figures) in &now {
            let before = self.pools.iter().find(|(known, _)| known == root);
            let before = before.map(|(_, figures)| *figures).unwrap_or_default();
            let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
            sum.hits += since(figures.hits, before.hits);
            sum.misses += since(figures.misses, before.misses);
            sum.made += since(figures.made, before.made);
            sum.waiting += figures.waiting;
            sum.wanted += figures.wanted;
        }
        self.pools = now;
        metrics.pools(sum.hits, sum.misses, sum.made, sum.waiting, sum.wanted);
    }
}

fn whose(live: &Live, call: Option<u32>) -> Whose {
    // Rows of traffic name the machine, of which a sandbox may have several.
    Whose { sandbox: live.machine.id().to_string(), call }
}

/// A process or a cell: a span of its own, since it outlives its request.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    kind: &'static str,
    span: Span,
}

impl Watched {
    pub(crate) fn process(sandbox: &Sandbox) -> Self {
        let span = tracing::info_span!(
            parent: None,
            "call",
            traceparent = here(),
            tenant = sandbox.facts().tenant.as_str(),
            sandbox = sandbox.id().as_str(),
            call = Empty,
            attempt = Empty,
            reason = Empty,
            cpu_seconds = Empty,
            peak_memory_bytes = Empty,
            error = Empty,
        );
        Self { kind: "process", span }
    }

    pub(crate) fn cell(sandbox: &Sandbox) -> Self {
        let span = tracing::info_span!(
            parent: None,
            "cell",
            traceparent = here(),
            tenant = sandbox.facts().tenant.as_str(),
            sandbox = sandbox.id().as_str(),
            call = Empty,
            attempt = Empty,
            reason = Empty,
            cpu_seconds = Empty,
            peak_memory_bytes = Empty,
            error = Empty,
        );
        Self { kind: "cell", span }
    }

    /// Which span events of it belong to.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// It has a number now.
    pub(crate) fn begun(&self, live: &Live, number: u32, attempt: u64) {
        self.span.record("call", number).record("attempt", attempt);
        self.span.in_scope(|| remember(whose(live, Some(number))));
    }

    pub(crate) fn ended(&self, reason: EndReason, usage: &Usage) {
        let word = reason.as_str();
        self.span.record("reason", word).record("cpu_seconds", usage.cpu.as_secs_f64());
        if let Some(peak) = usage.peak_memory_bytes {
            self.span.record("peak_memory_bytes", peak);
        }
        if reason != EndReason::Done {
            self.span.record("error", word);
        }
        metrics().called(self.kind, word, usage.wall);
    }
}

/// A sandbox has ended, for a reason that is written out.
pub(crate) fn ended(reason: &str) {
    let known = EndReason::ALL.into_iter().find(|known| known.as_str() == reason);
    metrics().ended(known.map_or("other", EndReason::as_str));
}

/// Traffic that the gateway told of: counted, and part of the trace of whoever
/// made it.
pub(crate) fn row(row: &Row) {
    let kind = match row.kind {
        RowKind::Connection => "connection",
        RowKind::Lookup => "lookup",
        RowKind::Exchange => "exchange",
        RowKind::Operation => "operation",
    };
    let decision = match row.decision {
        Decision::Allowed => "allowed",
        Decision::Denied => "denied",
        Decision::Played => "played",
        Decision::Failed => "failed",
    };
    metrics().connection(kind, decision);
    if row.reason == Reason::TooMany {
        metrics().connection_too_many(kind);
    }
    metrics().connection_bytes(row.bytes.out, row.bytes.into);
    if let Some(charge) = &row.charge {
        let Charge { input, cache_read, cache_write, output, nano_dollars, .. } = *charge;
        metrics().spent(Spent { input, cache_read, cache_write, output, nano_dollars });
    }
    let call = row.subject.call.as_ref().map(|call| call.number);
    let made_by = Whose { sandbox: row.subject.sandbox.to_string(), call };
    let Some(parent) = recall(&made_by) else { return };
    let start = row.began.saturating_mul(1000);
    let end = start.saturating_add(row.micros.saturating_mul(1000));
    let mut fields = vec![
        ("decision", decision.into()),
        ("tenant", row.subject.tenant.as_str().into()),
        ("bytes_out", row.bytes.out.into()),
        ("bytes_in", row.bytes.into.into()),
    ];
    let host = row.host.as_ref().map(ToString::to_string);
    fields.extend(host.map(|host| ("host", Value::Text(host))));
    fields.extend(row.port.map(|port| ("port", u64::from(port).into())));
    fields.extend(row.status.map(|status| ("status", u64::from(status).into())));
    fields.extend(row.subject.run.as_deref().map(|run| ("run", run.into())));
    fields.extend(row.subject.turn.map(|turn| ("turn", u64::from(turn).into())));
    fields.extend(call.map(|call| ("call", u64::from(call).into())));
    if matches!(row.decision, Decision::Denied | Decision::Failed) {
        fields.push(("error", decision.into()));
    }
    belljar_telemetry::record(Past { name: kind, parent, start, end, fields });
}
