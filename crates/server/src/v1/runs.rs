//! Runs.

mod brief;
mod create;
mod follow;
mod list;
mod output;
mod prompt;
mod read_file;
mod report;
mod retry;
mod show;
mod stats;
mod steer;
mod turn;
mod usage;

use axum::extract::FromRequestParts;
use belljar_api::bounds::DateTime;
use belljar_journal::{Address, ReadError};
use belljar_runs::Runs;
use belljar_sandboxes::{Kind, Problem, Tenant};
use http::StatusCode;
use http::request::Parts;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::failure::Failure;

pub(super) use create::create;
pub(super) use follow::follow;
pub(super) use list::list;
pub(super) use output::output;
pub(super) use prompt::prompt;
pub(super) use read_file::read_file;
pub(super) use report::report;
pub(super) use retry::retry;
pub(super) use show::get;
pub(super) use stats::stats;
pub(super) use steer::{answer, breakpoints, cancel, change, pause, refused, resume, step, tell};
pub(super) use turn::turn;
pub(super) use usage::usage;

/// What this process offers, if anything; beside every request.
#[derive(Debug, Clone)]
pub(super) struct Offered(pub(super) Option<Runs>);

/// The runs that a request is about.
#[derive(Debug)]
pub(super) struct Offering(pub(super) Runs);

impl<S: Sync> FromRequestParts<S> for Offering {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let offered = parts.extensions.get::<Offered>().and_then(|offered| offered.0.clone());
        offered.map(Self).ok_or_else(|| {
            let message = "this server does not offer runs";
            Failure::new(StatusCode::NOT_FOUND, "runs_not_offered", message)
        })
    }
}

/// Which run is meant. What is no id names none.
fn address(tenant: &Tenant, id: &str) -> Result<Address, Failure> {
    let run = id.parse().map_err(|_| unknown())?;
    Ok(Address { tenant: tenant.as_str().to_owned(), run })
}

fn unknown() -> Failure {
    let message = "the run does not exist or you don't have access to it";
    Problem::new(Kind::NotFound, "run_not_found", message).into()
}

pub(super) fn unread(error: &ReadError) -> Failure {
    match error {
        ReadError::NoRun => unknown(),
        error => failed(error),
    }
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Problem::internal("read or change a run", error).into()
}

pub(super) fn moment(at: OffsetDateTime) -> DateTime {
    let at = at.to_offset(time::UtcOffset::UTC);
    DateTime(at.format(&Rfc3339).unwrap_or_else(|_| "1970-01-01T00:00:00Z".to_owned()))
}
