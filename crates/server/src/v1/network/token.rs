//! `POST /v1/sandboxes/{sandbox}/tokens`

use axum::Json;
use axum::extract::State;
use belljar_api::approval::tool_approvals;
use belljar_api::network as api;
use belljar_sandboxes::{Actions, Budget, GATEWAY_PORT, Minted, Moment, Problem, TokenWish};
use http::StatusCode;

use crate::v1::authenticate::{Caller, Capped};
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};
use crate::v1::sandboxes::date_time;

pub(in crate::v1) async fn token(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
    Body(asked): Body<api::CreateToken>,
) -> Result<(StatusCode, Json<api::Token>), Failure> {
    let approvals = tool_approvals(asked.approvals, asked.approval_seconds)
        .map_err(|error| Problem::invalid(error.to_string()))?;
    let renews = asked.renew_seconds.map(|seconds| small(seconds.get()));
    let wish = TokenWish {
        operations: asked.operations.into_iter().map(String::from).collect(),
        seconds: asked.seconds.map(|seconds| small(seconds.get())),
        agent: asked.agent.map(String::from),
        budget: asked.budget.map(|budget| Budget {
            requests: budget.requests.map(Into::into),
            tokens: budget.tokens.map(Into::into),
            nano_dollars: budget.nano_dollars.map(Into::into),
            requests_per_minute: budget.requests_per_minute.map(|most| small(most.get())),
        }),
        approvals,
    };
    actions.allow_token(&tenant, &id, &caps, &wish.operations)?;
    if let Some(seconds) = renews {
        // Those of the sandbox may be for any of its operations.
        actions.allow_token(&tenant, &id, &caps, &[])?;
        actions.renew_tokens(&tenant, &id, seconds).await?;
    }
    let Minted { token, expires, paths } = actions.mint_token(&tenant, &id, wish).await?;
    let made = api::Token {
        token,
        expires_at: date_time(Moment::from_unix_micros(expires)),
        base_url: format!("http://127.0.0.1:{GATEWAY_PORT}"),
        paths,
    };
    Ok((StatusCode::CREATED, Json(made)))
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
