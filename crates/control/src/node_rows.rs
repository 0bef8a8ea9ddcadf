//! Rows of calls and connections that nodes send, so that they outlive them.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_peer_proto::member::{RowsStored, SendRows};
use belljar_telemetry::metrics;
use http::Request;

use crate::control::Control;
use crate::nodes::{NodeRefusal, node_of, read};

/// More than a node sends at once.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Longest wait for a batch, and for the database to store it: less than a node waits for both.
const READ_TIMEOUT: Duration = Duration::from_secs(4);
const STORE_TIMEOUT: Duration = Duration::from_secs(4);

impl Control {
    pub(crate) async fn hear_rows(&self, request: Request<Body>) -> Result<Response, NodeRefusal> {
        let (number, identity) = node_of(&request)?;
        let place = self.place_for_rows(number).ok_or(NodeRefusal::TooMany)?;
        if self.node_key(number) != Some(identity.public_key) {
            return Err(NodeRefusal::UnknownKey);
        }
        let sent = tokio::time::timeout(READ_TIMEOUT, read(request, MAX_MESSAGE_BYTES)).await;
        let sent: SendRows = sent.map_err(|_| NodeRefusal::TooMany)??;
        if sent.number != number {
            return Err(NodeRefusal::OtherNode);
        }
        // On a task of its own: a statement that is dropped on its way costs its connection. It
        // keeps the place until the database gives it up, and the node sends the batch again.
        let store = self.store().rows();
        let stored = tokio::spawn(async move {
            let _place = place;
            store.put_of_node(number, &sent.rows).await
        });
        let stored = match tokio::time::timeout(STORE_TIMEOUT, stored).await {
            Ok(Ok(Ok(stored))) => stored,
            Ok(Ok(Err(error))) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, node = self.node_name(number), "node rows not stored");
                return Err(NodeRefusal::Database);
            }
            Ok(Err(_)) | Err(_) => return Err(NodeRefusal::Database),
        };
        metrics().rows_stored("call", stored.calls);
        metrics().rows_stored("connection", stored.connections);
        metrics().charged("models", stored.charged.models);
        metrics().charged("egress", stored.charged.egress);
        let new = stored.calls.saturating_add(stored.connections);
        Ok(Json(RowsStored { new }).into_response())
    }
}
