//! Records exchanges, and plays them back.
//!
//! ```text
//!   Off ────────────────────────────► the world
//!   Record ─────────────────────────► the world ─► cassette
//!   Replay ─► cassette ─┬─ played
//!                       ├─ strict ──► refused: nothing is looked up or dialled
//!                       └─ fallthrough ► the world ─► cassette
//! ```

mod asked;
mod deck;
mod operation;
mod recording;

use std::sync::Arc;
use std::time::Duration;

use belljar_cassette::Miss as Missed;
use belljar_domain::network::{Decision, Kind, Miss, Policy, Reason, Tape};
use belljar_egress::Verdict;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::{Request, StatusCode};
use http_body::{Body as _, SizeHint};
use http_body_util::BodyExt as _;
use serde::Serialize;

use crate::answer::{self, Refusal};
use crate::body::{Answer, Inner};
use crate::connection::Connection;
use crate::forward::{self, Outcome};
use crate::log::Entry;
use crate::room::TakenRoom;
use crate::session::State;
use crate::upstream::Place;
use crate::wire::Tally;
pub(crate) use asked::Asked;
pub(crate) use deck::{Deck, DeckError, Found};
pub(crate) use operation::operate;

/// The longest body of a request that is recorded or looked up.
const LONGEST_BODY: usize = 32 << 20;
/// How long a body waits for room in memory, where many are held.
const ROOM_PATIENCE: Duration = Duration::from_secs(30);

/// Whether answers come from a cassette first.
pub(crate) fn is_playing(policy: &Policy) -> bool {
    matches!(policy.tape, Tape::Replay { .. })
}

/// Answers a request that is for `place`, from the tape or the world.
pub(crate) async fn serve(
    connection: &Arc<Connection>,
    place: Place,
    request: Request<Inner>,
    tally: &Arc<Tally>,
) -> Answer {
    let session = &connection.session;
    let state = session.state();
    let policy = &state.policy;
    if policy.tape == Tape::Off {
        return forward::serve(connection, place, request, tally).await;
    }
    let mut entry = Entry::begin(connection, Kind::Exchange).await;
    entry.count_by(tally);
    entry.to(place.destination.host.clone(), place.destination.port);
    entry.asks(request.method(), request.uri().path());
    // Denials hold for what is played as well.
    if let Verdict::Deny(reason) = state.judge(&place.destination) {
        return forward::refuse(entry, Decision::Denied, reason);
    }
    if !is_playing(policy)
        && let Err(reason) = may_ask(&state, &place, &request)
    {
        return forward::refuse(entry, Decision::Denied, reason);
    }
    let Some(_room) = room(connection, request.body().size_hint()).await else {
        return unfit(entry, StatusCode::SERVICE_UNAVAILABLE);
    };
    let (mut request, asked) = match whole(request, &place).await {
        Ok(whole) => whole,
        Err(status) => return unfit(entry, status),
    };
    let found = match session.deck(&policy.tape).await {
        Ok(deck) => deck.find(asked).await,
        Err(error) => Err(error),
    };
    let falls_through = matches!(policy.tape, Tape::Replay { miss: Miss::Fallthrough, .. });
    let asked = match found {
        Ok(Found::Played(answer)) => return played(entry, *answer),
        Ok(Found::Missed(missing)) if falls_through => missing.asked,
        Ok(Found::Missed(missing)) => {
            // A sealed tape that is not judged has nothing against any request.
            return match may_ask(&state, &place, &request) {
                Err(reason) => forward::refuse(entry, Decision::Denied, reason),
                Ok(()) => not_recorded(entry, &missing.miss),
            };
        }
        Ok(Found::Unrecorded(asked)) => asked,
        Err(error) => return unusable(entry, &error),
    };
    if let Err(reason) = may_ask(&state, &place, &request) {
        return forward::refuse(entry, Decision::Denied, reason);
    }
    let begun = match session.deck(&policy.tape).await {
        Ok(deck) => deck.record(asked).await,
        Err(error) => Err(error),
    };
    let begun = match begun {
        Ok(begun) => begun,
        Err(error) => return unusable(entry, &error),
    };
    // What is encoded in a way that we cannot look into cannot be kept.
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    match forward::go_out(connection, place, request, entry, Some(Reason::Recorded)).await {
        Outcome::Answered(answer) => begun.answer(answer),
        Outcome::Refused(answer) => answer,
    }
}

fn may_ask(state: &State, place: &Place, request: &Request<Inner>) -> Result<(), Reason> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    state.judge_request(place, request.method().as_str(), target)
}

/// Room for the body of a request, which is held until its answer begins.
async fn room(connection: &Connection, size: SizeHint) -> Option<TakenRoom> {
    let most = size.upper().unwrap_or(LONGEST_BODY as u64);
    let kibibytes = u32::try_from(most.min(LONGEST_BODY as u64).div_ceil(1024)).ok()?;
    tokio::time::timeout(ROOM_PATIENCE, connection.session.room.take(kibibytes)).await.ok()?
}

/// Waits for the whole body: requests are the same when their bodies are.
async fn whole(
    request: Request<Inner>,
    place: &Place,
) -> Result<(Request<Inner>, Asked), StatusCode> {
    let (parts, body) = request.into_parts();
    let body = http_body_util::Limited::new(body, LONGEST_BODY);
    let body = body.collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            StatusCode::PAYLOAD_TOO_LARGE
        } else {
            StatusCode::BAD_REQUEST
        }
    })?;
    let body = body.to_bytes();
    let asked = Asked::new(&parts, place, body.clone());
    Ok((Request::from_parts(parts, body.into()), asked))
}

fn played(mut entry: Entry, answer: Answer) -> Answer {
    entry.decide(Decision::Played, Reason::Replayed);
    entry.row().status = Some(answer.status().as_u16());
    entry.row().bytes.into = answer.body().size_hint().exact().unwrap_or(0);
    answer
}

fn unfit(mut entry: Entry, status: StatusCode) -> Answer {
    let reason =
        if status == StatusCode::BAD_REQUEST { Reason::Malformed } else { Reason::NotRecorded };
    entry.decide(Decision::Denied, reason);
    entry.row().status = Some(status.as_u16());
    let mut refusal = Refusal::new(reason, entry.row().host.clone());
    refusal.status = status;
    refusal.answer()
}

/// A tape that was asked for and cannot be used is no reason to go without.
fn unusable(mut entry: Entry, error: &DeckError) -> Answer {
    entry.decide(Decision::Failed, Reason::NotRecorded);
    let mut refusal = Refusal::new(Reason::NotRecorded, entry.row().host.clone());
    entry.row().status = Some(refusal.status.as_u16());
    refusal.message = format!("the cassette cannot be used: {error}");
    refusal.hint = "";
    refusal.answer()
}

fn not_recorded(mut entry: Entry, miss: &Missed) -> Answer {
    #[derive(Serialize)]
    struct Said<'a> {
        code: &'static str,
        message: &'static str,
        reason: Reason,
        hint: &'static str,
        #[serde(flatten)]
        miss: &'a Missed,
    }
    entry.decide(Decision::Denied, Reason::NotRecorded);
    entry.row().status = Some(StatusCode::BAD_GATEWAY.as_u16());
    let said = Said {
        code: "not_recorded",
        message: "this request is not on the replayed cassette",
        reason: Reason::NotRecorded,
        hint: "record it first, or let misses fall through",
        miss,
    };
    answer::json(StatusCode::BAD_GATEWAY, Some(Reason::NotRecorded), &said)
}
