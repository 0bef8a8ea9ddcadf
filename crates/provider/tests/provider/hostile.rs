//! Upstreams that mean harm: whatever they send, an answer or an error follows, soon
//! and within bounds.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use belljar_llm::Dialect;
use belljar_provider::{
    Answer, AnswerError, Client, Failure, Form, Limits, Provider as _, Transport, TransportError,
    Upstream,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};

use crate::world::{DIALECTS, Still, World, options, question};

/// Few bytes, and more time than any machine needs.
const LIMITS: Limits = Limits {
    head: Duration::from_mins(5),
    idle: Duration::from_mins(5),
    whole: Duration::from_mins(5),
    bytes: 1 << 20,
};

/// Answers every request with the same bytes.
#[derive(Debug, Clone)]
pub(crate) struct Playback {
    pub(crate) form: Form,
    pub(crate) pieces: Vec<Bytes>,
}

#[derive(Debug)]
pub(crate) struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

impl Transport for Playback {
    type Body = Pieces;

    async fn send(&self, _: Request<Bytes>) -> Result<Response<Pieces>, TransportError> {
        let kind = match self.form {
            Form::Stream => "text/event-stream; charset=utf-8",
            Form::Whole => "application/json",
        };
        let body = Pieces(self.pieces.clone().into());
        Ok(Response::builder().header("content-type", kind).body(body)?)
    }
}

/// What becomes of these bytes, in one attempt.
pub(crate) async fn read(
    dialect: Dialect,
    form: Form,
    pieces: Vec<Bytes>,
) -> Result<Answer, AnswerError> {
    let playback = Playback { form, pieces };
    let mut client = Client::new(Upstream::new(dialect), playback, Still::default()).unwrap();
    client.retries.attempts = 1;
    client.limits = LIMITS;
    client.answer(&question(), &options(form), &mut |_| {}).await
}

fn failure(error: AnswerError) -> Failure {
    match error {
        AnswerError::GaveUp { last, .. } => last,
        AnswerError::Unusable(failure) | AnswerError::Refused(failure) => failure,
        other => panic!("{other:?}"),
    }
}

/// How one attempt at a scripted server with this fault ends.
async fn attempt(dialect: Dialect, form: Form, fault: &str, limits: Limits) -> Failure {
    let script = format!("[[turn]]\nsay = \"one two three four\"\nfault = {{ {fault} }}");
    let world = World::start(&script).await;
    let mut client = world.client(dialect);
    client.retries.attempts = 1;
    client.limits = limits;
    let answer = client.answer(&question(), &options(form), &mut |_| {}).await;
    assert!(world.requests() <= 1);
    failure(answer.unwrap_err())
}

#[tokio::test]
async fn what_never_ends_is_ended() {
    for dialect in DIALECTS {
        for form in [Form::Stream, Form::Whole] {
            for what in ["events", "line"] {
                let fault = format!("kind = \"endless\", what = \"{what}\"");
                let failure = attempt(dialect, form, &fault, LIMITS).await;
                assert!(matches!(failure, Failure::Large(_)), "{dialect:?} {form:?}: {failure}");
            }
        }
    }
}

#[tokio::test]
async fn silence_is_not_waited_for() {
    let stall = "kind = \"stall\", after = 3";
    for dialect in DIALECTS {
        for form in [Form::Stream, Form::Whole] {
            let limits = Limits { idle: Duration::from_millis(100), ..LIMITS };
            let failure = attempt(dialect, form, stall, limits).await;
            assert!(matches!(failure, Failure::Stalled(_)), "{dialect:?} {form:?}: {failure}");
            let limits = Limits { whole: Duration::from_millis(100), ..LIMITS };
            let failure = attempt(dialect, form, stall, limits).await;
            assert!(matches!(failure, Failure::Slow(_)), "{dialect:?} {form:?}: {failure}");
        }
    }
}

#[tokio::test]
async fn what_is_compressed_is_not_unpacked() {
    for dialect in DIALECTS {
        for fault in ["kind = \"gzip\"", "kind = \"gzip-bomb\", megabytes = 64"] {
            let failure = attempt(dialect, Form::Stream, fault, LIMITS).await;
            assert!(matches!(failure, Failure::Compressed), "{failure}");
        }
    }
}

