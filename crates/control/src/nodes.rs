//! Messages of nodes: each is believed about itself, and about nothing else.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::{NodeNumber, SandboxId};
use belljar_identity::{Peer, PeerIdentity, read_beat};
use belljar_peer_proto::enrolment::{CLOCK, ENROL, RENEW};
use belljar_peer_proto::member::{
    BUDGETS, Load, PROTOCOL, REGISTER, ROWS, Register, Registered, STORED, SYNC, Sync, Synced,
};
use belljar_peer_proto::platform::{Beat, SignedBeat};
use belljar_store::{Gone, Heard as Said, NodeState, Present, Registration, StoreError, Word};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::control::Control;
use crate::dial::{self, Known};
use crate::enrol::database;
use crate::placement::Heard;

/// Everything that a node has fits.
const LONGEST: usize = 16 << 20;

/// A node waits only so long, and must hear in time that it is the database that
/// does not answer: silence would end everything on it.
const HEARING: Duration = Duration::from_millis(900);

/// The most warm templates that a node is believed to have, and the longest name of one.
const MAX_WARM_TEMPLATES: usize = 1024;
const LONGEST_TEMPLATE_NAME: usize = 256;
/// More than there are.
const MAX_TIERS: usize = 16;

/// The reason a node is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NodeRefusal {
    #[error("unknown path for nodes")]
    NoRoute,
    #[error("this needs a node's certificate")]
    NoCertificate,
    #[error("the message cannot be parsed")]
    Malformed,
    #[error("the message is about another node than its sender")]
    OtherNode,
    #[error("no node of this name has enrolled this key, or it was revoked")]
    UnknownKey,
    #[error("the sender does not have the key that it enrols")]
    Proof,
    #[error("no such enrolment token; a newer token of the same node replaces an older one")]
    UnknownToken,
    #[error("the enrolment token has expired; create another with `belljar admin node add`")]
    ExpiredToken,
    #[error("the enrolment token was used; create another with `belljar admin node add`")]
    UsedToken,
    #[error("the enrolment token is for a node of another name")]
    OtherName,
    #[error("too many concurrent messages from this node")]
    TooMany,
    #[error("the database does not respond")]
    Database,
}

impl NodeRefusal {
    /// In one word, for metrics and programs.
    fn code(self) -> &'static str {
        match self {
            Self::NoRoute => "no_route",
            Self::NoCertificate => "no_certificate",
            Self::Malformed => "malformed",
            Self::OtherNode => "other_node",
            Self::UnknownKey => "unknown_key",
            Self::Proof => "bad_proof",
            Self::UnknownToken => "token_unknown",
            Self::ExpiredToken => "token_expired",
            Self::UsedToken => "token_used",
            Self::OtherName => "token_for_another_name",
            Self::TooMany => "too_many",
            Self::Database => "database_away",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::NoCertificate => StatusCode::UNAUTHORIZED,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Database | Self::TooMany => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::FORBIDDEN,
        }
    }
}

/// Answers what comes to the port for nodes.
pub(crate) async fn answer(control: &Control, request: Request<Body>) -> Response {
    let path = request.uri().path().to_owned();
    let peer = request.extensions().get::<PeerIdentity>().copied();
    let answered = match path.as_str() {
        _ if request.method() != Method::POST => Err(NodeRefusal::NoRoute),
        ENROL => control.hear_enrol(request).await,
        CLOCK => control.tell_clock(request).await,
        RENEW => control.hear_renew(request).await,
        REGISTER => control.hear_register(request).await,
        SYNC => control.hear_sync(request).await,
        ROWS => control.hear_rows(request).await,
        BUDGETS => control.hear_budget(request).await,
        STORED => control.hear_stored(request).await,
        _ => Err(NodeRefusal::NoRoute),
    };
    answered.unwrap_or_else(|refusal| {
        belljar_telemetry::metrics().rejected_node_request(refusal.code());
        let peer = peer.map_or_else(|| "none".to_owned(), |peer| peer.peer.name());
        tracing::warn!(path, peer, reason = refusal.code(), "rejected node request");
        let body = json!({ "code": refusal.code(), "message": refusal.to_string() });
        (refusal.status(), Json(body)).into_response()
    })
}

