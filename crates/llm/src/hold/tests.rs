use serde_json::Value as Json;

use super::*;
use crate::tap::{Options, Tap};

const DENIED: &str = "The call of `Bash` was denied: \"not\" today\nask later";

/// An answer of one dialect with a text and a call, as a stream and as a whole.
struct Fixture {
    dialect: Dialect,
    stream: String,
    whole: String,
    stop: &'static str,
}

fn named(events: &[&str]) -> String {
    let name = |data: &str| serde_json::from_str::<Json>(data).unwrap()["type"].clone();
    let write = |data: &&str| format!("event: {}\ndata: {data}\n\n", name(data).as_str().unwrap());
    events.iter().map(write).collect()
}

fn anthropic() -> Fixture {
    let stream = named(&[
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":12,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I will look"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":":\"ls é\"}"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":57}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let whole = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"I will look"},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls é"}}],"stop_reason":"tool_use","usage":{"input_tokens":12,"output_tokens":57}}"#;
    let dialect = Dialect::AnthropicMessages;
    Fixture { dialect, stream, whole: whole.to_owned(), stop: "end_turn" }
}

fn responses() -> Fixture {
    let text = r#"{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"I will look","annotations":[]}]}"#;
    let call = r#"{"type":"function_call","id":"fc_1","call_id":"toolu_1","name":"Bash","arguments":"{\"command\":\"ls é\"}"}"#;
    let whole = format!(
        r#"{{"id":"resp_1","object":"response","status":"completed","model":"gpt-x","error":null,"output":[{text},{call}],"usage":{{"input_tokens":12,"output_tokens":57,"total_tokens":69}}}}"#
    );
    let events = [
        r#"{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-x","usage":null}}"#.to_owned(),
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"I will look","sequence_number":3}"#.to_owned(),
        format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{text}}}"#),
        r#"{"type":"response.output_item.added","output_index":1,"sequence_number":5,"item":{"type":"function_call","id":"fc_1","call_id":"toolu_1","name":"Bash","arguments":""}}"#.to_owned(),
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"command\":\"ls é\"}"}"#.to_owned(),
        format!(r#"{{"type":"response.output_item.done","output_index":1,"item":{call}}}"#),
        format!(r#"{{"type":"response.completed","response":{whole}}}"#),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let dialect = Dialect::OpenAiResponses;
    Fixture { dialect, stream: named(&events), whole, stop: "completed" }
}

fn chat() -> Fixture {
    let events = [
        r#"{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":"I will look"},"finish_reason":null}]}"#,
        r#"{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"toolu_1","type":"function","function":{"name":"Bash","arguments":""}}]},"finish_reason":null}]}"#,
        r#"{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":\"ls é\"}"}}]},"finish_reason":null}]}"#,
        r#"{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"id":"chat_1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":57,"total_tokens":69}}"#,
        "[DONE]",
    ];
    let stream = events.iter().map(|data| format!("data: {data}\n\n")).collect();
    let whole = r#"{"id":"chat_1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"I will look","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"ls é\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":12,"completion_tokens":57,"total_tokens":69}}"#;
    let dialect = Dialect::OpenAiChat;
    Fixture { dialect, stream, whole: whole.to_owned(), stop: "stop" }
}

fn fixtures() -> [Fixture; 3] {
    [anthropic(), responses(), chat()]
}

/// The bytes that passed, the calls, and the hold at the end.
fn feed(fixture: &Fixture, form: Form, chunks: &[&[u8]]) -> (Vec<u8>, Vec<HeldCall>, Hold) {
    let mut hold = Hold::new(fixture.dialect, form);
    let mut passed = Vec::new();
    for chunk in chunks {
        passed.extend(hold.push(chunk).unwrap());
    }
    let (rest, calls) = hold.finish().unwrap();
    passed.extend(rest);
    (passed, calls, hold)
}

fn report(dialect: Dialect, form: Form, bytes: &[u8]) -> crate::Report {
    let mut tap = Tap::new(dialect, form, Options { keep: 4096, ..Options::default() });
    tap.push(bytes);
    tap.finish().1
}

#[test]
fn chunks_do_not_matter() {
    let call = HeldCall {
        id: Some("toolu_1".to_owned()),
        name: "Bash".to_owned(),
        is_name_sure: true,
        input: "{\"command\":\"ls é\"}".to_owned(),
    };
    for fixture in fixtures() {
        let stream = fixture.stream.as_bytes();
        let once = feed(&fixture, Form::Stream, &[stream]);
        let denied = once.2.deny(DENIED).unwrap();
        for at in 0..=stream.len() {
            let (passed, calls, hold) =
                feed(&fixture, Form::Stream, &[&stream[..at], &stream[at..]]);
            assert_eq!(calls, std::slice::from_ref(&call), "{:?} {at}", fixture.dialect);
            assert_eq!(passed, once.0);
            assert_eq!([passed, hold.release()].concat(), stream);
            let (_, _, hold) = feed(&fixture, Form::Stream, &[&stream[..at], &stream[at..]]);
            assert_eq!(hold.deny(DENIED).unwrap(), denied);
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        let (passed, calls, hold) = feed(&fixture, Form::Stream, &bytes);
        assert_eq!(calls, std::slice::from_ref(&call));
        assert_eq!([passed, hold.release()].concat(), stream);
    }
}

#[test]
fn nothing_of_a_call_passes_before_the_decision() {
    for fixture in fixtures() {
        let stream = fixture.stream.as_bytes();
        let (passed, _, hold) = feed(&fixture, Form::Stream, &[stream]);
        let text = String::from_utf8(passed).unwrap();
        assert!(text.contains("I will look"), "{text}");
        assert!(!text.contains("Bash") && !text.contains("toolu_1"), "{text}");
        assert!(hold.is_holding());
    }
}

#[test]
fn a_denied_answer_is_the_end_of_a_turn_without_calls() {
    for fixture in fixtures() {
        for (form, text) in [(Form::Stream, &fixture.stream), (Form::Whole, &fixture.whole)] {
            let (mut passed, calls, hold) = feed(&fixture, form, &[text.as_bytes()]);
            assert_eq!(calls.len(), 1, "{:?} {form:?}", fixture.dialect);
            passed.extend(hold.deny(DENIED).unwrap());
            let (before, after) = (
                report(fixture.dialect, form, text.as_bytes()),
                report(fixture.dialect, form, &passed),
            );
            let shown = String::from_utf8(passed).unwrap();
            assert_eq!(before.tool_calls.len(), 1);
            assert!(after.tool_calls.is_empty(), "{shown}");
            assert_eq!(after.stop.as_deref(), Some(fixture.stop), "{shown}");
            assert_eq!((after.usage, after.is_complete), (before.usage, true), "{shown}");
            assert!(after.text.contains("I will look") && after.text.contains(DENIED), "{shown}");
            assert_eq!((after.unreadable, after.error), (0, None), "{shown}");
        }
    }
}

#[test]
fn answers_without_calls_are_not_held() {
    let text = named(&[
        r#"{"type":"message_start","message":{"id":"msg_1","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let mut hold = Hold::new(Dialect::AnthropicMessages, Form::Stream);
    assert_eq!(hold.push(text.as_bytes()).unwrap(), text.as_bytes());
    assert!(!hold.is_holding());
    assert_eq!(hold.finish(), Ok((Vec::new(), Vec::new())));
    assert_eq!(hold.release(), b"");
}

/// Codex' own shell, and kinds that are newer than this version.
#[test]
fn kinds_of_calls_that_are_not_known_are_held() {
    for (item, name, input) in [
        (
            r#"{"type":"local_shell_call","call_id":"c","action":{"type":"exec","command":["ls"]}}"#,
            "local_shell",
            r#"{"type":"exec","command":["ls"]}"#,
        ),
        (
            r#"{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"*** Begin"}"#,
            "apply_patch",
            "*** Begin",
        ),
        (
            r#"{"type":"teleport_call","call_id":"c"}"#,
            "teleport",
            r#"{"type":"teleport_call","call_id":"c"}"#,
        ),
    ] {
        let stream = named(&[&format!(
            r#"{{"type":"response.completed","response":{{"status":"completed","output":[{item}]}}}}"#
        )]);
        let mut hold = Hold::new(Dialect::OpenAiResponses, Form::Stream);
        assert_eq!(hold.push(stream.as_bytes()).unwrap(), b"");
        let (_, calls) = hold.finish().unwrap();
        assert_eq!((calls[0].name.as_str(), calls[0].input.as_str()), (name, input));
    }
}

#[test]
fn answers_that_cannot_be_shown_do_not_pass() {
    for fixture in fixtures() {
        let cut = fixture.stream.rfind("data:").unwrap();
        let cut = fixture.stream[..cut].rfind("data:").unwrap();
        let cut = if fixture.dialect == Dialect::OpenAiChat {
            fixture.stream.find("{\"index\":0,\"delta\":{},").unwrap()
        } else {
            cut
        };
        let mut hold = Hold::new(fixture.dialect, Form::Stream);
        hold.push(&fixture.stream.as_bytes()[..cut]).unwrap();
        let error = hold.finish().unwrap_err();
        let end = report(fixture.dialect, Form::Stream, &hold.broken(error));
        assert!(end.error.is_some() && end.tool_calls.is_empty(), "{:?}", fixture.dialect);
    }
    // Some readers take the last of two members, others the first.
    let twice = "data: {\"type\":\"ping\",\"type\":\"content_block_start\"}\n\n";
    let mut hold = Hold::new(Dialect::AnthropicMessages, Form::Stream);
    assert_eq!(hold.push(twice.as_bytes()), Err(HoldError::Unreadable));
}

fn calls_of(dialect: Dialect, stream: &str) -> Result<Vec<HeldCall>, HoldError> {
    let mut hold = Hold::new(dialect, Form::Stream);
    hold.push(stream.as_bytes())?;
    Ok(hold.finish()?.1)
}

/// A stream of a chat with these pieces of one call.
fn chat_of(pieces: &[&str]) -> String {
    let chunk = |piece: &&str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{piece}}}]}}}}]}}\n\n"
        )
    };
    pieces.iter().map(chunk).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

