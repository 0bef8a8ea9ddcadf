//! Samples of the bytes that nodes keep for tenants.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_bus::member::{SendStored, StoredTaken};
use http::Request;

use crate::control::Control;
use crate::nodes::{NodeRefusal, node_of, read};

/// More than the samples of a node are.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Longest waits for the message and for the database: less than a node waits for both.
const READ_TIMEOUT: Duration = Duration::from_secs(4);
const STORE_TIMEOUT: Duration = Duration::from_secs(4);

impl Control {
    pub(crate) async fn hear_stored(
        &self,
        request: Request<Body>,
    ) -> Result<Response, NodeRefusal> {
        let (number, identity) = node_of(&request)?;
        let place = self.place_for_rows(number).ok_or(NodeRefusal::TooMany)?;
        if self.node_key(number) != Some(identity.public_key) {
            return Err(NodeRefusal::UnknownKey);
        }
        let sent = tokio::time::timeout(READ_TIMEOUT, read(request, MAX_MESSAGE_BYTES)).await;
        let sent: SendStored = sent.map_err(|_| NodeRefusal::TooMany)??;
        if sent.number != number {
            return Err(NodeRefusal::OtherNode);
        }
        // On a task of its own: a statement that is dropped on its way costs its connection.
        let store = self.store().clone();
        let taken = tokio::spawn(async move {
            let _place = place;
            store.put_stored(number, &sent.stored).await
        });
        match tokio::time::timeout(STORE_TIMEOUT, taken).await {
            Ok(Ok(Ok(taken))) => Ok(Json(StoredTaken { taken }).into_response()),
            Ok(Ok(Err(error))) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, node = self.node_name(number), "stored bytes not noted");
                Err(NodeRefusal::Database)
            }
            Ok(Err(_)) | Err(_) => Err(NodeRefusal::Database),
        }
    }
}
