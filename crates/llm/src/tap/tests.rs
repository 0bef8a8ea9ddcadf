use super::*;

/// One answer of one dialect: the stream, the same as a whole, and its usage.
struct Fixture {
    dialect: Dialect,
    stream: String,
    whole: String,
    usage: Usage,
    stop: &'static str,
}

fn named(events: &[(&str, &str)]) -> String {
    events.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect()
}

fn anthropic() -> Fixture {
    let usage = r#""input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200}"#;
    let events = [
        ("message_start", format!(r#"{{"type":"message_start","message":{{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{{{usage},"output_tokens":1,"service_tier":"standard"}}}}}}"#)),
        ("ping", r#"{"type": "ping"}"#.into()),
        ("content_block_start", r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.into()),
        ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I will \"look\" "}}"#.into()),
        ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"é\n"}}"#.into()),
        ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#.into()),
        ("content_block_start", r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}"#.into()),
        ("content_block_delta", r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\""}}"#.into()),
        ("content_block_delta", r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":":\"ls\"}"}}"#.into()),
        ("content_block_stop", r#"{"type":"content_block_stop","index":1}"#.into()),
        ("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":57}}"#.into()),
        ("message_stop", r#"{"type":"message_stop"}"#.into()),
    ];
    let events: Vec<_> = events.iter().map(|(name, data)| (*name, data.as_str())).collect();
    Fixture {
        dialect: Dialect::AnthropicMessages,
        stream: named(&events),
        whole: format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{{"type":"text","text":"I will \"look\" é\n"}},{{"type":"tool_use","id":"toolu_1","name":"Bash","input":{{"command":"ls"}}}}],"stop_reason":"tool_use","usage":{{{usage},"output_tokens":57}}}}"#
        ),
        usage: Usage {
            input: 12,
            cache_read: 4000,
            cache_write_5m: 100,
            cache_write_1h: 200,
            output: 57,
            reasoning: 0,
        },
        stop: "tool_use",
    }
}

