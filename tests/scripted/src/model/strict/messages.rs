//! Anthropic's Messages.

use serde_json::Value;

use super::{Due, keys, list, object_schema, text, word};
use crate::model::thoughts;

const BODY: [&str; 18] = [
    "cache_control",
    "container",
    "context_management",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

pub(super) fn check(body: &Value) -> Result<(), String> {
    keys(body, "body", &BODY)?;
    let mut caching = Caching::default();
    for (index, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        let place = format!("tools.{index}");
        keys(tool, &place, &["name", "description", "input_schema", "type", "cache_control"])?;
        word(tool, "name", &place)?;
        object_schema(&tool["input_schema"], &format!("{place}.input_schema"))?;
        caching.see(tool, &place)?;
    }
    if let Some(parts) = body["system"].as_array() {
        for (index, part) in parts.iter().enumerate() {
            block(part, &format!("system.{index}"), "system", &mut caching)?;
        }
    }
    match body["tool_choice"]["type"].as_str() {
        Some("any" | "tool") if body["thinking"].is_object() => {
            return Err("Thinking may not be enabled when tool_choice forces tool use.".to_owned());
        }
        Some(_) if body["tools"].as_array().is_none_or(Vec::is_empty) => {
            return Err("tool_choice may only be specified while providing tools.".to_owned());
        }
        _ => {}
    }
    conversation(list(body, "messages", "body")?, &mut caching)
}

fn conversation(messages: &[Value], caching: &mut Caching) -> Result<(), String> {
    let mut due = Due::default();
    let mut last = "assistant";
    for (index, message) in messages.iter().enumerate() {
        let place = format!("messages.{index}");
        keys(message, &place, &["role", "content"])?;
        let role = text(message, "role", &place)?;
        if !["user", "assistant"].contains(&role) || role == last {
            return Err(format!(
                "{place}: roles must alternate between \"user\" and \"assistant\", and begin with \
                 \"user\""
            ));
        }
        last = role;
        if message["content"].is_string() {
            due.is_settled()?;
            continue;
        }
        let blocks = list(message, "content", &place)?;
        if blocks.is_empty() {
            return Err(format!("{place}.content: must have at least one block"));
        }
        let mut is_past_results = false;
        for (index, item) in blocks.iter().enumerate() {
            let place = format!("{place}.content.{index}");
            block(item, &place, role, caching)?;
            match item["type"].as_str() {
                Some("tool_result") if is_past_results => {
                    return Err(format!("{place}: tool_result blocks must come first"));
                }
                Some("tool_result") => due.result(text(item, "tool_use_id", &place)?)?,
                Some("tool_use") => due.call(word(item, "id", &place)?)?,
                _ => is_past_results = true,
            }
        }
        if blocks.last().is_some_and(|last| last["type"] == "thinking") {
            return Err(format!("{place}: the final block may not be `thinking`"));
        }
        if role == "user" {
            due.is_settled()?;
        }
    }
    due.is_settled()
}

fn block(item: &Value, place: &str, role: &str, caching: &mut Caching) -> Result<(), String> {
    let kind = text(item, "type", place)?;
    let refuse = || Err(format!("{place}: `{kind}` is not for `{role}`"));
    match kind {
        "text" => {
            keys(item, place, &["type", "text", "cache_control"])?;
            if text(item, "text", place)?.is_empty() {
                return Err(format!("{place}: text content blocks must be non-empty"));
            }
        }
        "tool_use" if role == "assistant" => {
            keys(item, place, &["type", "id", "name", "input", "cache_control"])?;
            word(item, "name", place)?;
            if !item["input"].is_object() {
                return Err(format!("{place}.input: Input should be a valid dictionary"));
            }
        }
        "tool_result" if role == "user" => {
            let known = ["type", "tool_use_id", "content", "is_error", "cache_control"];
            keys(item, place, &known)?;
        }
        "thinking" if role == "assistant" => {
            keys(item, place, &["type", "thinking", "signature"])?;
            let signature = text(item, "signature", place)?;
            if signature != thoughts::signature(text(item, "thinking", place)?) {
                return Err(format!("{place}: Invalid `signature` in `thinking` block"));
            }
        }
        _ => return refuse(),
    }
    caching.see(item, place)
}

/// Places that a client names as worth caching.
#[derive(Debug, Default)]
struct Caching {
    count: usize,
    has_short: bool,
}

impl Caching {
    fn see(&mut self, item: &Value, place: &str) -> Result<(), String> {
        let Some(control) = item.get("cache_control") else { return Ok(()) };
        let place = format!("{place}.cache_control");
        keys(control, &place, &["type", "ttl"])?;
        if control["type"] != "ephemeral" {
            return Err(format!("{place}.type: Input should be 'ephemeral'"));
        }
        match control.get("ttl").map(|ttl| ttl.as_str().unwrap_or_default()) {
            Some("1h") if self.has_short => {
                return Err(format!(
                    "{place}.ttl: a ttl='1h' block must not come after a ttl='5m'"
                ));
            }
            Some("1h") => {}
            None | Some("5m") => self.has_short = true,
            Some(_) => return Err(format!("{place}.ttl: Input should be '5m' or '1h'")),
        }
        self.count += 1;
        if self.count > 4 {
            return Err("A maximum of 4 blocks with cache_control may be provided.".to_owned());
        }
        Ok(())
    }
}
