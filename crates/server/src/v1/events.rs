//! What happens, as server-sent events. Whose events they are follows from the
//! key alone; nothing in a request can name another.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use belljar_api::event as api;
use belljar_sandboxes::{Actions, Event, EventKind, Sandbox, Tenant};
use futures_util::{Stream, stream};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::authenticate::Caller;
use super::failure::Failure;
use super::output::event;
use super::read::At;
use super::sandboxes::date_time;

type Told = Result<sse::Event, Infallible>;

struct Listening {
    events: Receiver<Event>,
    tenant: Tenant,
    /// All of the tenant's when there is none.
    only: Option<Arc<Sandbox>>,
}

/// `GET /v1/events`
pub(super) async fn all(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
) -> Sse<impl Stream<Item = Told>> {
    told(Listening { events: actions.events().listen(), tenant, only: None })
}

/// `GET /v1/sandboxes/{sandbox}/events`
pub(super) async fn of_sandbox(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Sse<impl Stream<Item = Told>>, Failure> {
    // First listen, then look, so that its end is not missed in between.
    let events = actions.events().listen();
    let only = Some(actions.registry().find(&tenant, &id)?);
    Ok(told(Listening { events, tenant, only }))
}

fn told(listening: Listening) -> Sse<impl Stream<Item = Told>> {
    let events = stream::unfold(Some(listening), async |state| {
        let mut listening = state?;
        let next = listening.next().await?;
        let over = listening.only.is_some() && next.kind == EventKind::Ended;
        Some((Ok(view(&next)), (!over).then_some(listening)))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

impl Listening {
    /// The next event that is the listener's. None when it was too slow and has
    /// missed some: a gap must not pass for silence.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let event = match self.events.recv().await {
                Ok(event) => event,
                Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
            };
            let wanted =
                self.only.as_ref().is_none_or(|sandbox| sandbox.id().as_str() == event.sandbox);
            if event.tenant == self.tenant && wanted {
                return Some(event);
            }
        }
    }
}

fn view(happened: &Event) -> sse::Event {
    let data = api::Event {
        id: happened.id,
        at: date_time(happened.at),
        sandbox: happened.sandbox.clone(),
        kind: happened.kind.as_str().to_owned(),
        detail: happened.detail.clone(),
    };
    event(happened.kind.as_str(), &data).id(happened.id.to_string())
}