fn responses() -> Fixture {
    let items = [
        r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"zzz"}"#,
        r#"{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"I will \"look\" é\n","annotations":[]}]}"#,
        r#"{"type":"function_call","id":"fc_1","call_id":"toolu_1","name":"Bash","arguments":"{\"command\":\"ls\"}"}"#,
    ];
    let whole = format!(
        r#"{{"id":"resp_1","object":"response","status":"completed","model":"gpt-x","error":null,"incomplete_details":null,"output":[{}],"usage":{{"input_tokens":4112,"input_tokens_details":{{"cached_tokens":4000}},"output_tokens":57,"output_tokens_details":{{"reasoning_tokens":20}},"total_tokens":4169}}}}"#,
        items.join(",")
    );
    let done = |n: usize| {
        format!(r#"{{"type":"response.output_item.done","output_index":{n},"item":{}}}"#, items[n])
    };
    let events = [
        ("response.created", r#"{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-x","usage":null}}"#.to_owned()),
        ("response.output_item.added", r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","summary":[]}}"#.to_owned()),
        ("response.output_item.done", done(0)),
        ("response.output_text.delta", r#"{"type":"response.output_text.delta","output_index":1,"delta":"I will \"look\" é\n"}"#.to_owned()),
        ("response.output_item.done", done(1)),
        ("response.function_call_arguments.delta", r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"command\":\"ls\"}"}"#.to_owned()),
        ("response.output_item.done", done(2)),
        ("response.completed", format!(r#"{{"type":"response.completed","response":{whole}}}"#)),
    ];
    let events: Vec<_> = events.iter().map(|(name, data)| (*name, data.as_str())).collect();
    Fixture {
        dialect: Dialect::OpenAiResponses,
        stream: named(&events),
        whole,
        usage: Usage {
            input: 112,
            cache_read: 4000,
            output: 37,
            reasoning: 20,
            ..Usage::default()
        },
        stop: "completed",
    }
}

fn chat() -> Fixture {
    let usage = r#"{"prompt_tokens":4112,"completion_tokens":57,"total_tokens":4169,"prompt_tokens_details":{"cached_tokens":4000},"completion_tokens_details":{"reasoning_tokens":20}}"#;
    let chunk = |choices: &str, usage: &str| {
        format!(
            "data: {{\"id\":\"c_1\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-x\",\"choices\":{choices},\"usage\":{usage}}}\n\n"
        )
    };
    let delta = |delta: &str, reason: &str| {
        chunk(&format!(r#"[{{"index":0,"delta":{delta},"finish_reason":{reason}}}]"#), "null")
    };
    let stream = [
        delta(r#"{"role":"assistant","content":""}"#, "null"),
        delta(r#"{"content":"I will \"look\" "}"#, "null"),
        ": keep-alive\n\n".to_owned(),
        delta(r#"{"content":"é\n"}"#, "null"),
        delta(r#"{"tool_calls":[{"index":0,"id":"toolu_1","type":"function","function":{"name":"Bash","arguments":""}}]}"#, "null"),
        delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":"}}]}"#, "null"),
        delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"ls\"}"}}]}"#, "null"),
        delta("{}", r#""tool_calls""#),
        chunk("[]", usage),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    Fixture {
        dialect: Dialect::OpenAiChat,
        stream,
        whole: format!(
            r#"{{"id":"c_1","object":"chat.completion","model":"gpt-x","choices":[{{"index":0,"message":{{"role":"assistant","content":"I will \"look\" é\n","tool_calls":[{{"id":"toolu_1","type":"function","function":{{"name":"Bash","arguments":"{{\"command\":\"ls\"}}"}}}}]}},"finish_reason":"tool_calls"}}],"usage":{usage}}}"#
        ),
        usage: Usage {
            input: 112,
            cache_read: 4000,
            output: 37,
            reasoning: 20,
            ..Usage::default()
        },
        stop: "tool_calls",
    }
}

fn all() -> [Fixture; 3] {
    [anthropic(), responses(), chat()]
}

const KEEP: Options = Options { drop_usage: false, whole_events: false, keep: 1000 };

/// Sends chunks through a tap: what the client gets, and the report.
fn run(dialect: Dialect, form: Form, options: Options, chunks: &[&[u8]]) -> (Vec<u8>, Report) {
    let mut tap = Tap::new(dialect, form, options);
    let mut out = vec![];
    for chunk in chunks {
        match tap.push(chunk) {
            Pass::Same => out.extend_from_slice(chunk),
            Pass::These(bytes) => out.extend_from_slice(&bytes),
        }
    }
    let (held, report) = tap.finish();
    out.extend_from_slice(&held);
    (out, report)
}

#[test]
fn a_stream_says_the_same_as_a_whole_answer() {
    for Fixture { dialect, stream, whole, usage, stop } in all() {
        let (_, streamed) = run(dialect, Form::Stream, KEEP, &[stream.as_bytes()]);
        let (_, unary) = run(dialect, Form::Whole, KEEP, &[whole.as_bytes()]);
        for report in [&streamed, &unary] {
            assert_eq!(report.usage, Some(usage), "{dialect:?}");
            assert!(report.is_complete);
            assert_eq!(report.stop.as_deref(), Some(stop));
            assert_eq!(report.text, "I will \"look\" é\n");
            assert_eq!(report.tool_calls.len(), 1);
            assert_eq!(report.tool_calls[0].id, "toolu_1");
            assert_eq!(report.tool_calls[0].name, "Bash");
            assert_eq!(report.tool_calls[0].arguments, r#"{"command":"ls"}"#);
            assert_eq!(report.error, None);
            assert_eq!(report.unreadable, 0);
            assert_eq!(report.settle(Usage::default()), (usage, false));
        }
        assert_eq!((&streamed.id, &streamed.model), (&unary.id, &unary.model));
        assert!(streamed.id.is_some() && streamed.model.is_some());
    }
}

#[test]
fn chunks_do_not_matter_and_bytes_pass_unchanged() {
    for Fixture { dialect, stream, .. } in all() {
        for text in [stream.clone(), stream.replace('\n', "\r\n")] {
            let bytes = text.as_bytes();
            for whole_events in [false, true] {
                let options = Options { whole_events, ..KEEP };
                let (_, want) = run(dialect, Form::Stream, options, &[bytes]);
                assert!(want.is_complete);
                for at in 0..=bytes.len() {
                    let (out, report) =
                        run(dialect, Form::Stream, options, &[&bytes[..at], &bytes[at..]]);
                    assert!(out == bytes, "{dialect:?} at {at}");
                    assert_eq!(report, want, "{dialect:?} at {at}");
                }
                let single: Vec<&[u8]> = bytes.chunks(1).collect();
                let (out, report) = run(dialect, Form::Stream, options, &single);
                assert!(out == bytes && report == want);
            }
        }
    }
}

#[test]
fn only_the_extra_event_is_dropped() {
    let Fixture { dialect, stream, usage, .. } = chat();
    let options = Options { drop_usage: true, ..KEEP };
    let want: String =
        stream.split_inclusive("\n\n").filter(|block| !block.contains("\"choices\":[]")).collect();
    assert_ne!(want, stream);
    let bytes = stream.as_bytes();
    for at in 0..=bytes.len() {
        let (out, report) = run(dialect, Form::Stream, options, &[&bytes[..at], &bytes[at..]]);
        assert_eq!(String::from_utf8(out).unwrap(), want, "at {at}");
        assert_eq!(report.usage, Some(usage));
    }
    // Usage beside a choice belongs to the client.
    let joint = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
    let (out, report) = run(dialect, Form::Stream, options, &[joint.as_bytes()]);
    assert_eq!(out, joint.as_bytes());
    assert_eq!(report.usage.unwrap().output, 2);
    // A last event without an end is dropped all the same.
    let cut = stream.split_inclusive("\n\n").nth(8).unwrap().trim_end();
    let (out, report) = run(dialect, Form::Stream, options, &[cut.as_bytes()]);
    assert_eq!((out.len(), report.usage), (0, Some(usage)));
}

#[test]
fn a_cut_answer_is_still_paid_for() {
    let reserved = Usage { input: 9000, output: 5000, ..Usage::default() };
    for Fixture { dialect, stream, usage, .. } in all() {
        for at in 0..stream.len() {
            if !stream.is_char_boundary(at) {
                continue;
            }
            let (_, report) = run(dialect, Form::Stream, KEEP, &[&stream.as_bytes()[..at]]);
            let (charged, assumed) = report.settle(reserved);
            assert!(assumed || charged == usage, "{dialect:?} at {at}");
            assert_ne!(charged, Usage::default(), "{dialect:?} at {at}");
            if dialect != Dialect::AnthropicMessages && assumed {
                assert_eq!(charged, reserved);
            }
        }
    }
    // After the beginning, the prompt is known and the output is counted.
    let text = "word ".repeat(100);
    let stream = anthropic().stream;
    let start: String = stream.split_inclusive("\n\n").take(3).collect();
    let delta = format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
    );
    let cut = |stream: String| {
        let (_, report) = run(Dialect::AnthropicMessages, Form::Stream, KEEP, &[stream.as_bytes()]);
        report.settle(reserved).0
    };
    let charged = cut(start.clone() + &delta);
    assert_eq!((charged.input, charged.cache_read, charged.output), (12, 4000, 167));
    let signed = "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"signature_delta\",\"signature\":\"x\"}}\n\n";
    assert_eq!(cut(start + signed).output, 5000);
}

#[test]
fn errors_are_told_in_every_form() {
    let cases = [
        (
            Dialect::AnthropicMessages,
            Form::Whole,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"},"request_id":"r"}"#,
            "overloaded_error",
        ),
        (
            Dialect::AnthropicMessages,
            Form::Stream,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
            "overloaded_error",
        ),
        (
            Dialect::OpenAiResponses,
            Form::Stream,
            "data: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"busy\"},\"usage\":null}}\n\n",
            "server_error",
        ),
        (
            Dialect::OpenAiResponses,
            Form::Stream,
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"busy\"}\n\n",
            "server_error",
        ),
        (
            Dialect::OpenAiResponses,
            Form::Whole,
            r#"{"error":{"message":"busy","type":"server_error","code":null}}"#,
            "server_error",
        ),
        (
            Dialect::OpenAiChat,
            Form::Stream,
            "data: {\"error\":{\"message\":\"busy\",\"type\":\"x\",\"code\":\"server_error\"}}\n\n",
            "server_error",
        ),
        (
            Dialect::OpenAiChat,
            Form::Whole,
            r#"{"error":{"message":"busy","type":"server_error","code":500}}"#,
            "server_error",
        ),
    ];
    for (dialect, form, text, kind) in cases {
        let (_, report) = run(dialect, form, KEEP, &[text.as_bytes()]);
        let error = report.error.clone().unwrap();
        assert_eq!((error.kind.as_str(), error.message.as_str()), (kind, "busy"), "{text}");
        let reserved = Usage { input: 5, ..Usage::default() };
        assert_eq!(report.settle(reserved), (Usage::default(), false), "{text}");
    }
}

#[test]
fn what_is_not_understood_is_paid_as_reserved() {
    let reserved = Usage { input: 5, output: 7, ..Usage::default() };
    for (form, text) in [
        (Form::Whole, "<html>"),
        (Form::Whole, "{}"),
        (Form::Whole, ""),
        (Form::Stream, "data: nonsense\n\n"),
        (Form::Stream, ""),
    ] {
        for dialect in [Dialect::AnthropicMessages, Dialect::OpenAiResponses, Dialect::OpenAiChat] {
            let (out, report) = run(dialect, form, KEEP, &[text.as_bytes()]);
            assert_eq!(out, text.as_bytes());
            assert_eq!(report.settle(reserved), (reserved, true), "{text}");
        }
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let Fixture { dialect, stream, usage, .. } = anthropic();
    let options = Options { keep: 17, ..Options::default() };
    let (_, report) = run(dialect, Form::Stream, options, &[stream.as_bytes()]);
    // The é would not fit as a whole.
    assert_eq!(report.text, "I will \"look\" é\n"[..].chars().take(16).collect::<String>());
    assert_eq!(report.usage, Some(usage));
    let (_, report) = run(dialect, Form::Stream, Options::default(), &[stream.as_bytes()]);
    assert_eq!((report.text.as_str(), report.tool_calls[0].arguments.as_str()), ("", ""));
    assert_eq!(report.tool_calls[0].argument_bytes, 16);
}

#[test]
fn the_form_is_in_the_content_type() {
    assert_eq!(Form::of(Some("text/event-stream; charset=utf-8")), Form::Stream);
    assert_eq!(Form::of(Some("Text/Event-Stream")), Form::Stream);
    assert_eq!(Form::of(Some("application/json")), Form::Whole);
    assert_eq!(Form::of(None), Form::Whole);
}

#[test]
fn pieces_are_heard_as_a_client_joins_them() {
    let event = |text: &str| {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
             \"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
    };
    let mut tap = Tap::new(Dialect::AnthropicMessages, Form::Stream, Options::default());
    tap.push(event("not heard").as_bytes());
    assert_eq!(tap.hear(<[u8]>::to_vec), None);
    tap.listen();
    tap.push((event("a\\u0062") + &event("c")).as_bytes());
    assert_eq!(tap.hear(<[u8]>::to_vec).unwrap(), b"abc");
    assert_eq!(tap.hear(<[u8]>::to_vec).unwrap(), b"");
}

#[test]
fn a_stream_is_settled_by_its_final_usage_before_it_is_over() {
    let mut tap = Tap::new(Dialect::AnthropicMessages, Form::Stream, Options::default());
    let start =
        r#"{"type":"message_start","message":{"usage":{"input_tokens":11,"output_tokens":1}}}"#;
    let text =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#;
    for (name, data) in [("message_start", start), ("content_block_delta", text)] {
        tap.push(named(&[(name, data)]).as_bytes());
        assert_eq!(tap.settled(), None);
    }
    tap.push(named(&[("message_delta", end)]).as_bytes());
    let settled = tap.settled().unwrap();
    assert_eq!((settled.input, settled.output), (11, 5));
    let (_, report) = tap.finish();
    assert_eq!((report.usage, report.is_complete), (Some(settled), true));
}