#[test]
fn a_name_in_pieces_is_put_together_and_not_sure() {
    for (pieces, name, is_sure) in [
        (&[r#"{"name":"Ba"}"#, r#"{"name":"sh","arguments":"1"}"#][..], "Bash", false),
        (&[r#"{"name":""}"#, r#"{"name":"Bash","arguments":"1"}"#][..], "Bash", true),
        (&[r#"{"name":"Bash"}"#, r#"{"name":null,"arguments":"1"}"#][..], "Bash", true),
        (&[r#"{"name":"Bash"}"#, r#"{"name":"Bash","arguments":"1"}"#][..], "Bash", false),
        (&[r#"{"arguments":"1"}"#][..], "", true),
    ] {
        let calls = calls_of(Dialect::OpenAiChat, &chat_of(pieces)).unwrap();
        assert_eq!(calls.len(), 1, "{pieces:?}");
        assert_eq!((calls[0].name.as_str(), calls[0].is_name_sure), (name, is_sure), "{pieces:?}");
        assert_eq!(calls[0].input, "1");
    }
    let number = chat_of(&[r#"{"name":7}"#]);
    assert_eq!(calls_of(Dialect::OpenAiChat, &number), Err(HoldError::Unreadable));
    let item = r#"{"type":"function_call","call_id":"c","arguments":"{}"}"#;
    let end = format!(r#"{{"type":"response.completed","response":{{"output":[{item}]}}}}"#);
    let calls = calls_of(Dialect::OpenAiResponses, &named(&[&end])).unwrap();
    assert_eq!((calls.len(), calls[0].name.as_str()), (1, ""));
}

#[test]
fn inputs_that_are_no_text_cannot_be_shown() {
    for input in [r#"{"command":"ls"}"#, "[1]", "7", "true"] {
        let piece = format!(r#"{{"name":"Bash","arguments":{input}}}"#);
        let error = calls_of(Dialect::OpenAiChat, &chat_of(&[&piece]));
        assert_eq!(error, Err(HoldError::Unreadable), "{input}");
        let delta = format!(
            r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":{input}}}}}"#
        );
        let stream = named(&[
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"Bash","input":{}}}"#,
            &delta,
            r#"{"type":"message_stop"}"#,
        ]);
        let error = calls_of(Dialect::AnthropicMessages, &stream);
        assert_eq!(error, Err(HoldError::Unreadable), "{input}");
    }
    let null = chat_of(&[r#"{"name":"Bash","arguments":null}"#]);
    assert_eq!(calls_of(Dialect::OpenAiChat, &null).unwrap()[0].input, "");
}

/// Some clients make a call of its pieces alone.
#[test]
fn a_call_that_begins_must_be_there_at_the_end() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"Bash","arguments":""}}"#;
    let delta =
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}"#;
    let done = r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"b","name":"Read","arguments":"{}"}}"#;
    let end = r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#;
    for events in [&[added, delta, end][..], &[delta, end][..], &[added, added, delta, done, end]] {
        let error = calls_of(Dialect::OpenAiResponses, &named(events));
        assert_eq!(error, Err(HoldError::Unreadable), "{events:?}");
    }
    assert_eq!(calls_of(Dialect::OpenAiResponses, &named(&[done, end])).unwrap().len(), 1);
}

#[test]
fn calls_of_one_answer_have_a_bound() {
    let start = |nth: usize| {
        format!(
            r#"{{"type":"content_block_start","index":{nth},"content_block":{{"type":"tool_use","id":"t{nth}","name":"Bash","input":{{}}}}}}"#
        )
    };
    let piece = |nth: usize| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":{nth},\"function\":{{\"name\":\"Bash\",\"arguments\":\"\"}}}}]}}}}]}}\n\n"
        )
    };
    let item = |nth: usize| {
        format!(r#"{{"type":"function_call","call_id":"c{nth}","name":"Bash","arguments":"{{}}"}}"#)
    };
    for count in [MAX_HELD_CALLS, MAX_HELD_CALLS + 1] {
        let expected = if count > MAX_HELD_CALLS { Err(HoldError::TooMany) } else { Ok(count) };
        let of = |dialect, stream: &str| calls_of(dialect, stream).map(|calls| calls.len());
        let mut events: Vec<String> = (0..count).map(start).collect();
        events.push(r#"{"type":"message_stop"}"#.to_owned());
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        assert_eq!(of(Dialect::AnthropicMessages, &named(&events)), expected);
        let chat: String = (0..count).map(piece).chain(["data: [DONE]\n\n".to_owned()]).collect();
        assert_eq!(of(Dialect::OpenAiChat, &chat), expected);
        let items: Vec<String> = (0..count).map(item).collect();
        let whole = format!(r#"{{"output":[{}]}}"#, items.join(","));
        let end = format!(r#"{{"type":"response.completed","response":{whole}}}"#);
        assert_eq!(of(Dialect::OpenAiResponses, &named(&[&end])), expected);
        let mut hold = Hold::new(Dialect::OpenAiResponses, Form::Whole);
        hold.push(whole.as_bytes()).unwrap();
        assert_eq!(hold.bytes(), whole.len());
        assert_eq!(hold.finish().map(|(_, calls)| calls.len()), expected);
    }
}

#[test]
fn what_is_held_has_a_bound() {
    let fixture = anthropic();
    let begin = fixture.stream.find("event: ping").unwrap();
    let mut hold = Hold::new(fixture.dialect, Form::Stream);
    hold.push(&fixture.stream.as_bytes()[..begin]).unwrap();
    let piece = named(&[&format!(
        r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":"{}"}}}}"#,
        "x".repeat(1 << 20)
    )]);
    let results: Vec<_> = (0..9).map(|_| hold.push(piece.as_bytes())).collect();
    assert!(hold.bytes() > piece.len() * 8, "{}", hold.bytes());
    assert_eq!(results[0], Ok(Vec::new()));
    assert_eq!(results[8], Err(HoldError::TooLarge));
}

#[test]
fn keep_alives_change_nothing() {
    for fixture in fixtures() {
        for (form, text) in [(Form::Stream, &fixture.stream), (Form::Whole, &fixture.whole)] {
            let alive = keep_alive(fixture.dialect, form);
            let with = [alive, text.as_bytes()].concat();
            let (plain, kept) = (
                report(fixture.dialect, form, text.as_bytes()),
                report(fixture.dialect, form, &with),
            );
            assert_eq!(plain, kept, "{:?} {form:?}", fixture.dialect);
        }
    }
}
