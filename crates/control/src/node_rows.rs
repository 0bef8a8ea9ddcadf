//! Rows of calls and connections that nodes send, so that they outlive them.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_bus::member::{RowsStored, SendRows};
use belljar_telemetry::metrics;
use http::Request;

use crate::control::Control;
use crate::nodes::{NodeRefusal, node_of, read};

/// More than a node sends at once.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

impl Control {
    pub(crate) async fn hear_rows(&self, request: Request<Body>) -> Result<Response, NodeRefusal> {
        let (number, identity) = node_of(&request)?;
        let place = self.speaking(number).acquire_owned().await;
        let place = place.map_err(|_| NodeRefusal::TooMany)?;
        if self.node_key(number) != Some(identity.public_key) {
            return Err(NodeRefusal::UnknownKey);
        }
        let sent: SendRows = read(request, MAX_MESSAGE_BYTES).await?;
        if sent.number != number {
            return Err(NodeRefusal::OtherNode);
        }
        // On a task of its own: a statement that is dropped on its way costs its connection.
        let store = self.store().rows();
        let stored = tokio::spawn(async move {
            let _place = place;
            store.put_of_node(number, &sent.rows).await
        });
        let stored = match stored.await {
            Ok(Ok(stored)) => stored,
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, node = self.node_name(number), "node rows not stored");
                return Err(NodeRefusal::Database);
            }
            Err(_) => return Err(NodeRefusal::Database),
        };
        metrics().rows_stored("call", stored.calls);
        metrics().rows_stored("connection", stored.connections);
        let new = stored.calls.saturating_add(stored.connections);
        Ok(Json(RowsStored { new }).into_response())
    }
}
