//! `GET /v1/runs/{run}/turns/{turn}`

use axum::Json;
use belljar_api::turn as api;
use belljar_runs::TurnError;
use belljar_sandboxes::{Kind, Problem};

use super::{Offering, address, failed, unread};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn turn(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At((id, number)): At<(String, String)>,
) -> Result<Json<api::Turn>, Failure> {
    let run = address(&tenant, &id)?;
    let found = match number.parse() {
        Ok(number) => runs.turn(&run, number).await,
        // The run is looked for all the same: it may be another tenant's.
        Err(_) => runs.journal().find(&run).await.map(|_| None).map_err(TurnError::from),
    };
    match found {
        Ok(Some(turn)) => Ok(Json(turn)),
        Ok(None) => {
            let message = "the run has no such turn";
            let problem = Problem::new(Kind::NotFound, "turn_not_found", message);
            Err(problem
                .hint("turns are numbered from 1; `used.turns` of the run counts them")
                .into())
        }
        Err(TurnError::Read(error)) => Err(unread(&error)),
        Err(error) => Err(failed(&error)),
    }
}
