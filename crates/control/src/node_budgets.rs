//! Slices of budgets that the gateways of nodes lease and give back.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::KnownBudgets;
use belljar_domain::budget::{AskSlice, BudgetAnswer, BudgetKey, BudgetRequest};
use belljar_peer_proto::member::AskBudget;
use http::Request;

use crate::control::Control;
use crate::nodes::{NodeRefusal, node_of, read};

/// Longer than a request for slices is.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Longest waits for a place, for the message, and for the database.
const PLACE_TIMEOUT: Duration = Duration::from_millis(500);
const READ_TIMEOUT: Duration = Duration::from_secs(1);
const STORE_TIMEOUT: Duration = Duration::from_secs(1);

/// A node claims a budget that is not in control's own settings.
const UNKNOWN_BUDGET: &str = "unknown_budget";

impl Control {
    /// Puts the limit that control knows in place of the one that a node claims. Fails for a budget
    /// that control does not know. Without settings of its own, control believes the node.
    fn judged(&self, request: BudgetRequest) -> Result<BudgetRequest, BudgetKey> {
        match self.known_budgets() {
            Some(known) => judged_by(known, request),
            None => Ok(request),
        }
    }

    /// A node leases for itself alone: the slice bears its number, and nothing but a message of the
    /// same node gives it back.
    pub(crate) async fn hear_budget(
        &self,
        request: Request<Body>,
    ) -> Result<Response, NodeRefusal> {
        let (number, identity) = node_of(&request)?;
        let place = self.budget_places(number).acquire_owned();
        let place = tokio::time::timeout(PLACE_TIMEOUT, place).await;
        let Ok(Ok(place)) = place else { return Err(NodeRefusal::TooMany) };
        if self.node_key(number) != Some(identity.public_key) {
            return Err(NodeRefusal::UnknownKey);
        }
        let asked = tokio::time::timeout(READ_TIMEOUT, read(request, MAX_MESSAGE_BYTES)).await;
        let asked: AskBudget = asked.map_err(|_| NodeRefusal::TooMany)??;
        if asked.number != number {
            return Err(NodeRefusal::OtherNode);
        }
        let request = match self.judged(asked.request) {
            Ok(request) => request,
            Err(key) => {
                belljar_telemetry::metrics().rejected_node_request(UNKNOWN_BUDGET);
                let node = self.node_name(number);
                let BudgetKey { operation, every_seconds, .. } = key;
                tracing::warn!(node, operation, every_seconds, "unknown budget claimed by a node");
                let why = format!("control knows no such budget of `{operation}`");
                return Ok(Json(BudgetAnswer::Away { why }).into_response());
            }
        };
        // The node asks another replica then, which grants another slice: this one is taken back.
        let store = self.store();
        let answered =
            store.answer_budget_within(STORE_TIMEOUT, Some(number), request, place).await;
        match answered {
            Some(Ok(answer)) => Ok(Json(answer).into_response()),
            Some(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, node = self.node_name(number), "no slice of a budget");
                Err(NodeRefusal::Database)
            }
            None => Err(NodeRefusal::Database),
        }
    }
}

fn judged_by(known: &KnownBudgets, request: BudgetRequest) -> Result<BudgetRequest, BudgetKey> {
    match request {
        BudgetRequest::Lease(asked) => match known.limit_of(&asked.key) {
            Some(limit) => Ok(BudgetRequest::Lease(AskSlice { limit, ..asked })),
            None => Err(asked.key),
        },
        // Slices that were leased before these settings may come back.
        request @ BudgetRequest::Return(_) => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::BudgetOwner;
    use belljar_domain::budget::{BudgetAmount, BudgetLimit, ReturnSlices};

    use super::*;

    /// Requirements: P3
    #[test]
    fn limits_that_a_node_claims_are_not_used() {
        let limit = |requests| BudgetLimit { requests: Some(requests), ..BudgetLimit::default() };
        let key = |every_seconds| {
            let operation = "llm".to_owned();
            BudgetKey { operation, tenant: None, every_seconds }
        };
        let mut known = KnownBudgets::default();
        known.add("llm".to_owned(), BudgetOwner::AllTenants, 60, limit(100));
        let claim = |every_seconds, limit| {
            let (gateway, at_least) = ("g".to_owned(), BudgetAmount::default());
            BudgetRequest::Lease(AskSlice { gateway, key: key(every_seconds), limit, at_least })
        };
        for claimed in [limit(1 << 40), limit(1), BudgetLimit::default()] {
            assert_eq!(judged_by(&known, claim(60, claimed)), Ok(claim(60, limit(100))));
        }
        // A window of its own would be a budget of its own.
        assert_eq!(judged_by(&known, claim(61, limit(100))), Err(key(61)));
        let (gateway, slices) = ("g".to_owned(), Vec::new());
        let back = BudgetRequest::Return(ReturnSlices { gateway, key: key(61), slices });
        assert_eq!(judged_by(&known, back.clone()), Ok(back));
    }
}
