//! Bodies, byte for byte. A change here costs everybody their caches once.

use belljar_llm::Dialect;
use belljar_provider::{
    Block, Client, Conversation, Effort, Form, Input, Message, Opaque, Options, Part, Role,
    ToolCall, ToolChoice, Upstream,
};
use expect_test::{Expect, expect};

use crate::world::{Loopback, Still, tool};

#[track_caller]
fn check(dialect: Dialect, want: Expect) {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: "shell".to_owned(),
        input: Input::read(arguments),
    };
    let (good, bad) = (call("a", "{ \"command\": \"ls\" }"), call("b", "{oops"));
    let thought = |dialect, json: &str| Block::Opaque(Opaque { dialect, json: json.to_owned() });
    let mut results = Message::results([good.answered("a.csv\n"), bad.failed("no")]);
    results.blocks.insert(0, Block::text("Hurry."));
    let conversation = Conversation {
        tools: vec![tool("shell", "command")],
        system: vec![Part::new("Be brief."), Part::ending_prefix("deals: 2 records")],
        messages: vec![
            Message::user("What is \"here\"?"),
            Message {
                role: Role::Assistant,
                blocks: vec![
                    thought(Dialect::AnthropicMessages, r#"{"type":"thinking"}"#),
                    thought(Dialect::OpenAiResponses, r#"{"type":"reasoning"}"#),
                    Block::text("Let me look."),
                    Block::ToolCall(good),
                    Block::ToolCall(bad),
                ],
            },
            results,
        ],
    };
    let options = Options {
        tools: ToolChoice::None,
        form: Form::Stream,
        effort: Some(Effort::Medium),
        cache_key: Some("run_7".to_owned()),
        ..Options::new("m", 100)
    };
    let nowhere = Loopback(([127, 0, 0, 1], 1).into());
    let client = Client::new(Upstream::new(dialect), nowhere, Still::default()).unwrap();
    let body = client.body(&conversation, &options);
    want.assert_eq(std::str::from_utf8(&body).unwrap());
}

#[test]
fn anthropic_messages() {
    check(
        Dialect::AnthropicMessages,
        expect![[
            r#"{"model":"m","stream":true,"thinking":{"type":"adaptive"},"output_config":{"effort":"medium"},"tools":[{"name":"shell","description":"Does shell.","input_schema":{"properties":{"command":{"description":"What to do.","type":"string"}},"required":["command"],"type":"object"},"cache_control":{"type":"ephemeral"}}],"system":[{"type":"text","text":"Be brief."},{"type":"text","text":"deals: 2 records","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"What is \"here\"?","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"thinking"},{"type":"text","text":"Let me look."},{"type":"tool_use","id":"a","name":"shell","input":{ "command": "ls" }},{"type":"tool_use","id":"b","name":"shell","input":{"invalid_json":"{oops"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"a.csv\n"},{"type":"tool_result","tool_use_id":"b","content":"no","is_error":true},{"type":"text","text":"Hurry.","cache_control":{"type":"ephemeral"}}]}],"max_tokens":100,"tool_choice":{"type":"none"}}"#
        ]],
    );
}

#[test]
fn openai_responses() {
    check(
        Dialect::OpenAiResponses,
        expect![[
            r#"{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"run_7","reasoning":{"effort":"medium"},"tools":[{"type":"function","name":"shell","description":"Does shell.","parameters":{"properties":{"command":{"description":"What to do.","type":"string"}},"required":["command"],"type":"object"},"strict":false}],"instructions":"Be brief.\n\ndeals: 2 records","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"What is \"here\"?"}]},{"type":"reasoning"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me look."}]},{"type":"function_call","call_id":"a","name":"shell","arguments":"{ \"command\": \"ls\" }"},{"type":"function_call","call_id":"b","name":"shell","arguments":"{oops"},{"type":"function_call_output","call_id":"a","output":"a.csv\n"},{"type":"function_call_output","call_id":"b","output":"no"},{"type":"message","role":"user","content":[{"type":"input_text","text":"Hurry."}]}],"max_output_tokens":100,"tool_choice":"none"}"#
        ]],
    );
}

#[test]
fn openai_chat() {
    check(
        Dialect::OpenAiChat,
        expect![[
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"prompt_cache_key":"run_7","reasoning_effort":"medium","tools":[{"type":"function","function":{"name":"shell","description":"Does shell.","parameters":{"properties":{"command":{"description":"What to do.","type":"string"}},"required":["command"],"type":"object"}}}],"messages":[{"role":"system","content":"Be brief.\n\ndeals: 2 records"},{"role":"user","content":"What is \"here\"?"},{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"a","type":"function","function":{"name":"shell","arguments":"{ \"command\": \"ls\" }"}},{"id":"b","type":"function","function":{"name":"shell","arguments":"{oops"}}]},{"role":"tool","tool_call_id":"a","content":"a.csv\n"},{"role":"tool","tool_call_id":"b","content":"no"},{"role":"user","content":"Hurry."}],"max_completion_tokens":100,"tool_choice":"none"}"#
        ]],
    );
}

/// Parameters stand before what grows, and only where they are named.
#[test]
fn each_dialect_says_temperature_and_effort_in_its_own_way() {
    let nowhere = Loopback(([127, 0, 0, 1], 1).into());
    let body = |dialect, options: &Options| {
        let client = Client::new(Upstream::new(dialect), nowhere, Still::default()).unwrap();
        let body = client.body(&Conversation::default(), options);
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()
    };
    let mut options = Options::new("m", 100);
    let dialects = [Dialect::AnthropicMessages, Dialect::OpenAiResponses, Dialect::OpenAiChat];
    for dialect in dialects {
        assert_eq!(body(dialect, &options).get("temperature"), None);
    }
    options.temperature = Some("0.2".parse().unwrap());
    for (dialect, tokens) in
        dialects.into_iter().zip(["max_tokens", "max_output_tokens", "max_completion_tokens"])
    {
        let body = body(dialect, &options);
        assert_eq!((&body["temperature"], &body[tokens]), (&0.2.into(), &100.into()));
    }
    options.effort = Some(Effort::High);
    let [anthropic, responses, chat] = dialects.map(|dialect| body(dialect, &options));
    assert_eq!(anthropic["output_config"]["effort"], "high");
    assert_eq!(responses["reasoning"]["effort"], "high");
    assert_eq!(chat["reasoning_effort"], "high");
}
