//! Samples of the bytes that nodes keep for tenants.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::StoredBytes;
use belljar_peer_proto::member::{SendStored, StoredTaken};
use belljar_store::MAX_STORED_BYTES;
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
        if let Some((figures, largest)) = excess(&sent.stored) {
            let (node, bytes) = (self.node_name(number), largest.bytes);
            let tenant: String = largest.tenant.chars().take(64).collect();
            tracing::warn!(node, figures, tenant, bytes, "stored bytes of a node clamped");
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

/// Returns the number of figures that are clamped, and the largest of them.
fn excess(stored: &[StoredBytes]) -> Option<(usize, &StoredBytes)> {
    let above = stored.iter().filter(|it| it.bytes > MAX_STORED_BYTES);
    let largest = above.clone().max_by_key(|it| it.bytes)?;
    Some((above.count(), largest))
}

#[cfg(test)]
mod tests {
    use belljar_domain::StoredKind;

    use super::*;

    #[test]
    fn figures_above_the_bound_are_found() {
        let of = |bytes| StoredBytes { tenant: "ann".to_owned(), kind: StoredKind::Volumes, bytes };
        assert_eq!(excess(&[of(0), of(MAX_STORED_BYTES)]), None);
        let sent = [of(MAX_STORED_BYTES + 1), of(u64::MAX), of(7)];
        assert_eq!(excess(&sent), Some((2, &of(u64::MAX))));
    }
}
