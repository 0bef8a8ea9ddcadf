//! What happens, as it happens.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::sync::broadcast;

use crate::clock::{Moment, now};
use crate::keys::Tenant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    Created,
    Extended,
    Paused,
    Resumed,
    Snapshot,
    Forked,
    Ended,
    ProcessStarted,
    ProcessEnded,
    CellStarted,
    CellEnded,
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Extended => "extended",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Snapshot => "snapshot",
            Self::Forked => "forked",
            Self::Ended => "ended",
            Self::ProcessStarted => "process_started",
            Self::ProcessEnded => "process_ended",
            Self::CellStarted => "cell_started",
            Self::CellEnded => "cell_ended",
        }
    }
}

/// One thing that happened to a sandbox.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    pub id: u64,
    pub at: Moment,
    #[serde(skip)]
    pub tenant: Tenant,
    pub sandbox: String,
    pub kind: EventKind,
    /// What is worth knowing of it: an end reason, a pid, a snapshot's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A function that is called with each event before the operation that caused it is acknowledged;
/// cheap to clone. It is called in async code, so it must not wait.
#[derive(Clone, Default)]
pub struct EventObserver(Option<Arc<Observe>>);

type Observe = dyn Fn(&Event) + Send + Sync;

impl EventObserver {
    pub fn new(observe: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(observe)))
    }
}

impl fmt::Debug for EventObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventObserver").field(&self.0.is_some()).finish()
    }
}

/// Passes events on to whoever listens now. Nothing is kept.
#[derive(Debug)]
pub struct Events {
    sender: broadcast::Sender<Event>,
    next: AtomicU64,
    observer: EventObserver,
}

impl Events {
    pub(crate) fn new(observer: EventObserver) -> Self {
        Self { sender: broadcast::channel(1024).0, next: AtomicU64::new(1), observer }
    }

    pub fn tell(&self, tenant: &Tenant, sandbox: &str, kind: EventKind, detail: Option<String>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if kind == EventKind::Ended {
            crate::observe::ended(detail.as_deref().unwrap_or_default());
        }
        tracing::info!(
            tenant = tenant.as_str(),
            sandbox.id = sandbox,
            detail = detail.as_deref(),
            "sandbox {sandbox}: {kind:?}"
        );
        let event = Event {
            id,
            at: now(),
            tenant: tenant.clone(),
            sandbox: sandbox.to_owned(),
            kind,
            detail,
        };
        if let Some(observe) = &self.observer.0 {
            observe(&event);
        }
        let _ = self.sender.send(event);
    }

    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}
