use std::task::Poll;

use belljar_domain::network::Bytes;
use belljar_domain::{RunId, Sequence};
use belljar_journal::event::{
    Block, Body, Budget, CallRef, Event, Injected, InjectedMessage, LlmRequested, NetworkAccess,
    NetworkRefusal, NetworkUsed, PromptBuilt,
};
use belljar_objects::Digest;

use super::*;
use crate::invented::{created, moment, responded};
use crate::prompt::Texts;

fn facts(data: &str) -> Facts {
    Facts {
        texts: Texts::newest(),
        network: NetworkAccess::default(),
        brief: String::new(),
        data: data.into(),
    }
}

fn log(bodies: Vec<Body>) -> Vec<Event> {
    let event = |(body, seq): (Body, u64)| Event {
        seq: Sequence(seq),
        at: moment(seq),
        lease: None,
        key: None,
        body,
    };
    bodies.into_iter().zip(1..).map(event).collect()
}

fn built(turn: u32) -> Body {
    let sha256 = Digest::of(&turn.to_be_bytes());
    let shared_prefix_bytes = 0;
    PromptBuilt { turn, sha256, bytes: 9, cache_breakpoints: vec![], shared_prefix_bytes }.into()
}

fn asked(turn: u32) -> Body {
    let (model, prompt) = ("m".to_owned(), Digest::of(b""));
    LlmRequested { turn, attempt: 1, model, prompt, reservation: None, last: turn == 2 }.into()
}

fn answered(turn: u32, text: &str) -> Body {
    responded(turn, Sequence(0), vec![Block::Text { text: text.into() }]).into()
}

fn told(text: &str) -> Body {
    InjectedMessage { kind: Injected::Repair, turn: 2, text: text.into(), answers: None }.into()
}

fn budget() -> Budget {
    Budget { turns: Some(4), ..Budget::default() }
}

/// Two turns, with a message between them.
fn events(between: &str) -> Vec<Event> {
    log(vec![
        created(budget()).into(),
        built(1),
        asked(1),
        answered(1, "one"),
        told(between),
        built(2),
        asked(2),
        answered(2, "two"),
    ])
}

fn recording() -> Recording {
    let recording =
        Recording::of(&RunId::from_bits([1; 16]), &created(budget()), &events("go"), &facts("d"));
    Recording::read(&recording.to_bytes().unwrap()).unwrap()
}

/// A current-thread runtime: whatever this task waits for, other tasks go on.
#[tokio::test]
async fn a_recording_is_made_on_another_thread() {
    let run = RunId::from_bits([1; 16]);
    let mut bodies: Vec<Body> = vec![created(budget()).into()];
    for turn in 1..200 {
        bodies.extend([built(turn), asked(turn), answered(turn, "more")]);
    }
    let (events, facts) = (log(bodies), facts("d"));
    let expected = Recording::of(&run, &created(budget()), &events, &facts).to_bytes().unwrap();
    let mut making = std::pin::pin!(Recording::make(run, created(budget()), events, facts, None));
    let first = std::future::poll_fn(|cx| Poll::Ready(making.as_mut().poll(cx))).await;
    assert!(first.is_pending(), "it was made while other tasks waited");
    assert_eq!(making.await.unwrap(), expected);
}

#[test]
fn the_same_requests_get_the_recorded_answers() {
    let (recording, events) = (recording(), events("go"));
    for (turn, before, text) in [(1, 1, "one"), (2, 5, "two")] {
        let request = RequestDigests::of(&events[..before], &facts("d"));
        let answer = recording.answer(turn, request).unwrap();
        let said = answer.responded(turn, Sequence(7));
        assert_eq!(said.blocks, [Block::Text { text: text.into() }]);
        assert_eq!((said.asked, said.nano_dollars, said.tokens.output), (Sequence(7), 0, 10));
        assert_eq!(answer.is_last(), turn == 2);
        assert_eq!(Body::from(answer.built(turn)), built(turn));
    }
}

#[test]
fn another_request_diverges_where_it_differs() {
    let recording = recording();
    let first = &events("go")[..1];
    let other_data = RequestDigests::of(first, &facts("e"));
    assert_eq!(recording.answer(1, other_data).unwrap_err(), Divergence::Prefix { turn: 1 });
    let mut question = created(budget());
    question.question = "another?".into();
    let other = RequestDigests::of(&log(vec![question.into()]), &facts("d"));
    assert_eq!(recording.answer(1, other).unwrap_err(), Divergence::Question);
    let results = RequestDigests::of(&events("stop")[..5], &facts("d"));
    assert_eq!(recording.answer(2, results).unwrap_err(), Divergence::Results { turn: 2 });
    let more = RequestDigests::of(&events("go"), &facts("d"));
    assert_eq!(recording.answer(3, more).unwrap_err(), Divergence::End { turn: 3 });
}

#[test]
fn a_request_that_is_not_recorded_diverges() {
    let used = |reason: &str| NetworkUsed {
        call: CallRef { turn: 2, id: "c".into() },
        connections: 1,
        refused: 1,
        bytes: Bytes::default(),
        hosts: vec![],
        refusals: vec![NetworkRefusal {
            reason: reason.into(),
            operation: None,
            host: None,
            count: 1,
        }],
        approved: 0,
        through: None,
    };
    assert_eq!(unrecorded(&log(vec![used("scope").into()])), None);
    let found = unrecorded(&log(vec![used("scope").into(), used("not_recorded").into()]));
    assert_eq!(found, Some(Divergence::Request { turn: 2 }));
}

#[test]
fn a_recording_keeps_its_cassette() {
    let recording = Recording { cassette: Some(BlobRef::of(b"c")), ..recording() };
    assert_eq!(Recording::read(&recording.to_bytes().unwrap()).unwrap(), recording);
}

#[test]
fn a_recording_of_another_format_is_refused() {
    let mut json = serde_json::to_value(recording()).unwrap();
    json["version"] = 2.into();
    let read = Recording::read(json.to_string().as_bytes());
    assert!(matches!(read, Err(RecordingError::Version(2))), "{read:?}");
    assert!(matches!(Recording::read(b"[]"), Err(RecordingError::Json(_))));
}