/// The node whose certificate a request came with.
pub(crate) fn node_of<T>(request: &Request<T>) -> Result<(NodeNumber, PeerIdentity), NodeRefusal> {
    match request.extensions().get::<PeerIdentity>() {
        Some(&identity @ PeerIdentity { peer: Peer::Node(number), .. }) => Ok((number, identity)),
        _ => Err(NodeRefusal::NoCertificate),
    }
}

pub(crate) async fn read<T: DeserializeOwned>(
    request: Request<Body>,
    longest: usize,
) -> Result<T, NodeRefusal> {
    let body = Limited::new(request.into_body(), longest).collect().await;
    let body = body.map_err(|_| NodeRefusal::Malformed)?.to_bytes();
    serde_json::from_slice(&body).map_err(|_| NodeRefusal::Malformed)
}

impl Control {
    async fn hear_register(&self, request: Request<Body>) -> Result<Response, NodeRefusal> {
        let (number, identity) = node_of(&request)?;
        let places = self.speaking(number);
        let place = tokio::time::timeout(HEARING, places.acquire()).await;
        let Ok(Ok(_place)) = place else { return Err(NodeRefusal::TooMany) };
        let register: Register = read(request, LONGEST).await?;
        let registered = self.register(number, &identity, &register).await;
        let registered = registered.map_err(|error| database(&error))??;
        Ok(Json(registered).into_response())
    }

    async fn register(
        &self,
        number: NodeNumber,
        identity: &PeerIdentity,
        register: &Register,
    ) -> Result<Result<Registered, NodeRefusal>, StoreError> {
        let Some(address) = dial::address(&register.address) else {
            return Ok(Err(NodeRefusal::Malformed));
        };
        let lease = self.settings().lease;
        let registration = Registration {
            number,
            public_key: identity.public_key.as_bytes(),
            name: &register.name,
            address: &register.address,
            tiers: &register.tiers,
            slots: register.slots,
            max_limits: register.max_limits,
            lease,
        };
        let Some(me) = self.leases().register(&registration).await? else {
            return Ok(Err(NodeRefusal::UnknownKey));
        };
        let has: HashSet<&SandboxId> = register.has.iter().collect();
        let mut kept: HashSet<SandboxId> = HashSet::new();
        for row in self.leases().left_on(me).await? {
            if has.contains(&row.id) && self.leases().adopt(&row.id, me).await?.is_some() {
                kept.insert(row.id);
            } else {
                self.leases().end_left(&row.id, me).await?;
            }
        }
        tracing::info!(node = register.name, %number, epoch = me.epoch, "node registered");
        if register.protocol > PROTOCOL {
            let node = &register.name;
            tracing::warn!(node, "a node is newer than control: upgrade control first");
        }
        let node = Known {
            name: register.name.clone(),
            address,
            public_key: identity.public_key,
            state: NodeState::Up,
            slots: register.slots,
            epoch: me.epoch,
        };
        self.set_node(number, node);
        let load = Load {
            free: register.slots.saturating_sub(u32::try_from(kept.len()).unwrap_or(u32::MAX)),
            // Its first word, right after this, says whether it is warm.
            is_warming: true,
            tiers: register.tiers.clone(),
            max_limits: register.max_limits,
            ..Load::default()
        };
        self.roster().hear(self.heard(number, me.epoch, load), Instant::now());
        let end = register.has.iter().filter(|id| !kept.contains(*id)).cloned().collect();
        Ok(Ok(Registered {
            number,
            epoch: me.epoch,
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
            end,
            trust: (*self.keyring().trust()).clone(),
            now: self.keyring().now(),
            protocol: PROTOCOL,
        }))
    }

