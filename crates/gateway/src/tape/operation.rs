//! Tapes around operations: a conversation with a model is played like anything
//! else of the world, and costs nothing then.
//!
//! What is recorded is what the sandbox said and heard, under the gateway's own
//! name. Whoever has no token is answered by the operations themselves, played
//! or not; and what the gateway refuses is not part of the world.
//!
//! Telemetry is not taped: ids of spans are random, so no request of a replay would be found.

use std::sync::Arc;

use belljar_domain::network::{Decision, Host, Kind, Miss, Reason, Tape};
use belljar_egress::Destination;
use belljar_peer_proto::gateway::OWN_NAME;
use http::{Request, StatusCode};
use http_body::Body as _;

use super::{Found, not_recorded, played, room, unfit, unusable, whole};
use crate::body::{Answer, FromUpstream, Inner};
use crate::connection::Connection;
use crate::log::Entry;
use crate::operations::{self, Holder};
use crate::upstream::Place;

/// Answers a request that is for the gateway itself. Tool calls wait for a human in every answer, also
/// in one that is played; a cassette has the answer as the model gave it.
pub(crate) async fn operate(connection: &Arc<Connection>, request: Request<Inner>) -> Answer {
    let holder = Holder::of(connection, &request);
    let answer = answer(connection, request).await;
    match holder {
        Ok(Some(holder)) => holder.hold(answer),
        Ok(None) => answer,
        Err(unheld) => unheld.refuse(answer),
    }
}

async fn answer(connection: &Arc<Connection>, request: Request<Inner>) -> Answer {
    let session = &connection.session;
    let tape = session.policy().tape.clone();
    if tape == Tape::Off || !operations::is_authorised(session, request.headers()) {
        return operations::serve(session, request).await;
    }
    if request.uri().path() == operations::HEALTH {
        return operations::serve(session, request).await;
    }
    let takes_telemetry = operations::takes_telemetry(session, &request);
    if takes_telemetry && !tape.is_sealed() {
        return operations::serve(session, request).await;
    }
    let Some(place) = own_place() else { return operations::serve(session, request).await };
    let mut entry = Entry::begin(connection, Kind::Operation).await;
    entry.asks(request.method(), request.uri().path());
    entry.row().operation = operations::name_in(request.uri().path());
    // As it was when the cassette was recorded, also for what is on it.
    if (takes_telemetry || matches!(tape, Tape::Replay { miss: Miss::Judged, .. }))
        && let Some(refusal) = operations::refuse(session, &request, &mut entry)
    {
        return refusal;
    }
    let Some(_room) = room(connection, request.body().size_hint()).await else {
        return unfit(entry, StatusCode::SERVICE_UNAVAILABLE);
    };
    let (request, asked) = match whole(request, &place).await {
        Ok(whole) => whole,
        Err(status) => return unfit(entry, status),
    };
    entry.row().bytes.out = request.body().size_hint().exact().unwrap_or(0);
    if takes_telemetry {
        // Nothing goes out of a sealed tape, and a program does not wait for more than this.
        let answer = operations::accepted(request.headers());
        entry.decide(Decision::Played, Reason::Operation);
        entry.row().status = Some(answer.status().as_u16());
        return answer;
    }
    let deck = match session.deck(&tape).await {
        Ok(deck) => deck,
        Err(error) => return unusable(entry, &error),
    };
    let falls_through = matches!(tape, Tape::Replay { miss: Miss::Fallthrough, .. });
    let asked = match deck.find(asked).await {
        Ok(Found::Played(answer)) => return played(entry, *answer),
        Ok(Found::Missed(missing)) if falls_through => missing.asked,
        Ok(Found::Missed(missing)) => return not_recorded(entry, &missing.miss),
        Ok(Found::Unrecorded(asked)) => asked,
        Err(error) => return unusable(entry, &error),
    };
    let begun = match deck.record(asked).await {
        Ok(begun) => begun,
        Err(error) => return unusable(entry, &error),
    };
    // It writes a row of its own, with what was paid.
    entry.forget();
    let answer = operations::serve(session, request).await;
    if answer.extensions().get::<FromUpstream>().is_some() { begun.answer(answer) } else { answer }
}

fn own_place() -> Option<Place> {
    let host: Host = OWN_NAME.parse().ok()?;
    Some(Place { destination: Destination { host, port: 80 }, secure: false })
}
