//! OpenAI Responses. Nothing is stored at the provider: what the model thought comes
//! encrypted, and goes back with the next request.

mod read;

use belljar_llm::Dialect;

use super::{arguments, cache_key, sendable, system, tools};
use crate::conversation::{Block, Conversation, Role};
use crate::provider::{Form, Options, ToolChoice};
use crate::write::{Array, object};

pub(crate) use read::Assembly;

pub(super) fn body(conversation: &Conversation, options: &Options) -> Vec<u8> {
    let tools = tools(conversation);
    let instructions = system(conversation);
    object(|body| {
        body.text("model", &options.model);
        body.flag("stream", options.form == Form::Stream);
        body.flag("store", false);
        body.array("include", |list| list.text("reasoning.encrypted_content"));
        if let Some(key) = cache_key(options) {
            body.text("prompt_cache_key", key);
        }
        if let Some(effort) = options.effort {
            body.object("reasoning", |reasoning| reasoning.text("effort", effort.as_str()));
        }
        if let Some(temperature) = options.temperature {
            body.raw("temperature", &temperature.to_string());
        }
        if !tools.is_empty() {
            body.array("tools", |list| {
                for tool in &tools {
                    list.object(|item| {
                        item.text("type", "function");
                        item.text("name", &tool.name);
                        item.text("description", &tool.description);
                        item.value("parameters", &tool.schema);
                        // Strict schemas allow no optional arguments.
                        item.flag("strict", false);
                    });
                }
            });
        }
        if !instructions.is_empty() {
            body.text("instructions", &instructions);
        }
        body.array("input", |input| {
            for message in &conversation.messages {
                for block in sendable(message, Dialect::OpenAiResponses) {
                    write_item(input, message.role, block);
                }
            }
        });
        body.number("max_output_tokens", options.max_output);
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

fn write_item(input: &mut Array<'_>, role: Role, block: &Block) {
    if let Block::Opaque(opaque) = block {
        input.raw(&opaque.json);
        return;
    }
    input.object(|item| match block {
        Block::Text { text } => {
            let (role, kind) = match role {
                Role::User => ("user", "input_text"),
                Role::Assistant => ("assistant", "output_text"),
            };
            item.text("type", "message");
            item.text("role", role);
            item.array("content", |content| {
                content.object(|part| {
                    part.text("type", kind);
                    part.text("text", text);
                });
            });
        }
        Block::ToolCall(call) => {
            item.text("type", "function_call");
            item.text("call_id", &call.id);
            item.text("name", &call.name);
            item.text("arguments", arguments(&call.input));
        }
        Block::ToolResult(result) => {
            item.text("type", "function_call_output");
            item.text("call_id", &result.call);
            item.text("output", &result.text);
        }
        Block::Opaque(_) => {}
    });
}
