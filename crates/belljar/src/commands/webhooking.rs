//! Webhooks of a server, or of a platform: the parts that their process has for them.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use belljar_control::Control;
use belljar_identity::ControlKeys;
use belljar_sandboxes::{Event, EventKind as SandboxEvent, EventObserver, Tenant};
use belljar_server::Inside;
use belljar_store::{SecretSeal, Store};
use belljar_webhooks::{
    Directory, EventKind, Message, Reach, Schedule, Sender, Settings, Shelf, Signal, Webhooks,
};
use time::OffsetDateTime;

use crate::cli::Webhooking;
use crate::output::Hint as _;

/// Opens the place of a server's webhooks.
pub(super) fn open(data: &Path) -> anyhow::Result<Directory> {
    let opened = Directory::open(&data.join("served").join("webhooks"));
    opened.hint("choose a writable directory with --data")
}

/// Returns an observer that announces what happens to sandboxes.
pub(super) fn observer(shelf: &Directory) -> EventObserver {
    let shelf = shelf.clone();
    EventObserver::new(move |event| {
        if let Some(message) = message(event) {
            shelf.announce(event.tenant.as_str().to_owned(), message);
        }
    })
}

fn message(event: &Event) -> Option<Message> {
    let kind = match event.kind {
        SandboxEvent::Created => EventKind::SandboxCreated,
        SandboxEvent::Paused => EventKind::SandboxPaused,
        SandboxEvent::Resumed => EventKind::SandboxResumed,
        SandboxEvent::Ended => EventKind::SandboxEnded,
        _ => return None,
    };
    let reason = event.detail.as_deref().filter(|_| event.kind == SandboxEvent::Ended);
    let data = Message::of_sandbox(&event.sandbox, reason);
    // Numbers of events begin anew with each server: the time tells two servers apart.
    let now = OffsetDateTime::now_utc();
    let id = format!("msg_{}_{}_{}", event.sandbox, event.id, now.unix_timestamp_nanos());
    Some(Message::new(id, kind, now, data))
}

pub(super) fn webhooks(options: &Webhooking, shelf: Arc<dyn Shelf>) -> anyhow::Result<Webhooks> {
    let sender = Sender::new(Reach::new(options.webhook_allow.clone()));
    let sender = sender.context("cannot send webhooks")?;
    let schedule =
        Schedule { attempts: options.webhook_attempts, first_wait: options.webhook_retry };
    let settings = Settings { schedule, ..Settings::default() };
    Ok(Webhooks::new(shelf, sender, settings, |signal| {
        let metrics = belljar_telemetry::metrics().webhooks();
        match signal {
            Signal::Attempt(result) => metrics.attempted(result),
            Signal::Queue { waiting, oldest } => metrics.set_queue(waiting, oldest),
        }
    }))
}

/// The control key, which seals the secrets of webhooks in the database.
#[derive(Debug)]
struct ControlSeal(ControlKeys);

impl SecretSeal for ControlSeal {
    fn seal(&self, context: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        self.0.seal(context, plain).ok()
    }

    fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.0.open(context, sealed)
    }

    fn is_current(&self, context: &[u8], sealed: &[u8]) -> bool {
        self.0.is_current(context, sealed)
    }
}

/// Offers webhooks of a platform. Every replica delivers them.
pub(super) fn of_platform(
    options: &Webhooking,
    control: &Control,
    store: &Store,
    secret: ControlKeys,
) -> anyhow::Result<Webhooks> {
    let shelf = store.webhooks().sealed_by(Arc::new(ControlSeal(secret)));
    let webhooks = webhooks(options, Arc::new(shelf))?;
    let surface = Inside::of_webhooks(webhooks.clone(), Tenant::new(super::runs::TENANT));
    control.offer_webhooks(move |tenant, request| {
        let surface = surface.of(Tenant::new(tenant));
        async move { surface.pass(request).await }
    });
    Ok(webhooks)
}
