//! What must hold for any bytes that a client or an upstream sends. The fuzz targets make bytes
//! up; `tests/seeds.rs` of the crate runs the seeds through the same checks.

use belljar_llm::dialect::{Dialect, Endpoint};
use belljar_llm::json::{Kind, Reader, Value};
use belljar_llm::sse::{Event, Splitter};
use belljar_llm::tap::{Form, Options, Pass, Report, Tap};
use belljar_llm::{Request, Rewritten, Rules};

const DIALECTS: [Dialect; 3] =
    [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

/// What came of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Read,
}

/// A request: what we read of it is what `serde_json` reads, and what we make of it is a request
/// of the same dialect that the rules allow.
pub fn views(input: &[u8]) -> Outcome {
    let mut reader = Reader::new();
    let Ok(body) = reader.read(input) else { return Outcome::Refused };
    // Halves of surrogate pairs are replaced by us and refused by serde.
    if let Ok(theirs) = serde_json::from_slice::<serde_json::Value>(input) {
        same(body, &theirs);
    } else {
        assert!(
            input.windows(2).any(|pair| pair == b"\\u") || input.iter().any(u8::is_ascii_digit)
        );
    }
    let rules = rules();
    let mut outcome = Outcome::Refused;
    for dialect in DIALECTS {
        for endpoint in [Endpoint::Generate, Endpoint::CountTokens] {
            let Ok(request) = Request::view(dialect, endpoint, body) else { continue };
            let _ = request.tools().count();
            let Ok(done) = Rewritten::new(&request, &rules) else { continue };
            outcome = Outcome::Read;
            assert_eq!(rules.models.find(&request.model), Some(done.model.as_str()));
            let sent = done.body.as_deref().unwrap_or(input);
            let mut again = Reader::new();
            let sent = again.read(sent).expect("what we send is JSON");
            let sent = Request::view(dialect, endpoint, sent).expect("and a request");
            assert_eq!(sent.model, done.model);
            if endpoint == Endpoint::Generate {
                let most = sent.max_output.map(|(_, most)| most).expect("and bounded");
                assert!(most <= rules.max_output, "{most}");
                assert!(most.saturating_mul(sent.answers) <= done.max_output, "{most}");
            }
            // Allowed once, it is allowed again, as it is.
            let again = Rewritten::new(&sent, &pinned(&done.model)).expect("it was allowed");
            assert_eq!(again.body, None, "{:?}", String::from_utf8_lossy(sent.body.text()));
        }
    }
    outcome
}

fn rules() -> Rules {
    let rules =
        r#"{"max_output":1000,"models":{"alias":{"small":"tiny-1"},"allow":["m","big-*"]}}"#;
    serde_json::from_str(rules).expect("our own rules")
}

fn pinned(model: &str) -> Rules {
    let mut rules = rules();
    rules.models.allow = vec![model.to_owned()];
    rules
}

fn same(ours: Value<'_>, theirs: &serde_json::Value) {
    use serde_json::Value as Theirs;
    match (ours.kind(), theirs) {
        (Kind::Null, Theirs::Null) => {}
        (Kind::True, Theirs::Bool(true)) | (Kind::False, Theirs::Bool(false)) => {}
        (Kind::Number, Theirs::Number(number)) => {
            if let Some(count) = ours.u64() {
                assert_eq!(number.as_u64(), Some(count));
            }
        }
        (Kind::String, Theirs::String(text)) => {
            assert_eq!(ours.str().as_deref(), Some(text.as_str()));
            assert!(ours.is(text));
        }
        (Kind::Array, Theirs::Array(items)) => {
            assert_eq!(ours.items().count(), items.len());
            ours.items().zip(items).for_each(|(ours, theirs)| same(ours, theirs));
        }
        (Kind::Object, Theirs::Object(members)) => {
            // A key that stands there twice is refused, so there are as many.
            assert_eq!(ours.members().count(), members.len());
            for (key, value) in ours.members() {
                let key = key.str().expect("a key is a string");
                same(value, members.get(key.as_ref()).expect("the same key"));
                assert_eq!(ours.get(&key).map(|found| found.span()), Some(value.span()));
            }
        }
        (ours, theirs) => panic!("{ours:?} and {theirs}"),
    }
}

/// An answer of an upstream, streamed and whole: however it is cut, the same comes by, and the
/// same is reported.
pub fn answers(input: &[u8]) -> Outcome {
    let mut outcome = Outcome::Refused;
    for dialect in DIALECTS {
        for form in [Form::Stream, Form::Whole] {
            for (drop_usage, whole_events) in [(false, false), (true, false), (false, true)] {
                let options = Options { drop_usage, whole_events, keep: 64 };
                let (all, report) = passed(dialect, form, options, &[input]);
                let in_pieces = passed(dialect, form, options, &pieces(input));
                assert_eq!(
                    in_pieces,
                    (all.clone(), report.clone()),
                    "{dialect:?} {form:?} {options:?}"
                );
                if !drop_usage {
                    assert_eq!(all, input);
                }
                assert!(report.text.len() <= 64 + 4);
                if report.usage.is_some() {
                    outcome = Outcome::Read;
                }
            }
        }
    }
    outcome
}

fn passed(dialect: Dialect, form: Form, options: Options, pieces: &[&[u8]]) -> (Vec<u8>, Report) {
    let mut tap = Tap::new(dialect, form, options);
    let mut out = Vec::new();
    for piece in pieces {
        match tap.push(piece) {
            Pass::Same => out.extend_from_slice(piece),
            Pass::These(bytes) => out.extend(bytes),
        }
    }
    let (rest, report) = tap.finish();
    out.extend(rest);
    (out, report)
}

/// A stream of events: blocks put together are the stream, however it arrives.
pub fn events(input: &[u8]) -> Outcome {
    let (whole, rest) = blocks(&[input]);
    assert_eq!(blocks(&pieces(input)), (whole.clone(), rest.clone()), "in pieces");
    assert_eq!([whole.concat(), rest].concat(), input);
    for block in &whole {
        let event = Event::read(block);
        assert!(event.data.len() <= block.len());
        assert!(!event.name.is_some_and(|name| name.contains(&b'\n') || name.contains(&b'\r')));
    }
    if whole.is_empty() { Outcome::Refused } else { Outcome::Read }
}

fn blocks(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut splitter = Splitter::default();
    let mut found = Vec::new();
    for piece in pieces {
        let let_go = splitter.push(piece, |block| found.push(block.to_vec()));
        assert_eq!(let_go, None, "it is not that large");
    }
    // A CR at the end may belong to a line feed that is still to come.
    let rest = splitter.rest().to_vec();
    (found, rest)
}

/// `bytes` in pieces, whose sizes are taken from the bytes themselves.
fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    let mut sizes = bytes.iter().rev().map(|byte| 1 + usize::from(byte % 7));
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(1).min(rest.len());
        let (piece, more) = rest.split_at(size);
        pieces.push(piece);
        rest = more;
    }
    pieces
}
