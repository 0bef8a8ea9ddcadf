//! Slices of budgets that the gateways of nodes lease and give back.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_bus::member::AskBudget;
use http::Request;

use crate::control::Control;
use crate::nodes::{NodeRefusal, node_of, read};

/// Longer than a request for slices is.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Longest waits for a place, for the message, and for the database.
const PLACE_TIMEOUT: Duration = Duration::from_millis(500);
const READ_TIMEOUT: Duration = Duration::from_secs(1);
const STORE_TIMEOUT: Duration = Duration::from_secs(1);

impl Control {
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
        // The node asks another replica then, which grants another slice: this one is taken back.
        let store = self.store();
        let answered =
            store.answer_budget_within(STORE_TIMEOUT, Some(number), asked.request, place).await;
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
