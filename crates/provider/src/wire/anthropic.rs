//! Anthropic Messages.

mod read;

use belljar_llm::Dialect;

use super::{sendable, tools};
use crate::conversation::{Block, Conversation, Input, Role};
use crate::provider::{Form, Options, ToolChoice};
use crate::write::{Array, Object, object};

pub(crate) use read::Assembly;

/// How many places of a body the provider lets a client name as worth caching.
const MOST_BREAKPOINTS: usize = 4;

/// Which API. Bodies are the same in both; the newer refuses what they never hold:
/// parameters of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    #[default]
    V2023_06_01,
    V2026_10_21,
}

/// How long the provider keeps a prefix after it was last used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifetime {
    #[default]
    FiveMinutes,
    /// Twice the price to write instead of 1.25 times.
    OneHour,
}

impl Version {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::V2023_06_01 => "2023-06-01",
            Self::V2026_10_21 => "2026-10-21",
        }
    }
}

/// Messages as this API wants them: roles take turns.
struct Turn<'c> {
    role: Role,
    blocks: Vec<&'c Block>,
}

pub(super) fn body(
    conversation: &Conversation,
    options: &Options,
    lifetime: Option<Lifetime>,
) -> Vec<u8> {
    let tools = tools(conversation);
    let turns = turns(conversation);
    let plan = match lifetime {
        Some(lifetime) => Breakpoints::plan(conversation, &turns, lifetime),
        None => Breakpoints::default(),
    };
    object(|body| {
        body.text("model", &options.model);
        body.flag("stream", options.form == Form::Stream);
        if let Some(effort) = options.effort {
            body.object("thinking", |thinking| thinking.text("type", "adaptive"));
            body.object("output_config", |config| config.text("effort", effort.as_str()));
        }
        if let Some(temperature) = options.temperature {
            body.raw("temperature", &temperature.to_string());
        }
        if !tools.is_empty() {
            body.array("tools", |list| {
                for (index, tool) in tools.iter().enumerate() {
                    list.object(|item| {
                        item.text("name", &tool.name);
                        item.text("description", &tool.description);
                        item.value("input_schema", &tool.schema);
                        if let Some(lifetime) = plan.tools.filter(|_| index + 1 == tools.len()) {
                            breakpoint(item, lifetime);
                        }
                    });
                }
            });
        }
        if conversation.system.iter().any(|part| !part.text.is_empty()) {
            body.array("system", |list| system(list, conversation, &plan));
        }
        body.array("messages", |list| {
            for (index, turn) in turns.iter().enumerate() {
                write_turn(list, turn, plan.turns.contains(&index));
            }
        });
        body.number("max_tokens", options.max_output);
        let choice = match options.tools {
            ToolChoice::Auto => None,
            ToolChoice::Required => Some("any"),
            ToolChoice::None => Some("none"),
        };
        if let Some(choice) = choice.filter(|_| !tools.is_empty()) {
            body.object("tool_choice", |object| object.text("type", choice));
        }
    })
}

/// Where the provider is told to remember: after the tools, after marked parts of
/// the system prompt, and at the end. What is left of the four is spent on the
/// message before, which is where the last request ended: the provider looks back
/// only 20 blocks, and a turn may have more.
#[derive(Default)]
struct Breakpoints {
    /// After the last one, for so long.
    tools: Option<Lifetime>,
    parts: Vec<(usize, Lifetime)>,
    turns: Vec<usize>,
}

impl Breakpoints {
    fn plan(conversation: &Conversation, turns: &[Turn<'_>], lifetime: Lifetime) -> Self {
        let mut left = MOST_BREAKPOINTS - 1 - usize::from(!conversation.tools.is_empty());
        let marked = conversation.system.iter().enumerate().rev();
        let marked = marked.filter(|(_, part)| part.ends_prefix && !part.text.is_empty());
        let parts: Vec<_> = marked.map(|(index, _)| (index, lifetime)).take(left).collect();
        left -= parts.len();
        let users = turns.iter().enumerate().rev().filter(|(_, turn)| turn.role == Role::User);
        let turns = users.map(|(index, _)| index).take(1 + left.min(1)).collect();
        Self { tools: Some(lifetime), parts, turns }
    }
}

fn system(list: &mut Array<'_>, conversation: &Conversation, plan: &Breakpoints) {
    for (index, part) in conversation.system.iter().enumerate() {
        if part.text.is_empty() {
            continue;
        }
        list.object(|item| {
            item.text("type", "text");
            item.text("text", &part.text);
            if let Some(&(_, lifetime)) = plan.parts.iter().find(|(part, _)| *part == index) {
                breakpoint(item, lifetime);
            }
        });
    }
}

fn breakpoint(object: &mut Object<'_>, lifetime: Lifetime) {
    object.object("cache_control", |control| {
        control.text("type", "ephemeral");
        if lifetime == Lifetime::OneHour {
            control.text("ttl", "1h");
        }
    });
}

fn turns(conversation: &Conversation) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in &conversation.messages {
        let blocks = sendable(message, Dialect::AnthropicMessages);
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == message.role => last.blocks.extend(blocks),
            _ => turns.push(Turn { role: message.role, blocks }),
        }
    }
    turns
}

fn write_turn(list: &mut Array<'_>, turn: &Turn<'_>, is_breakpoint: bool) {
    list.object(|message| {
        message.text("role", if turn.role == Role::User { "user" } else { "assistant" });
        message.array("content", |content| {
            for (index, block) in turn.blocks.iter().enumerate() {
                let is_last = is_breakpoint && index + 1 == turn.blocks.len();
                write_block(content, block, is_last);
            }
        });
    });
}

fn write_block(content: &mut Array<'_>, block: &Block, is_breakpoint: bool) {
    if let Block::Opaque(opaque) = block {
        content.raw(&opaque.json);
        return;
    }
    content.object(|item| {
        match block {
            Block::Text { text } => {
                item.text("type", "text");
                item.text("text", text);
            }
            Block::ToolCall(call) => {
                item.text("type", "tool_use");
                item.text("id", &call.id);
                item.text("name", &call.name);
                match &call.input {
                    Input::Object(json) => item.raw("input", json),
                    // The API takes nothing but an object; this one shows what was said.
                    Input::Invalid { text, .. } => {
                        item.object("input", |input| input.text("invalid_json", text));
                    }
                }
            }
            Block::ToolResult(result) => {
                item.text("type", "tool_result");
                item.text("tool_use_id", &result.call);
                item.text("content", &result.text);
                if result.is_error {
                    item.flag("is_error", true);
                }
            }
            Block::Opaque(_) => {}
        }
        if is_breakpoint {
            breakpoint(item, Lifetime::FiveMinutes);
        }
    });
}
