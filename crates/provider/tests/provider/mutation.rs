//! Recorded answers, cut anywhere and changed at random: never a panic, never a wait,
//! and never half of an answer for a whole one.

use belljar_llm::Dialect;
use belljar_llm::json::Reader;
use belljar_provider::{
    Answer, AnswerError, Client, Conversation, Effort, Failure, Form, Message, Options, Transport,
    Upstream,
};
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;

use crate::hostile::{Playback, read};
use crate::world::{DIALECTS, KEY, Loopback, Still, World, options, question};

const SEED: u64 = 0x5eed_0008;
const CHANGED: usize = 700;

const SCRIPT: &str = r#"
[[turn]]
think = "Think \"twice\"."
say = "Look at é and 🙂 here."
call = [
  { tool = "execute_python", input = { code = "print('ü')", deep = [[1, { a = [true] }]] } },
  { tool = "shell", input = { command = "ls" } },
]
"#;

/// Xorshift: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % (most.max(1) as u64)).unwrap()
    }
}

/// The bytes of an answer, as a server sends them.
async fn record(world: &World, dialect: Dialect, form: Form) -> Vec<u8> {
    let conversation = question();
    let options = Options { effort: Some(Effort::Low), ..options(form) };
    let body = world.client(dialect).body(&conversation, &options);
    let path = dialect.path(belljar_llm::Endpoint::Generate).unwrap();
    let request = Request::post(path)
        .header("authorization", format!("Bearer {KEY}"))
        .header("anthropic-version", "2023-06-01")
        .body(body)
        .unwrap();
    let response = Loopback(world.model.address()).send(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

fn chunks(bytes: &[u8], dice: &mut Dice) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (chunk, more) = rest.split_at((1 + dice.below(200)).min(rest.len()));
        chunks.push(Bytes::copy_from_slice(chunk));
        rest = more;
    }
    chunks
}

/// Changes bytes in one of many ways.
fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    const WORDS: [&[u8]; 14] = [
        b"null",
        b"-1",
        b"1e999",
        b"\"\"",
        b"[]",
        b"{}",
        b"true",
        b"18446744073709551616",
        b"\\ud800",
        b"\n\n",
        b"\r",
        b"data: [DONE]\n\n",
        b"\xff\xfe",
        b"\"type\":\"error\",",
    ];
    let at = dice.below(bytes.len());
    let len = dice.below(60).min(bytes.len() - at);
    match dice.below(7) {
        0 => bytes[at] ^= 1 << dice.below(8),
        1 => drop(bytes.drain(at..at + len)),
        2 => {
            let copy = bytes[at..at + len].to_vec();
            let to = dice.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        3 => {
            let word = WORDS[dice.below(WORDS.len())];
            bytes.splice(at..at, word.iter().copied());
        }
        4 => {
            // Something in the place of a value.
            let word = WORDS[dice.below(WORDS.len())];
            let colon =
                bytes[at..].iter().position(|byte| *byte == b':').map_or(at, |to| at + to + 1);
            let end = bytes[colon..].iter().position(|byte| b",}".contains(byte));
            let end = end.map_or(bytes.len(), |to| colon + to);
            bytes.splice(colon..end, word.iter().copied());
        }
        5 => bytes.truncate(at),
        _ => {
            // Events in another order.
            let text = std::mem::take(bytes);
            let mut events: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
            let (one, other) = (dice.below(events.len()), dice.below(events.len()));
            events.swap(one, other);
            *bytes = events.concat();
        }
    }
}

/// An answer can be carried on with, whatever it is: that is all one may ask.
fn is_usable(dialect: Dialect, answer: &Answer) {
    let mut conversation: Conversation = question();
    conversation.messages.push(answer.message());
    let results: Vec<_> = answer.calls().map(|call| call.answered("ok")).collect();
    conversation.messages.push(Message::results(results));
    conversation.check().unwrap();
    let nowhere = Playback { form: Form::Stream, pieces: vec![] };
    let client = Client::new(Upstream::new(dialect), nowhere, Still::default()).unwrap();
    let body = client.body(&conversation, &options(Form::Stream));
    Reader::new().read(&body).unwrap();
}

#[tokio::test]
async fn changed_answers_are_answers_or_errors() {
    let world = World::start(SCRIPT).await;
    let mut dice = Dice(SEED);
    let (mut good, mut bad) = (0, 0);
    for dialect in DIALECTS {
        for form in [Form::Stream, Form::Whole] {
            let recorded = record(&world, dialect, form).await;
            let whole = read(dialect, form, chunks(&recorded, &mut dice)).await.unwrap();
            is_usable(dialect, &whole);
            for _ in 0..CHANGED {
                let mut bytes = recorded.clone();
                for _ in 0..=dice.below(3) {
                    if !bytes.is_empty() {
                        mutate(&mut bytes, &mut dice);
                    }
                }
                match read(dialect, form, chunks(&bytes, &mut dice)).await {
                    Ok(answer) => {
                        good += 1;
                        is_usable(dialect, &answer);
                    }
                    Err(AnswerError::Invalid(error)) => panic!("{error}"),
                    Err(_) => bad += 1,
                }
            }
        }
    }
    // The changes matter, and not every one is fatal.
    assert!(bad > CHANGED && good > CHANGED / 2, "{good} good, {bad} bad");
}

#[tokio::test]
async fn half_an_answer_is_never_taken_for_a_whole_one() {
    let world = World::start(SCRIPT).await;
    for dialect in DIALECTS {
        for form in [Form::Stream, Form::Whole] {
            let recorded = record(&world, dialect, form).await;
            let whole = read(dialect, form, vec![recorded.clone().into()]).await.unwrap();
            for at in 0..recorded.len() {
                let cut = Bytes::copy_from_slice(&recorded[..at]);
                match read(dialect, form, vec![cut]).await {
                    // Only what nobody needs was missing.
                    Ok(answer) => {
                        let usage = answer.usage.or(whole.usage);
                        assert_eq!(Answer { usage, ..answer }, whole, "{dialect:?} {form:?} {at}");
                    }
                    Err(AnswerError::GaveUp { last, .. }) => assert!(
                        matches!(last, Failure::Truncated | Failure::Json(_)),
                        "{dialect:?} {form:?} {at}: {last}"
                    ),
                    Err(other) => panic!("{dialect:?} {form:?} {at}: {other:?}"),
                }
            }
        }
    }
}
