//! Copies of a sandbox: on its node, each with a row of its own.

use axum::body::Body;
use axum::response::Response;
use belljar_domain::{EndReason, NodeNumber, SandboxId};
use http::StatusCode;
use serde_json::Value;

use crate::control::Control;
use crate::create::over_quota;
use crate::forward::Held;
use crate::keyed::whole;
use crate::keys::Caller;
use crate::refuse::{Refusal, Surface};
use crate::route::unreached;

/// The most copies that one request makes.
const MOST: usize = 20;

impl Control {
    pub(crate) async fn fork(
        &self,
        surface: Surface,
        caller: &Caller,
        original: &SandboxId,
        node: NodeNumber,
        held: Held,
    ) -> Result<Response, Refusal> {
        let wish: Value = serde_json::from_slice(&held.body).unwrap_or_default();
        let count = wish["count"].as_u64().unwrap_or(1);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let ids = if (1..=MOST).contains(&count) {
            (0..count).map(|_| self.new_id(node)).collect::<Result<Vec<_>, _>>()?
        } else {
            // The node says what is wrong with it.
            Vec::new()
        };
        let tenant = &caller.proven.tenant;
        let row = self.store().sandbox(tenant, original).await;
        let row = row.map_err(|error| self.database(&error))?;
        let row = row.ok_or_else(|| Refusal::unknown_sandbox(original.as_str()))?;
        if !ids.is_empty() {
            let admitted = self.store().admit_copies(tenant, &row.template, &ids, node).await;
            if !admitted.map_err(|error| self.database(&error))? {
                return Err(over_quota());
            }
        }
        let response = match self.forward_for(caller, &ids, node, held.request()).await {
            Ok(response) => response,
            Err(error) => {
                for id in &ids {
                    let ended = self.store().end(tenant, id, None, EndReason::Lost).await;
                    ended.map_err(|error| self.database(&error))?;
                }
                return Ok(unreached(&error, surface));
            }
        };
        let (parts, body) = whole(response).await.ok_or_else(Refusal::unknown_outcome)?;
        for id in &ids {
            // Some may not have come to be.
            let made = parts.status == StatusCode::CREATED
                && body.windows(SandboxId::LENGTH).any(|text| text == id.as_str().as_bytes());
            if !made {
                self.withdraw(caller, id).await?;
            }
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}
