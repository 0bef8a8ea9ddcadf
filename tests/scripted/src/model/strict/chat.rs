//! OpenAI's Chat Completions.

use serde_json::Value;

use super::{Due, keys, list, object_schema, text, word};

const BODY: [&str; 24] = [
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "n",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
];

pub(super) fn check(body: &Value) -> Result<(), String> {
    keys(body, "body", &BODY)?;
    if body.get("stream_options").is_some() && body["stream"] != true {
        return Err("stream_options: only allowed when stream is enabled".to_owned());
    }
    for (index, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        let place = format!("tools[{index}]");
        keys(tool, &place, &["type", "function"])?;
        let function = &tool["function"];
        let place = format!("{place}.function");
        keys(function, &place, &["name", "description", "parameters", "strict"])?;
        word(function, "name", &place)?;
        object_schema(&function["parameters"], &format!("{place}.parameters"))?;
    }
    let mut due = Due::default();
    for (index, message) in list(body, "messages", "body")?.iter().enumerate() {
        let place = format!("messages[{index}]");
        match text(message, "role", &place)? {
            "tool" => {
                keys(message, &place, &["role", "tool_call_id", "content"])?;
                text(message, "content", &place)?;
                due.result(text(message, "tool_call_id", &place)?)?;
            }
            "system" | "developer" | "user" => {
                keys(message, &place, &["role", "content", "name"])?;
                text(message, "content", &place)?;
                due.is_settled()?;
            }
            "assistant" => {
                due.is_settled()?;
                assistant(message, &place, &mut due)?;
            }
            other => return Err(format!("{place}.role: `{other}` is not known")),
        }
    }
    due.is_settled()
}

fn assistant<'v>(message: &'v Value, place: &str, due: &mut Due<'v>) -> Result<(), String> {
    keys(message, place, &["role", "content", "refusal", "tool_calls", "name"])?;
    let calls = message["tool_calls"].as_array();
    if calls.is_none() && !message["content"].is_string() {
        return Err(format!("{place}: either content or tool_calls must be there"));
    }
    for (index, call) in calls.into_iter().flatten().enumerate() {
        let place = format!("{place}.tool_calls[{index}]");
        keys(call, &place, &["id", "type", "function"])?;
        keys(&call["function"], &place, &["name", "arguments"])?;
        word(&call["function"], "name", &place)?;
        text(&call["function"], "arguments", &place)?;
        due.call(text(call, "id", &place)?)?;
    }
    Ok(())
}
