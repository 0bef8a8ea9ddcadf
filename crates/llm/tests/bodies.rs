//! Whole exchanges with bodies as large as real clients send them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use belljar_llm::json::Reader;
use belljar_llm::tap::Options;
use belljar_llm::{Dialect, Endpoint, Form, Pass, Request, Rewritten, Rules, Table, Tap, Usage};
use serde_json::{Value, json};

const ALL: [Dialect; 3] =
    [Dialect::AnthropicMessages, Dialect::OpenAiResponses, Dialect::OpenAiChat];

fn rules() -> Rules {
    toml::from_str(
        "max_output = 8000\nmodels.alias = { large = 'claude-sonnet-4-5', gpt = 'gpt-5' }",
    )
    .unwrap()
}

fn model(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages => "large",
        Dialect::OpenAiResponses | Dialect::OpenAiChat => "gpt",
    }
}

/// A dozen tools with schemas and a conversation: about 45 KB, like the first
/// requests of coding agents. One of the tools runs at the provider.
fn body(dialect: Dialect) -> String {
    let prose =
        "Runs a command and gives back what it printed; \"quotes\", tabs\t and lines\n matter. ";
    let schema = |n: usize| {
        json!({"type":"object","required":["path"],"additionalProperties":false,"properties":{
            "path":{"type":"string","description":prose.repeat(2)},
            "limit":{"type":"integer","minimum":0,"maximum":n,"description":prose},
            "mode":{"enum":["read","write","append"],"description":"é ".repeat(20)}}})
    };
    let tools: Vec<Value> = (0..12)
        .map(|n| {
            let (name, about) = (format!("tool_{n}"), prose.repeat(26));
            match dialect {
                Dialect::AnthropicMessages if n == 7 => {
                    json!({"type":"web_search_20250305","name":"web_search","max_uses":8})
                }
                Dialect::AnthropicMessages => {
                    json!({"name":name,"description":about,"input_schema":schema(n),"defer_loading":n>9})
                }
                Dialect::OpenAiResponses if n == 7 => json!({"type":"web_search"}),
                Dialect::OpenAiResponses => {
                    json!({"type":"function","name":name,"description":about,"parameters":schema(n),"strict":false})
                }
                Dialect::OpenAiChat => {
                    json!({"type":"function","function":{"name":name,"description":about,"parameters":schema(n)}})
                }
            }
        })
        .collect();
    let text = prose.repeat(60);
    let messages: Vec<Value> = (0..6)
        .map(|n| json!({"role":if n % 2 == 0 {"user"} else {"assistant"},"content":[{"type":"text","text":&text[..2000]}]}))
        .collect();
    let tools = serde_json::to_string(&tools).unwrap();
    let messages = serde_json::to_string(&messages).unwrap();
    let model = model(dialect);
    match dialect {
        Dialect::AnthropicMessages => format!(
            r#"{{"model":"{model}","max_tokens":32000,"stream":true,"messages":{messages},"tools":{tools},"thinking":{{"type":"adaptive"}},"never_heard_of":{{"x":1.50}}}}"#
        ),
        Dialect::OpenAiResponses => format!(
            r#"{{"model":"{model}","stream":true,"store":false,"input":{messages},"tools":{tools},"tool_choice":"auto","client_metadata":{{"x":1.50}}}}"#
        ),
        Dialect::OpenAiChat => {
            format!(
                r#"{{"model":"{model}","stream":true,"messages":{messages},"tools":{tools},"x":1.50}}"#
            )
        }
    }
}

fn rewrite(dialect: Dialect, body: &str) -> Rewritten {
    let mut reader = Reader::new();
    let body = reader.read(body.as_bytes()).unwrap();
    let request = Request::view(dialect, Endpoint::Generate, body).unwrap();
    Rewritten::new(&request, &rules()).unwrap()
}

