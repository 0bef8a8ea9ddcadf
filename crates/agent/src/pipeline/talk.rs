//! The conversation with one agent: its rules, the messages that it works from, and answers of
//! its own that were refused.
//!
//! The Planner alone is told the request. The Coder is told the plan, the Debugger also the
//! program and the results.

use belljar_journal::event::{Body, Event, Injected};
use belljar_journal::{QUESTION_CALL, RunView};
use belljar_pipeline::{Category, PlanRequest, Role};
use belljar_provider::{Block, Conversation, Message, Part, Role as Speaker, Tool, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Pipeline;
use crate::answer::said;
use crate::prompt::{Facts, anchor};

/// The names of the parts of an agent's first message. Fixed rules read them, too.
pub(super) const REQUEST: &str = "request";
pub(super) const PLAN: &str = "plan";
pub(super) const ARTIFACT: &str = "artifact";
pub(super) const EXECUTION: &str = "execution";
/// After a failure for want of memory.
pub(super) const LIMITS: &str = "limits";
const EARLIER: &str = "earlier attempts";

/// Limits of the sandbox that a program ran in.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Limits {
    pub(super) memory_bytes: u64,
}

/// Composes the conversation with the agent whose message is missing; none: the run is no
/// pipeline.
pub(crate) fn conversation(events: &[Event], facts: &Facts) -> Option<Conversation> {
    let roles = facts.texts.roles()?;
    let (mut view, mut pipeline, mut talk) =
        (RunView::default(), Pipeline::default(), Talk::default());
    for event in events {
        pipeline.apply(event);
        view.apply(event);
        talk.hear(event);
    }
    let role = pipeline.role();
    let mut system = vec![Part::new(match role {
        Role::Planner => roles.planner,
        Role::Coder => roles.coder,
        Role::Debugger => roles.debugger,
    })];
    let network =
        if facts.network.is_connected() { facts.texts.network(&facts.network) } else { None };
    let network = network.unwrap_or_else(|| "The sandbox has no network.".to_owned());
    let parts = [network, facts.brief.clone(), facts.data.clone()];
    system.extend(parts.into_iter().filter(|part| !part.is_empty()).map(Part::new));
    if let Some(last) = system.last_mut() {
        last.ends_prefix = true;
    }
    let tool = Tool {
        name: role.tool().to_owned(),
        description: role.description().to_owned(),
        schema: role.schema(),
    };
    let inputs = inputs(role, &pipeline, &view);
    Some(Conversation { tools: vec![tool], system, messages: talk.messages(inputs) })
}

/// The messages that an agent works from.
fn inputs(role: Role, pipeline: &Pipeline, view: &RunView) -> Vec<Block> {
    let mut blocks = Vec::new();
    if role == Role::Planner {
        let Some(created) = &view.created else { return blocks };
        let question = created.question.trim().to_owned();
        let files = created.datasets.iter().map(|dataset| dataset.name.clone()).collect();
        let hints = pipeline.hints.clone();
        blocks.push(named(REQUEST, &PlanRequest { question, hints, files }));
        blocks.push(Block::text(anchor(created.now)));
    } else if let Some(plan) = &pipeline.plan {
        blocks.push(named(PLAN, plan));
    }
    if role == Role::Debugger
        && let [earlier @ .., last] = &pipeline.tried[..]
    {
        blocks.push(named(ARTIFACT, &last.artifact));
        blocks.push(named(EXECUTION, &last.result));
        let is_of_memory = last.result.category == Some(Category::Memory);
        if let Some(memory_bytes) = pipeline.memory_bytes.filter(|_| is_of_memory) {
            blocks.push(named(LIMITS, &Limits { memory_bytes }));
        }
        let earlier: Vec<_> = earlier
            .iter()
            .map(|tried| {
                json!({
                    "attempt": tried.number,
                    "category": tried.result.category,
                    "error": tried.result.error,
                    "cause": tried.cause,
                })
            })
            .collect();
        if !earlier.is_empty() {
            blocks.push(named(EARLIER, &earlier));
        }
    }
    blocks
}

fn named(name: &str, value: &impl Serialize) -> Block {
    // None of these types can fail to be JSON.
    Block::text(format!("{name}\n{}", serde_json::to_string_pretty(value).unwrap_or_default()))
}

/// The messages since the agent's turn began.
#[derive(Default)]
struct Talk {
    messages: Vec<Message>,
    /// Not yet sent.
    blocks: Vec<Block>,
}

impl Talk {
    fn hear(&mut self, event: &Event) {
        match &event.body {
            // Another agent's turn begins.
            Body::StageMessage(_) => *self = Self::default(),
            Body::ToolFinished(finished) if finished.call.id == QUESTION_CALL => {
                *self = Self::default();
            }
            Body::LlmResponded(answer) => {
                self.send();
                let blocks: Vec<Block> = answer.blocks.iter().filter_map(said).collect();
                let is_said = |block: &Block| !matches!(block, Block::Text { text } if text.trim().is_empty());
                let mut blocks: Vec<Block> = blocks.into_iter().filter(is_said).collect();
                if blocks.is_empty() {
                    blocks.push(Block::text("(nothing)"));
                }
                self.messages.push(Message { role: Speaker::Assistant, blocks });
            }
            Body::ToolFinished(finished) if self.has_called(&finished.call.id) => {
                self.blocks.push(Block::ToolResult(ToolResult {
                    call: finished.call.id.clone(),
                    text: finished.shown.clone(),
                    is_error: finished.fault.is_some(),
                }));
            }
            Body::InjectedMessage(message)
                if matches!(message.kind, Injected::Repair | Injected::Operator) =>
            {
                self.blocks.push(Block::text(message.text.clone()));
            }
            _ => {}
        }
    }

    /// Ends the user's message. The first one is what the agent works from.
    fn send(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        if !blocks.is_empty() || self.messages.is_empty() {
            self.messages.push(Message { role: Speaker::User, blocks });
        }
    }

    fn has_called(&self, id: &str) -> bool {
        self.messages.iter().flat_map(Message::calls).any(|call| call.id == id)
    }

    fn messages(mut self, inputs: Vec<Block>) -> Vec<Message> {
        self.send();
        if let Some(first) = self.messages.first_mut() {
            first.blocks.splice(0..0, inputs);
        }
        self.messages
    }
}