#[tokio::test]
async fn frames_without_anything_in_them_are_not_free() {
    let pieces = vec![Bytes::new(); LIMITS.bytes];
    let answer = read(Dialect::OpenAiChat, Form::Stream, pieces).await;
    assert!(matches!(failure(answer.unwrap_err()), Failure::Large(_)));
}

#[tokio::test]
async fn depth_and_number_are_bounded() {
    let deep = format!("data: {}{}\n\n", "[".repeat(100_000), "]".repeat(100_000));
    for dialect in DIALECTS {
        let answer = read(dialect, Form::Stream, vec![deep.clone().into()]).await;
        assert!(matches!(failure(answer.unwrap_err()), Failure::Json(_)), "{dialect:?}");
    }
    let event = |dialect, index: usize| match dialect {
        Dialect::AnthropicMessages => format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{index},\
             \"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n"
        ),
        Dialect::OpenAiResponses => format!(
            "data: {{\"type\":\"response.output_item.done\",\"output_index\":{index},\
             \"item\":{{\"type\":\"message\",\"content\":[]}}}}\n\n"
        ),
        Dialect::OpenAiChat => format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":{index}}}]}}}}]}}\n\n"
        ),
    };
    for dialect in DIALECTS {
        let many: String = (0..2000).map(|index| event(dialect, index)).collect();
        let answer = read(dialect, Form::Stream, vec![many.into()]).await;
        assert!(matches!(failure(answer.unwrap_err()), Failure::Parts), "{dialect:?}");
    }
}

#[tokio::test]
async fn wrong_types_are_named() {
    use Dialect::{AnthropicMessages, OpenAiChat, OpenAiResponses};
    for (dialect, data, want) in [
        (AnthropicMessages, r#"[]"#, "type"),
        (AnthropicMessages, r#"{"type":7}"#, "type"),
        (AnthropicMessages, r#"{"type":"message_start","message":"x"}"#, "message"),
        (AnthropicMessages, r#"{"type":"content_block_delta","index":0,"delta":{}}"#, "index"),
        (AnthropicMessages, r#"{"type":"content_block_start","index":-1}"#, "index"),
        (
            AnthropicMessages,
            r#"{"type":"message_delta","delta":{"stop_reason":[]}}"#,
            "stop_reason",
        ),
        (OpenAiResponses, r#"{"type":"response.output_text.delta","delta":1}"#, "delta"),
        (OpenAiResponses, r#"{"type":"response.output_item.done","item":null}"#, "item"),
        (
            OpenAiResponses,
            r#"{"type":"response.output_item.done","item":{"type":"function_call","call_id":"a","name":"b","arguments":{}}}"#,
            "function_call.arguments",
        ),
        (OpenAiResponses, r#"{"type":"response.completed","response":{"output":{}}}"#, "output"),
        (OpenAiChat, r#"{"choices":{}}"#, "choices"),
        (OpenAiChat, r#"{"choices":[{"delta":[]}]}"#, "delta"),
        (OpenAiChat, r#"{"choices":[{"delta":{"content":{}}}]}"#, "content"),
        (
            OpenAiChat,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":{}}}]}}]}"#,
            "tool_calls",
        ),
    ] {
        let answer = read(dialect, Form::Stream, vec![format!("data: {data}\n\n").into()]).await;
        match failure(answer.unwrap_err()) {
            Failure::Shape(place) => assert_eq!(place, want, "{data}"),
            other => panic!("{data}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn calls_that_share_an_id_or_have_none_get_their_own() {
    let call = |index: usize, id: &str| {
        format!(r#"{{"index":{index},"id":{id},"function":{{"name":"a b","arguments":""}}}}"#)
    };
    let calls = [call(0, "\"0\""), call(1, "\"0\""), call(2, "null"), call(3, "\"x y\"")].join(",");
    let stream = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{calls}]}},\
         \"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
    );
    let answer = read(Dialect::OpenAiChat, Form::Stream, vec![stream.into()]).await.unwrap();
    let ids: Vec<_> = answer.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["0", "call_1_1", "call_1_2", "call_1_3"]);
    assert!(answer.calls().all(|call| call.name == "a_b"));
}
