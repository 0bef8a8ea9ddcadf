//! A node's place behind control: whose requests count.
//!
//! ```text
//!   private port (mutual TLS, control only) ─┬─ signed by control ─► in a tenant's name
//!                                            └─ unsigned ──────────► by its sandbox's token
//!   public port (optional) ───────────────────────────────────────► by its sandbox's token
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use axum::body::Body;
use belljar_identity::{
    Clients, NodeIdentity, Peer, PeerIdentity, Purpose, ReplayCache, SignatureError, digest, verify,
};
use belljar_listen::{ListenError, Listener};
use belljar_peer_proto::behalf::{Behalf, FRESH, HEADER, about, is_fresh};
use belljar_peer_proto::member::Registered;
use belljar_sandboxes::{Keys, OnBehalf, Tenant};
use http::{Extensions, Request};
use http_body_util::{BodyExt as _, Limited};

/// The reason a request in a tenant's name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("not signed by control")]
    Signature(#[from] SignatureError),
    #[error("signed for another node")]
    OtherNode,
    #[error("signature too old")]
    Stale,
    #[error("replayed request")]
    Replayed,
    #[error("body differs from the signed one")]
    Body,
}

impl RequestError {
    /// In one word, for metrics.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Signature(_) => "bad_signature",
            Self::OtherNode => "other_node",
            Self::Stale => "stale",
            Self::Replayed => "replayed",
            Self::Body => "other_body",
        }
    }
}

/// Requests of a minute that are remembered, some 64 bytes each.
const MAX_REMEMBERED_REQUESTS: usize = 1 << 18;
/// No longer body is signed.
const LONGEST_SIGNED_BODY: usize = 8 << 20;

/// The platform that a node belongs to; cheap to clone.
#[derive(Debug, Clone)]
pub struct Cluster {
    identity: NodeIdentity,
    seen: Arc<ReplayCache>,
    /// Who this node is to the platform; none: nobody, and it serves nothing.
    registered: Arc<RwLock<Option<Registered>>>,
    /// Whether it is about to stop.
    leaving: Arc<AtomicBool>,
    /// Counts what is said.
    sequence: Arc<AtomicU64>,
}

impl Cluster {
    pub fn new(identity: NodeIdentity) -> Self {
        let window = u64::try_from(FRESH.as_millis()).unwrap_or(u64::MAX);
        Self {
            identity,
            seen: Arc::new(ReplayCache::new(window, MAX_REMEMBERED_REQUESTS)),
            registered: Arc::default(),
            leaving: Arc::default(),
            sequence: Arc::default(),
        }
    }

    /// The port that control alone can connect to. Each replica of control speaks
    /// for many clients, whose addresses it bounds itself.
    pub fn listen(&self, address: std::net::SocketAddr) -> Result<Listener, ListenError> {
        let endpoint = self.identity.endpoint().clone();
        let config = endpoint
            .server_config(Clients::ControlOnly)
            .map_err(|error| ListenError { address, source: std::io::Error::other(error) })?;
        let listener = Listener::bind_identified(
            address,
            config,
            move |connection| {
                let mut extensions = Extensions::new();
                if let Some(identity) = endpoint.client_of(connection, Clients::ControlOnly)? {
                    extensions.insert(identity);
                }
                Ok(extensions)
            },
            |error| {
                belljar_telemetry::metrics().rejected_node_request("bad_certificate");
                tracing::warn!(error, "rejected connection to the control port");
            },
        )?;
        Ok(listener.for_proxies())
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn set_serving(&self, registered: Option<Registered>) {
        *self.registered.write().unwrap_or_else(PoisonError::into_inner) = registered;
    }

    /// Who this node is, if it is anybody now.
    pub fn registered(&self) -> Option<Registered> {
        self.registered.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.registered.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// It takes nothing new from now on.
    pub fn set_leaving(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    pub fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Takes control's word from a request that control sent, and everything that only
    /// control may say from any other.
    pub(crate) async fn receive(
        &self,
        keys: &Keys,
        mut request: Request<Body>,
    ) -> Result<Request<Body>, RequestError> {
        request.headers_mut().remove("x-api-key");
        if !is_from_control(&request) {
            let ours = |name: &&http::HeaderName| name.as_str().starts_with("belljar-");
            let ours: Vec<_> = request.headers().keys().filter(ours).cloned().collect();
            for name in ours {
                request.headers_mut().remove(name);
            }
            return Ok(request);
        }
        let Some(word) = request.headers_mut().remove(HEADER) else { return Ok(request) };
        let word = word.to_str().map_err(|_| SignatureError::Form)?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let context = about(request.method().as_str(), path);
        let trusted = self.identity.verifying_keys();
        let behalf: Behalf = verify(&trusted, Purpose::Request, context.as_bytes(), word)?;
        let now = self.identity.clock().now();
        if behalf.node != self.identity.number() {
            return Err(RequestError::OtherNode);
        }
        if !is_fresh(behalf.at, now) {
            return Err(RequestError::Stale);
        }
        let nonce = (&behalf.nonce).try_into().map_err(|_| SignatureError::Form)?;
        if !self.seen.admit(behalf.at, nonce, now) {
            return Err(RequestError::Replayed);
        }
        if let Some(signed) = &behalf.body {
            let body = Limited::new(std::mem::take(request.body_mut()), LONGEST_SIGNED_BODY);
            let body = body.collect().await.map_err(|_| RequestError::Body)?.to_bytes();
            if digest(&body)[..] != signed.0 {
                return Err(RequestError::Body);
            }
            *request.body_mut() = Body::from(body);
        }
        let tenant = Tenant::new(&behalf.tenant);
        keys.believe(&tenant, behalf.floor);
        request.extensions_mut().insert(OnBehalf {
            tenant,
            ids: behalf.ids,
            caps: behalf.operation_caps,
        });
        Ok(request)
    }
}

/// Returns true if a request came over the private port. Its listener has verified that.
pub(crate) fn is_from_control(request: &Request<Body>) -> bool {
    let peer = request.extensions().get::<PeerIdentity>().map(|identity| identity.peer);
    peer == Some(Peer::Control)
}

#[cfg(test)]
mod tests;
