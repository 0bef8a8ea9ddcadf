//! Control's signature on what it passes to a node in a tenant's name.

use std::io;

use axum::body::{Body, HttpBody as _};
use belljar_domain::{NodeNumber, SandboxId};
use belljar_identity::{digest, random};
use belljar_peer_proto::behalf::Behalf;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request};
use http_body_util::BodyExt as _;

use crate::control::Control;
use crate::keys::Caller;

/// The whole body of a request, beside it.
#[derive(Debug, Clone)]
pub(crate) struct HeldBody(pub(crate) Bytes);

/// A body of known length up to this is read before it is passed on, so that its digest
/// can be signed. Longer ones are streamed, and are protected by TLS alone.
const MAX_SIGNED_STREAM_BYTES: u64 = 64 << 10;

impl Control {
    /// The header that says in whose name `request` comes to `node`.
    pub(crate) async fn sign_for(
        &self,
        caller: &Caller,
        ids: &[SandboxId],
        node: NodeNumber,
        request: &mut Request<Body>,
    ) -> Option<HeaderValue> {
        let body = hold(request).await;
        let behalf = Behalf {
            tenant: caller.proven.tenant.clone(),
            floor: caller.floor,
            operation_caps: caller.caps.clone(),
            ids: ids.to_vec(),
            node,
            body: body.map(|body| digest(&body).into()),
            nonce: random::<16>().ok()?.into(),
            at: self.keyring().now(),
        };
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let signed = self.keyring().sign_request(request.method().as_str(), path, &behalf);
        let signed = signed.inspect_err(|error| {
            tracing::error!(error = error as &dyn std::error::Error, "cannot sign request");
        });
        HeaderValue::try_from(signed.ok()?).ok()
    }
}

/// The body of a request, if it is here or can be had by waiting for its last byte.
async fn hold(request: &mut Request<Body>) -> Option<Bytes> {
    if let Some(HeldBody(body)) = request.extensions_mut().remove() {
        return Some(body);
    }
    let length = request.body().size_hint().exact()?;
    if length > MAX_SIGNED_STREAM_BYTES {
        return None;
    }
    match std::mem::take(request.body_mut()).collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            *request.body_mut() = Body::from(body.clone());
            Some(body)
        }
        Err(error) => {
            // The client broke off: the node sees that as it would have seen it.
            let broken = stream::iter([Err::<Bytes, _>(io::Error::other(error))]);
            *request.body_mut() = Body::from_stream(broken);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn short_bodies_are_held_and_long_ones_streamed() {
        let body = |length: usize| Request::new(Body::from(vec![b'x'; length]));
        for length in [0, 1, 64 << 10] {
            let mut request = body(length);
            assert_eq!(hold(&mut request).await.unwrap().len(), length);
            let passed = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(passed.len(), length, "it is passed on all the same");
        }
        assert!(hold(&mut body((64 << 10) + 1)).await.is_none());
        let pieces = stream::iter(["a", "b"].map(Ok::<_, io::Error>));
        assert!(hold(&mut Request::new(Body::from_stream(pieces))).await.is_none());
        let mut held = body(1 << 20);
        held.extensions_mut().insert(HeldBody(Bytes::from_static(b"whole")));
        assert_eq!(hold(&mut held).await.unwrap(), "whole");
    }
}
