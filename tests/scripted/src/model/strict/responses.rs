//! OpenAI's Responses.

use serde_json::Value;

use super::{Due, keys, list, object_schema, text, word};
use crate::model::thoughts;

const BODY: [&str; 22] = [
    "background",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
];

pub(super) fn check(body: &Value) -> Result<(), String> {
    keys(body, "body", &BODY)?;
    for (index, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        let place = format!("tools[{index}]");
        keys(tool, &place, &["type", "name", "description", "parameters", "strict"])?;
        word(tool, "name", &place)?;
        object_schema(&tool["parameters"], &format!("{place}.parameters"))?;
    }
    if body["prompt_cache_key"].as_str().is_some_and(|key| key.len() > 64) {
        return Err("prompt_cache_key: string too long".to_owned());
    }
    let mut due = Due::default();
    let mut is_after_thoughts = false;
    for (index, item) in list(body, "input", "body")?.iter().enumerate() {
        let place = format!("input[{index}]");
        let kind = item["type"].as_str().unwrap_or("message");
        let is_answer = kind == "function_call" || item["role"] == "assistant";
        if is_after_thoughts && !is_answer {
            return Err(format!("{place}: a reasoning item came without its following item"));
        }
        is_after_thoughts = kind == "reasoning";
        one(item, kind, &place, &mut due)?;
    }
    if is_after_thoughts {
        return Err("input: a reasoning item came without its following item".to_owned());
    }
    due.is_settled()
}

fn one<'v>(item: &'v Value, kind: &str, place: &str, due: &mut Due<'v>) -> Result<(), String> {
    match kind {
        "message" => message(item, place, due),
        "function_call" => {
            keys(item, place, &["type", "id", "call_id", "name", "arguments", "status"])?;
            word(item, "name", place)?;
            text(item, "arguments", place)?;
            due.call(text(item, "call_id", place)?)
        }
        "function_call_output" => {
            keys(item, place, &["type", "id", "call_id", "output", "status"])?;
            text(item, "output", place)?;
            due.result(text(item, "call_id", place)?)
        }
        "reasoning" => {
            keys(item, place, &["type", "id", "summary", "content", "encrypted_content"])?;
            list(item, "summary", place)?;
            if item.get("id").is_some() {
                let id = &item["id"];
                return Err(format!("Item with id {id} not found: `store` is set to false."));
            }
            if !thoughts::is_sealed(text(item, "encrypted_content", place)?) {
                return Err(format!("{place}: The encrypted content could not be verified."));
            }
            Ok(())
        }
        other => Err(format!("{place}.type: `{other}` is not known")),
    }
}

fn message(item: &Value, place: &str, due: &Due<'_>) -> Result<(), String> {
    keys(item, place, &["type", "role", "content", "id", "status"])?;
    let kind = match text(item, "role", place)? {
        "user" | "developer" | "system" => {
            due.is_settled()?;
            "input_text"
        }
        "assistant" => "output_text",
        other => return Err(format!("{place}.role: `{other}` is not known")),
    };
    if item["content"].is_string() {
        return Ok(());
    }
    for (index, part) in list(item, "content", place)?.iter().enumerate() {
        let place = format!("{place}.content[{index}]");
        keys(part, &place, &["type", "text", "annotations", "logprobs"])?;
        text(part, "text", &place)?;
        if part["type"] != kind {
            return Err(format!("{place}.type: Supported values are: '{kind}'."));
        }
    }
    Ok(())
}
