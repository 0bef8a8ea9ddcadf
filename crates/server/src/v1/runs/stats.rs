//! `GET /v1/stats`

use std::collections::BTreeMap;

use axum::Json;
use belljar_api::stats as api;
use belljar_journal::event::Outcome;
use belljar_runs::{FigureWindow, RunStats};

use super::{Offering, failed, moment};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;

pub(in crate::v1) async fn stats(
    Offering(runs): Offering,
    Caller(tenant): Caller,
) -> Result<Json<api::Stats>, Failure> {
    let stats = runs.stats(tenant.as_str()).await.map_err(|error| failed(&error))?;
    Ok(Json(view(stats)))
}

fn view(stats: RunStats) -> api::Stats {
    let RunStats { at, waiting, running, paused, minute, hour, day } = stats;
    let total = waiting.saturating_add(running).saturating_add(paused);
    api::Stats {
        made_at: moment(at),
        alive: api::AliveRuns { total, waiting, running, paused },
        minute: window(minute),
        hour: window(hour),
        day: window(day),
    }
}

fn window(window: FigureWindow) -> api::StatsWindow {
    let (started_per_second, cache_share) = (window.started_per_second(), window.cache_share());
    let tokens = window.tokens;
    api::StatsWindow {
        since_at: moment(window.from),
        started: window.started,
        started_per_second,
        ended: ended(&window.ended),
        failures: window.failures,
        turns: window.turns,
        calls: window.calls,
        faults: window.faults,
        guards: window.guards,
        tokens: api::StatsTokens {
            input: tokens.input,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            output: tokens.output,
        },
        cache_share,
        nano_dollars: window.nano_dollars,
        sandbox_ms: window.sandbox_ms,
    }
}

fn ended(by: &BTreeMap<String, u64>) -> api::EndedRuns {
    let of = |outcome: Outcome| by.get(outcome.as_str()).copied().unwrap_or(0);
    api::EndedRuns {
        answered: of(Outcome::Answered),
        exhausted: of(Outcome::Exhausted),
        cancelled: of(Outcome::Cancelled),
        failed: of(Outcome::Failed),
    }
}
