//! What nodes say, and what they are told.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_bus::behalf::{Unproven, about, is_fresh};
use belljar_bus::member::{CLOCK, REGISTER, Register, Registered, SYNC, Sync, Synced, answer_to};
use belljar_bus::platform::Beat;
use belljar_model::{NodeNumber, SandboxId};
use belljar_store::{Gone, Heard as Said, NodeState, Present, Registration, StoreError, Word};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control::{Control, Known, now};
use crate::placement::Heard;

/// Everything that a node has fits.
const LONGEST: usize = 16 << 20;

/// A node waits only so long, and must hear in time that it is the database that
/// does not answer: silence would end everything on it.
const HEARING: Duration = Duration::from_millis(900);

/// Why a node is not answered.
enum Deaf {
    Unproven(Unproven),
    Unread,
}

impl Control {
    pub(crate) async fn hear_register(&self, request: Request<Body>) -> Response {
        let (text, register) = match self.read::<Register>(REGISTER, request).await {
            Ok(read) => read,
            Err(deaf) => return refuse(&deaf),
        };
        if !is_fresh(register.at, now()) {
            return self.too_late(&text);
        }
        match self.register(&register).await {
            Ok(registered) => self.say(&text, &registered),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a node is not registered"
                );
                StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
        }
    }

    async fn register(&self, register: &Register) -> Result<Registered, StoreError> {
        let lease = self.settings().lease;
        let registration = Registration {
            name: &register.name,
            address: &register.address,
            tiers: &register.tiers,
            slots: register.slots,
            lease,
        };
        let me = self.store().register(&registration).await?;
        let number = NodeNumber::new(me.number).ok_or(StoreError::Unreadable {
            what: "a node's number",
            value: me.number.to_string(),
        })?;
        let mut kept: Vec<SandboxId> = Vec::new();
        for row in self.store().left_on(me).await? {
            if register.has.contains(&row.id) && self.store().adopt(&row.id, me).await?.is_some() {
                kept.push(row.id);
            } else {
                self.store().end_left(&row.id, me).await?;
            }
        }
        tracing::info!(node = register.name, %number, epoch = me.epoch, "a node has come");
        let node = Known {
            address: register.address.clone(),
            state: NodeState::Up,
            slots: register.slots,
            epoch: me.epoch,
        };
        self.set_node(number, node);
        let end = register.has.iter().filter(|id| !kept.contains(id)).cloned().collect();
        Ok(Registered {
            number,
            epoch: me.epoch,
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
            end,
            now: now(),
        })
    }

    pub(crate) async fn hear_sync(&self, request: Request<Body>) -> Response {
        let (text, sync) = match self.read::<Sync>(SYNC, request).await {
            Ok(read) => read,
            Err(deaf) => return refuse(&deaf),
        };
        if !is_fresh(sync.at, now()) {
            return self.too_late(&text);
        }
        // One that is known to be away is not waited for again and again.
        let hearing = if self.well_for().is_some() { HEARING } else { HEARING / 3 };
        // On a task of its own: a transaction that is dropped on its way would leave
        // its connection in it, and whoever uses that next writes nothing for good.
        let heard = tokio::spawn({
            let control = self.clone();
            async move { control.sync(&sync).await }
        });
        let synced = match tokio::time::timeout(hearing, heard).await {
            Ok(Ok(Ok(synced))) => synced,
            Ok(Ok(Err(error))) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a node is not heard");
                self.set_well(false);
                Synced::Away { now: now() }
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("a node is not heard: the database takes too long");
                self.set_well(false);
                Synced::Away { now: now() }
            }
        };
        belljar_fault::point("control.synced");
        self.say(&text, &synced)
    }

    async fn sync(&self, sync: &Sync) -> Result<Synced, StoreError> {
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
            epoch: sync.epoch,
            sequence: sync.sequence,
            lease,
            is_whole: sync.is_whole,
            present: &present,
            ended: &ended,
        };
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let (end, drain) = match self.store().hear(&word).await? {
            Said::Stale => return Ok(Synced::Stale { now: now() }),
            Said::Late => (Vec::new(), sync.load.is_draining),
            Said::Renewed { is_draining, unknown, missing } => {
                for id in missing {
                    tracing::warn!(sandbox.id = %id, "its node has it no more: lost");
                }
                (unknown, is_draining)
            }
        };
        let load = &sync.load;
        let heard = Heard {
            number: sync.number.get(),
            epoch: sync.epoch,
            free: load.free,
            is_draining: load.is_draining || drain,
            tiers: load.tiers.clone(),
            warm: load.warm.iter().cloned().collect(),
        };
        self.roster().hear(heard, Instant::now());
        Ok(Synced::Renewed { lease_ms, end, drain, now: now() })
    }

    /// A node said over the bus how it is. Only a hint: nobody lives or dies by it,
    /// and of whom nothing is known, nothing is believed.
    pub fn hear_beat(&self, beat: Beat) {
        if self.epoch(beat.number) != Some(beat.epoch) {
            return;
        }
        let Beat { number, epoch, load, .. } = beat;
        let heard = Heard {
            number: number.get(),
            epoch,
            free: load.free,
            is_draining: load.is_draining,
            tiers: load.tiers,
            warm: load.warm.into_iter().collect(),
        };
        self.roster().hear(heard, Instant::now());
    }

    async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        request: Request<Body>,
    ) -> Result<(String, T), Deaf> {
        let what = about(request.method().as_str(), path);
        let body = Limited::new(request.into_body(), LONGEST).collect().await;
        let body = body.map_err(|_| Deaf::Unread)?.to_bytes();
        let text = std::str::from_utf8(&body).map_err(|_| Deaf::Unread)?.to_owned();
        let said = self.key().verify(&what, &text).map_err(Deaf::Unproven)?;
        Ok((text, said))
    }

    /// It was said by one of us, and by a clock that is not ours: it is told ours, in
    /// proof, or anybody could set it back.
    fn too_late(&self, question: &str) -> Response {
        tracing::warn!(unproven = %Unproven::Stale, "somebody speaks as a node");
        match self.key().sign(&answer_to(question), &now()) {
            Ok(clock) => (StatusCode::FORBIDDEN, [(CLOCK, clock)]).into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }

    fn say(&self, question: &str, answer: &impl Serialize) -> Response {
        match self.key().sign(&answer_to(question), answer) {
            Ok(text) => text.into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

fn refuse(deaf: &Deaf) -> Response {
    match deaf {
        Deaf::Unproven(unproven) => {
            tracing::warn!(%unproven, "somebody speaks as a node");
            StatusCode::FORBIDDEN.into_response()
        }
        Deaf::Unread => StatusCode::BAD_REQUEST.into_response(),
    }
}
