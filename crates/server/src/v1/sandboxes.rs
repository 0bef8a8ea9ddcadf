//! Sandboxes.

mod change;
mod create;
mod delete;
mod ended;
mod fork;
mod get;
mod list;
mod pause;
mod resume;

use belljar_api::bounds::DateTime;
use belljar_api::sandbox as api;
use belljar_domain::Limits;
use belljar_sandboxes::{Actions, Moment, OnTimeout, PauseMode, Sandbox};

pub(super) use change::change;
pub(super) use create::create;
pub(super) use delete::delete;
pub(super) use ended::ended;
pub(super) use fork::fork;
pub(super) use get::get;
pub(super) use list::list;
pub(super) use pause::pause;
pub(super) use resume::resume;

/// A sandbox as its owner sees it.
pub(super) fn view(actions: &Actions, sandbox: &Sandbox) -> api::Sandbox {
    let facts = sandbox.facts();
    api::Sandbox {
        id: sandbox.id().to_string(),
        state: if sandbox.is_paused() { api::State::Paused } else { api::State::Running },
        template: facts.template.clone(),
        asked_for: facts.alias.clone(),
        metadata: facts.metadata.clone(),
        started_at: date_time(facts.started_at),
        deadline: date_time(sandbox.deadline()),
        on_timeout: match facts.on_timeout {
            OnTimeout::Kill => api::OnTimeout::Kill,
            OnTimeout::Pause(PauseMode::Full) => api::OnTimeout::Pause,
            OnTimeout::Pause(PauseMode::Filesystem) => api::OnTimeout::PauseFiles,
        },
        auto_resume: facts.auto_resume,
        tier: facts.tier,
        profile: facts.profile.into(),
        limits: limits(&sandbox.limits()),
        traffic_token: facts.traffic_token.as_ref().map(|token| token.expose().to_owned()),
        access_token: Some(facts.token.expose().to_owned()),
        direct_url: actions.config().direct.clone(),
    }
}

pub(super) fn limits(limits: &Limits) -> api::Limits {
    api::Limits {
        memory_bytes: limits.memory_bytes,
        cpu_millis: limits.cpu_millis,
        pids: limits.pids,
        disk_bytes: limits.disk_bytes,
        output_bytes: limits.output_bytes,
        wall_ms: u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX),
    }
}

pub(super) fn date_time(moment: Moment) -> DateTime {
    DateTime(moment.to_string())
}
