//! `GET /v1/runs/{run}/events`

use std::convert::Infallible;

use axum::response::sse::{self, KeepAlive, Sse};
use belljar_api::run as api;
use belljar_domain::Sequence;
use belljar_journal::{Event, Watch};
use belljar_runs::{WordFollower, Words};
use futures_util::{Stream, stream};
use http::HeaderMap;

use super::{Offering, address, unread};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::output::event;
use crate::v1::read::{At, Query};

pub(in crate::v1) async fn follow(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(id): At<String>,
    headers: HeaderMap,
    Query(asked): Query<api::FollowRun>,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Failure> {
    let run = address(&tenant, &id)?;
    runs.journal().find(&run).await.map_err(|error| unread(&error))?;
    let from = asked.from.map(|from| Sequence(from.get()));
    let from = from.or_else(|| last_event(&headers).map(Sequence::next));
    let words = asked.deltas.unwrap_or(false).then(|| runs.words().follow(run.clone()));
    let watch = Watch::new(runs.journal().clone(), run, from.unwrap_or(Sequence(1)));
    // Whoever cannot be told more sees the stream end before the run does, and asks again.
    let events = stream::unfold((watch, words), async |(mut watch, mut words)| {
        let told = match next(&mut watch, words.as_mut()).await? {
            News::Event(next) => event(next.body.kind(), &next).id(next.seq.to_string()),
            News::Words(words) => event(DELTA, &delta(words)),
        };
        Some((Ok(told), (watch, words)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// The kind of words in the stream. No event of a run is called so.
const DELTA: &str = "delta";

enum News {
    Event(Box<Event>),
    Words(Words),
}

/// The next event or the next words; none: the stream is over.
async fn next(watch: &mut Watch, words: Option<&mut WordFollower>) -> Option<News> {
    let Some(words) = words else { return Some(News::Event(Box::new(watch.next().await.ok()??))) };
    tokio::select! {
        // Words that came before an event are told before it.
        biased;
        words = words.next() => Some(News::Words(words)),
        event = watch.next() => Some(News::Event(Box::new(event.ok()??))),
    }
}

fn delta(words: Words) -> api::RunDelta {
    let Words { turn, from, text } = words;
    api::RunDelta { kind: DELTA.to_owned(), turn, from, text }
}

/// What a client saw last that was cut off and comes again.
fn last_event(headers: &HeaderMap) -> Option<Sequence> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok().map(Sequence)
}

#[cfg(test)]
mod tests {
    use belljar_journal::event::{Finished, Outcome};
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn an_event_is_told_as_the_document_says() {
        let event = Event {
            seq: Sequence(7),
            at: OffsetDateTime::UNIX_EPOCH,
            lease: None,
            key: None,
            body: Finished { outcome: Outcome::Answered, error: None, message: None, result: None }
                .into(),
        };
        let told = serde_json::to_value(&event).unwrap();
        let read: api::RunEvent = serde_json::from_value(told.clone()).unwrap();
        assert_eq!((read.seq, read.kind.as_str(), read.v), (7, "finished", 1));
        assert_eq!(read.told["outcome"], "answered");
        assert_eq!(serde_json::to_value(read).unwrap(), told);
    }
}