    async fn hear_sync(&self, request: Request<Body>) -> Result<Response, NodeRefusal> {
        let (number, identity) = node_of(&request)?;
        // Before its body is read: however many come at once, two are held in memory.
        let place = tokio::time::timeout(HEARING, self.speaking(number).acquire_owned()).await;
        let Ok(Ok(place)) = place else { return Err(NodeRefusal::TooMany) };
        let sync: Sync = read(request, LONGEST).await?;
        if sync.number != number {
            return Err(NodeRefusal::OtherNode);
        }
        // One that is known to be away is not waited for again and again.
        let hearing = if self.well_for().is_some() { HEARING } else { HEARING / 3 };
        // On a task of its own: a transaction that is dropped on its way would leave
        // its connection in it, and whoever uses that next writes nothing for good.
        let heard = tokio::spawn({
            let control = self.clone();
            async move {
                let _place = place;
                control.sync(&sync, &identity).await
            }
        });
        let synced = match tokio::time::timeout(hearing, heard).await {
            Ok(Ok(Ok(synced))) => synced,
            Ok(Ok(Err(error))) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(node = self.node_name(number), error, "node message not stored");
                self.set_well(false);
                Synced::Away { now: self.keyring().now() }
            }
            Ok(Err(_)) | Err(_) => {
                let node = self.node_name(number);
                tracing::warn!(node, "node message not stored: database timeout");
                self.set_well(false);
                Synced::Away { now: self.keyring().now() }
            }
        };
        belljar_fault::point("control.synced");
        Ok(Json(synced).into_response())
    }

    async fn sync(&self, sync: &Sync, identity: &PeerIdentity) -> Result<Synced, StoreError> {
        let lease = self.settings().lease;
        let present: Vec<_> = sync
            .has
            .iter()
            .map(|has| Present {
                id: &has.id,
                tier: has.tier,
                is_paused: has.is_paused,
                left: Duration::from_millis(has.left_ms),
                ran: Duration::from_millis(has.ran_ms),
            })
            .collect();
        let ended: Vec<_> = sync
            .ended
            .iter()
            .map(|gone| Gone {
                id: &gone.id,
                reason: gone.reason,
                ran: Duration::from_millis(gone.ran_ms),
            })
            .collect();
        let word = Word {
            number: sync.number,
            public_key: identity.public_key.as_bytes(),
            epoch: sync.epoch,
            sequence: sync.sequence,
            lease,
            is_whole: sync.is_whole,
            present: &present,
            ended: &ended,
        };
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let (end, drain) = match self.leases().hear(&word).await? {
            Said::Stale => return Ok(Synced::Stale { now: self.keyring().now() }),
            Said::Late => (Vec::new(), sync.load.is_draining),
            Said::Renewed { is_draining, unknown, missing } => {
                for id in missing {
                    let node = self.node_name(sync.number);
                    tracing::warn!(sandbox.id = %id, node, "sandbox lost: missing on its node");
                }
                (unknown, is_draining)
            }
        };
        let load = Load { is_draining: sync.load.is_draining || drain, ..sync.load.clone() };
        self.roster().hear(self.heard(sync.number, sync.epoch, load), Instant::now());
        let trust = self.keyring().trust();
        let trust = (trust.version() != sync.trust).then(|| (*trust).clone());
        Ok(Synced::Renewed { lease_ms, end, drain, trust, now: self.keyring().now() })
    }

    /// What a node says of its load, within bounds: it cannot claim more places than it
    /// registered, or fill this replica's memory.
    fn heard(&self, number: NodeNumber, epoch: u64, load: Load) -> Heard {
        let is_name = |name: &String| name.len() <= LONGEST_TEMPLATE_NAME;
        let warm = load.warm.into_iter().filter(is_name).take(MAX_WARM_TEMPLATES);
        Heard {
            number: number.get(),
            epoch,
            free: load.free.min(self.slots_of(number).unwrap_or(u32::MAX)),
            is_draining: load.is_draining,
            is_warming: load.is_warming,
            tiers: load.tiers.into_iter().take(MAX_TIERS).collect(),
            warm: warm.collect(),
            max_limits: load.max_limits,
        }
    }

    /// Hears over NATS how a node is. Only a hint: nobody lives or dies by it. It counts
    /// only if the node signed it: whoever can publish there could speak for any other.
    pub fn hear_beat(&self, signed: &SignedBeat) {
        let now = self.keyring().now();
        // One that has just come may not be known here yet.
        let Some(key) = self.node_key(signed.number) else { return };
        let Some(beat) = read_beat(&key, signed, now) else {
            belljar_telemetry::metrics().rejected_node_request("bad_beat");
            return;
        };
        if self.epoch(beat.number) != Some(beat.epoch) {
            return;
        }
        let Beat { number, epoch, load, .. } = beat;
        self.roster().hear(self.heard(number, epoch, load), Instant::now());
    }
}
