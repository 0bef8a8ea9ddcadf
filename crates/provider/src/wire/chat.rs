//! OpenAI Chat Completions, and whoever speaks like it.
//!
//! Thoughts are shown by some of these servers, each in its own way, and taken back
//! by hardly any: they are passed on while they come, and not kept.

mod read;

use belljar_llm::Dialect;

use super::{arguments, cache_key, sendable, system, tools};
use crate::conversation::{Block, Conversation, Message, Role};
use crate::provider::{Form, Options, ToolChoice};
use crate::write::{Array, object};

pub(crate) use read::Assembly;

pub(super) fn body(conversation: &Conversation, options: &Options) -> Vec<u8> {
    let tools = tools(conversation);
    let system = system(conversation);
    object(|body| {
        body.text("model", &options.model);
        body.flag("stream", options.form == Form::Stream);
        if options.form == Form::Stream {
            body.object("stream_options", |options| options.flag("include_usage", true));
        }
        if let Some(key) = cache_key(options) {
            body.text("prompt_cache_key", key);
        }
        if let Some(effort) = options.effort {
            body.text("reasoning_effort", effort.as_str());
        }
        if let Some(temperature) = options.temperature {
            body.raw("temperature", &temperature.to_string());
        }
        if !tools.is_empty() {
            body.array("tools", |list| {
                for tool in &tools {
                    list.object(|item| {
                        item.text("type", "function");
                        item.object("function", |function| {
                            function.text("name", &tool.name);
                            function.text("description", &tool.description);
                            function.value("parameters", &tool.schema);
                        });
                    });
                }
            });
        }
        body.array("messages", |list| {
            if !system.is_empty() {
                list.object(|message| {
                    message.text("role", "system");
                    message.text("content", &system);
                });
            }
            for message in &conversation.messages {
                match message.role {
                    Role::User => user(list, message),
                    Role::Assistant => assistant(list, message),
                }
            }
        });
        body.number("max_completion_tokens", options.max_output);
        let choice = match options.tools {
            ToolChoice::Auto => None,
            ToolChoice::Required => Some("required"),
            ToolChoice::None => Some("none"),
        };
        if let Some(choice) = choice.filter(|_| !tools.is_empty()) {
            body.text("tool_choice", choice);
        }
    })
}

/// Each block is a message of its own here.
fn user(list: &mut Array<'_>, message: &Message) {
    for block in sendable(message, Dialect::OpenAiChat) {
        list.object(|item| match block {
            Block::ToolResult(result) => {
                item.text("role", "tool");
                item.text("tool_call_id", &result.call);
                item.text("content", &result.text);
            }
            Block::Text { text } => {
                item.text("role", "user");
                item.text("content", text);
            }
            // Of a user, a conversation that was checked has nothing else.
            Block::ToolCall(_) | Block::Opaque(_) => {}
        });
    }
}

fn assistant(list: &mut Array<'_>, message: &Message) {
    if sendable(message, Dialect::OpenAiChat).is_empty() {
        return;
    }
    let text = message.text();
    list.object(|item| {
        item.text("role", "assistant");
        if text.is_empty() {
            item.raw("content", "null");
        } else {
            item.text("content", &text);
        }
        if message.calls().next().is_some() {
            item.array("tool_calls", |calls| {
                for call in message.calls() {
                    calls.object(|item| {
                        item.text("id", &call.id);
                        item.text("type", "function");
                        item.object("function", |function| {
                            function.text("name", &call.name);
                            function.text("arguments", arguments(&call.input));
                        });
                    });
                }
            });
        }
    });
}
