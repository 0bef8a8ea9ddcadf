use serde_json::json;

use super::*;
use crate::model::thoughts;

/// A whole conversation that is right.
fn right(dialect: Dialect) -> Value {
    let schema = json!({ "type": "object", "properties": {} });
    match dialect {
        Dialect::Messages => json!({
            "model": "m", "stream": true, "max_tokens": 9,
            "thinking": { "type": "adaptive" },
            "tools": [{ "name": "look", "description": "", "input_schema": schema,
                "cache_control": { "type": "ephemeral", "ttl": "1h" } }],
            "system": [{ "type": "text", "text": "Be brief." }],
            "messages": [
                { "role": "user", "content": [{ "type": "text", "text": "Look." }] },
                { "role": "assistant", "content": [
                    { "type": "thinking", "thinking": "hm", "signature": thoughts::signature("hm") },
                    { "type": "tool_use", "id": "a", "name": "look", "input": {} } ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "a", "content": "seen",
                      "cache_control": { "type": "ephemeral" } },
                    { "type": "text", "text": "Go on." } ] },
            ],
        }),
        Dialect::Responses => json!({
            "model": "m", "stream": true, "store": false, "prompt_cache_key": "run",
            "tools": [{ "type": "function", "name": "look", "parameters": schema }],
            "input": [
                { "type": "message", "role": "user",
                  "content": [{ "type": "input_text", "text": "Look." }] },
                { "type": "reasoning", "summary": [], "encrypted_content": thoughts::seal("hm") },
                { "type": "function_call", "call_id": "a", "name": "look", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "a", "output": "seen" },
            ],
        }),
        Dialect::Chat => json!({
            "model": "m", "stream": true, "stream_options": { "include_usage": true },
            "tools": [{ "type": "function", "function": { "name": "look", "parameters": schema } }],
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "Look." },
                { "role": "assistant", "content": null, "tool_calls": [{ "id": "a",
                  "type": "function", "function": { "name": "look", "arguments": "{}" } }] },
                { "role": "tool", "tool_call_id": "a", "content": "seen" },
            ],
        }),
    }
}

/// Puts a value where a pointer says, or takes away what is there.
fn bent(dialect: Dialect, at: &str, to: Option<Value>) -> Result<(), String> {
    let mut body = right(dialect);
    let (parent, key) = at.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("{at}"));
    match (parent, to) {
        (Value::Array(items), None) => {
            items.remove(key.parse().unwrap());
        }
        (Value::Array(items), Some(to)) if key == "-" => items.push(to),
        (Value::Array(items), Some(to)) => items[key.parse::<usize>().unwrap()] = to,
        (Value::Object(members), None) => {
            members.remove(key).unwrap();
        }
        (Value::Object(members), Some(to)) => {
            members.insert(key.to_owned(), to);
        }
        _ => panic!("{at} is not in a container"),
    }
    check(dialect, &body)
}

#[test]
fn what_is_right_is_taken() {
    for dialect in [Dialect::Messages, Dialect::Responses, Dialect::Chat] {
        assert_eq!(check(dialect, &right(dialect)), Ok(()), "{dialect:?}");
    }
}

#[test]
fn messages_that_are_wrong_are_refused() {
    let short = json!({ "type": "ephemeral" });
    let user = json!({ "role": "user", "content": "again" });
    let result = json!({ "type": "tool_result", "tool_use_id": "a", "content": "seen" });
    let all = json!([{ "type": "text", "text": "x", "cache_control": short },
        { "type": "text", "text": "x", "cache_control": short },
        { "type": "text", "text": "x", "cache_control": short }]);
    for (at, to, want) in [
        ("/foo", Some(json!(1)), "body.foo: Extra inputs"),
        ("/messages/0/id", Some(json!("x")), "messages.0.id: Extra inputs"),
        ("/messages/0/content/0/text", Some(json!("")), "must be non-empty"),
        ("/messages/-", Some(user), "roles must alternate"),
        ("/messages/0", None, "roles must alternate"),
        ("/messages/2", None, "No tool output found"),
        ("/messages/2/content/0", None, "No tool output found"),
        ("/messages/2/content/0/tool_use_id", Some(json!("b")), "answers no call"),
        ("/messages/2/content/-", Some(result), "must come first"),
        ("/messages/1/content/0/thinking", Some(json!("changed")), "Invalid `signature`"),
        ("/messages/1/content/1", None, "may not be `thinking`"),
        ("/messages/1/content/1/input", Some(json!("{}")), "valid dictionary"),
        ("/messages/1/content/1/id", Some(json!("a b")), "should match pattern"),
        ("/tools/0/input_schema", Some(json!({})), "should be 'object'"),
        ("/tools/0/cache_control/ttl", Some(json!("9h")), "'5m' or '1h'"),
        ("/tool_choice", Some(json!({ "type": "any" })), "forces tool use"),
        ("/system", Some(all), "maximum of 4"),
        ("/messages/2/content/0/cache_control/ttl", Some(json!("1h")), ""),
    ] {
        match bent(Dialect::Messages, at, to) {
            Err(message) => assert!(message.contains(want) && !want.is_empty(), "{at}: {message}"),
            Ok(()) => assert!(want.is_empty(), "{at} was taken"),
        }
    }
}

#[test]
fn responses_that_are_wrong_are_refused() {
    for (at, to, want) in [
        ("/max_tokens", Some(json!(1)), "Extra inputs"),
        ("/input/0/content/0/type", Some(json!("output_text")), "Supported values"),
        ("/input/1/id", Some(json!("rs_1")), "not found"),
        ("/input/1/encrypted_content", Some(json!("enc_00_x")), "could not be verified"),
        ("/input/2", None, "without its following item"),
        ("/input/2/arguments", Some(json!({})), "valid string"),
        ("/input/3", None, "No tool output found"),
        ("/input/3/call_id", Some(json!("b")), "answers no call"),
        ("/prompt_cache_key", Some(json!("x".repeat(65))), "too long"),
    ] {
        let message = bent(Dialect::Responses, at, to).unwrap_err();
        assert!(message.contains(want), "{at}: {message}");
    }
}

#[test]
fn chats_that_are_wrong_are_refused() {
    for (at, to, want) in [
        ("/input", Some(json!([])), "Extra inputs"),
        ("/stream", Some(json!(false)), "only allowed when stream"),
        ("/messages/2/tool_calls", None, "either content or tool_calls"),
        ("/messages/2/reasoning_content", Some(json!("hm")), "Extra inputs"),
        ("/messages/3", None, "No tool output found"),
        ("/messages/3/tool_call_id", Some(json!("b")), "answers no call"),
        ("/messages/3/content", None, "valid string"),
    ] {
        let message = bent(Dialect::Chat, at, to).unwrap_err();
        assert!(message.contains(want), "{at}: {message}");
    }
}