/// One answer with `pieces` pieces of text: as a stream and as a whole.
fn answer(dialect: Dialect, pieces: usize) -> (String, String) {
    let piece = "some words, é and\n more ";
    let text = piece.repeat(pieces);
    let mut stream = String::new();
    match dialect {
        Dialect::AnthropicMessages => {
            let usage = json!({"input_tokens":1234,"cache_read_input_tokens":9000,"cache_creation_input_tokens":777,"cache_creation":{"ephemeral_5m_input_tokens":700,"ephemeral_1h_input_tokens":77},"output_tokens":1});
            let mut all = usage.clone();
            all["output_tokens"] = json!(4321);
            let mut event = |name: &str, data: Value| {
                write!(stream, "event: {name}\ndata: {data}\n\n").unwrap();
            };
            event(
                "message_start",
                json!({"type":"message_start","message":{"id":"m","model":"x","content":[],"stop_reason":null,"usage":usage}}),
            );
            event(
                "content_block_start",
                json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}),
            );
            for _ in 0..pieces {
                event(
                    "content_block_delta",
                    json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":piece}}),
                );
            }
            event("content_block_stop", json!({"type":"content_block_stop","index":0}));
            event(
                "message_delta",
                json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4321}}),
            );
            event("message_stop", json!({"type":"message_stop"}));
            let whole = json!({"id":"m","model":"x","content":[{"type":"text","text":text}],"stop_reason":"end_turn","usage":all});
            (stream, whole.to_string())
        }
        Dialect::OpenAiResponses => {
            let item = json!({"type":"message","role":"assistant","content":[{"type":"output_text","text":text}]});
            let whole = json!({"id":"r","status":"completed","model":"x","output":[item],"usage":{"input_tokens":11011,"input_tokens_details":{"cached_tokens":9000},"output_tokens":4321,"output_tokens_details":{"reasoning_tokens":1000},"total_tokens":15332}});
            let mut event = |data: Value| {
                write!(stream, "event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
                    .unwrap();
            };
            event(
                json!({"type":"response.created","response":{"id":"r","status":"in_progress","usage":null}}),
            );
            for n in 0..pieces {
                event(
                    json!({"type":"response.output_text.delta","sequence_number":n,"item_id":"msg_1","output_index":0,"content_index":0,"delta":piece}),
                );
            }
            event(json!({"type":"response.output_item.done","output_index":0,"item":item}));
            event(json!({"type":"response.completed","response":whole}));
            (stream, whole.to_string())
        }
        Dialect::OpenAiChat => {
            let usage = json!({"prompt_tokens":11011,"completion_tokens":4321,"total_tokens":15332,"prompt_tokens_details":{"cached_tokens":9000},"completion_tokens_details":{"reasoning_tokens":1000}});
            let mut chunk = |choices: Value, usage: &Value| {
                let data = json!({"id":"c","object":"chat.completion.chunk","model":"x","choices":choices,"usage":usage});
                write!(stream, "data: {data}\n\n").unwrap();
            };
            for _ in 0..pieces {
                chunk(
                    json!([{"index":0,"delta":{"content":piece},"finish_reason":null}]),
                    &Value::Null,
                );
            }
            chunk(json!([{"index":0,"delta":{},"finish_reason":"stop"}]), &Value::Null);
            chunk(json!([]), &usage);
            stream.push_str("data: [DONE]\n\n");
            let whole = json!({"id":"c","model":"x","choices":[{"index":0,"message":{"role":"assistant","content":text},"finish_reason":"stop"}],"usage":usage});
            (stream, whole.to_string())
        }
    }
}

#[test]
fn streamed_and_whole_answers_cost_the_same() {
    let table = Table::embedded().unwrap();
    for dialect in ALL {
        let request = rewrite(dialect, &body(dialect));
        let reserved = table.reserve(&request).unwrap();
        let price = table.price(&request.model).unwrap();
        let (stream, whole) = answer(dialect, 300);
        let cost = |form, text: &str, chunk: usize| {
            let options = Options { drop_usage: request.drop_usage, ..Options::default() };
            let mut tap = Tap::new(dialect, form, options);
            for chunk in text.as_bytes().chunks(chunk) {
                tap.push(chunk);
            }
            let (usage, assumed) = tap.finish().1.settle(reserved.usage);
            assert!(!assumed);
            price.cost(&usage)
        };
        let streamed = cost(Form::Stream, &stream, 1448);
        assert_eq!(streamed, cost(Form::Whole, &whole, 1448), "{dialect:?}");
        let want = match dialect {
            Dialect::AnthropicMessages => {
                1234 * 3000 + 9000 * 300 + 700 * 3750 + 77 * 6000 + 4321 * 15000
            }
            Dialect::OpenAiResponses | Dialect::OpenAiChat => {
                2011 * 1250 + 9000 * 125 + 4321 * 10000
            }
        };
        assert_eq!(streamed, want, "{dialect:?}");
        assert!(streamed < reserved.nano_dollars);
    }
}

#[test]
fn large_bodies_change_only_as_documented() {
    for dialect in ALL {
        let body = body(dialect);
        assert!((40_000..55_000).contains(&body.len()), "{}", body.len());
        let done = rewrite(dialect, &body);
        let sent: Value =
            serde_json::from_slice(done.body.as_deref().unwrap_or(body.as_bytes())).unwrap();
        let mut want: Value = serde_json::from_str(&body).unwrap();
        match dialect {
            Dialect::AnthropicMessages => {
                want["model"] = json!("claude-sonnet-4-5");
                want["max_tokens"] = json!(8000);
                want["tools"].as_array_mut().unwrap().remove(7);
            }
            Dialect::OpenAiResponses => {
                want["model"] = json!("gpt-5");
                want["max_output_tokens"] = json!(8000);
                want["tools"].as_array_mut().unwrap().remove(7);
            }
            Dialect::OpenAiChat => {
                want["model"] = json!("gpt-5");
                want["max_completion_tokens"] = json!(8000);
                want["stream_options"] = json!({"include_usage":true});
            }
        }
        assert!(sent == want, "{dialect:?}");
        // Not only the same values: the same bytes.
        let messages = body.find("\"role\"").unwrap()..body.find("\"tools\"").unwrap();
        let sent = done.body.map_or(body.clone(), |sent| String::from_utf8(sent).unwrap());
        assert!(sent.contains(&body[messages]) && sent.contains("1.50"));
        assert!(done.size.tokens >= body.len() as u64);
    }
}

/// The quickest of many rounds: what else runs on the machine does not count.
fn quickest(mut round: impl FnMut()) -> f64 {
    let times = (0..3000).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed()
    });
    times.min().unwrap().as_secs_f64()
}

/// Run with `cargo test --release -p belljar-llm --test bodies -- --ignored --nocapture`.
#[test]
#[ignore = "measures; only means something in release"]
#[allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it is there to print")]
fn speed() {
    let show = |what: String, bytes: usize, seconds: f64| {
        let rate = bytes as f64 / seconds / 1e6;
        println!("{what}: {bytes} bytes in {:.1} µs, {rate:.0} MB/s", seconds * 1e6);
    };
    for dialect in ALL {
        let rules = rules();
        let body = body(dialect);
        let mut reader = Reader::new();
        let seconds = quickest(|| {
            black_box(reader.read(black_box(body.as_bytes())).unwrap());
        });
        show(format!("{dialect:?}: read a request"), body.len(), seconds);
        let seconds = quickest(|| {
            let value = reader.read(black_box(body.as_bytes())).unwrap();
            let request = Request::view(dialect, Endpoint::Generate, value).unwrap();
            black_box(Rewritten::new(&request, &rules).unwrap());
        });
        show("  read and rewrite it".into(), body.len(), seconds);
        let seconds = quickest(|| {
            black_box(serde_json::from_str::<Value>(black_box(&body)).unwrap());
        });
        show("  for comparison, serde_json reads it".into(), body.len(), seconds);
        let (stream, whole) = answer(dialect, 300);
        let drop_usage = Options { drop_usage: true, ..Options::default() };
        for (form, options, text) in [
            (Form::Stream, Options::default(), &stream),
            (Form::Stream, drop_usage, &stream),
            (Form::Stream, Options { keep: 1 << 20, ..Options::default() }, &stream),
            (Form::Whole, Options::default(), &whole),
        ] {
            let seconds = quickest(|| {
                let mut tap = Tap::new(dialect, form, options);
                for chunk in black_box(text.as_bytes()).chunks(4096) {
                    if let Pass::These(bytes) = tap.push(chunk) {
                        black_box(bytes);
                    }
                }
                assert_ne!(tap.finish().1.usage, Some(Usage::default()));
            });
            show(format!("  tap {form:?} {options:?}"), text.len(), seconds);
        }
    }
}
