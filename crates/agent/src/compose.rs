//! The conversation that a run's events tell.
//!
//! It only ever grows at its end, so what was sent before is a prefix of what is sent
//! next, byte for byte: providers keep it, and charge less. What came to the
//! run's attention while the model was asked is said in the message after.

use belljar_journal::RunView;
use belljar_journal::event::{Body, Event, RunCreated};
use belljar_provider::{Block, Conversation, Message, Part, Role, ToolResult};
use time::OffsetDateTime;

use crate::answer::said;
use crate::budget::status;
use crate::pipeline;
use crate::prompt::{Facts, Texts};
use crate::tools;

/// What is said to the model after these events.
pub fn compose(events: &[Event], facts: &Facts) -> Conversation {
    composed(events, facts, Talk::default())
}

/// The same without the state of the budget, which depends on how fast everything was.
pub(crate) fn compose_without_status(events: &[Event], facts: &Facts) -> Conversation {
    composed(events, facts, Talk { is_without_status: true, ..Talk::default() })
}

fn composed(events: &[Event], facts: &Facts, mut talk: Talk) -> Conversation {
    if let Some(conversation) = pipeline::conversation(events, facts) {
        return conversation;
    }
    let created = events.iter().find_map(|event| match &event.body {
        Body::RunCreated(created) => Some(created),
        _ => None,
    });
    for event in events {
        talk.hear(event, &facts.texts);
    }
    talk.flush();
    Conversation {
        tools: tools::offered_to(created),
        system: system(facts),
        messages: talk.messages,
    }
}

/// The system prompt: what most runs share comes first. At most two parts end a prefix, since
/// providers take few marks; caches are looked up at earlier parts, too.
fn system(facts: &Facts) -> Vec<Part> {
    let (has_brief, has_data) = (!facts.brief.is_empty(), !facts.data.is_empty());
    let mut system = vec![Part { text: facts.texts.system().to_owned(), ends_prefix: !has_brief }];
    if let Some(network) = facts.texts.network(&facts.network) {
        system.push(Part { text: network, ends_prefix: !has_brief && !has_data });
    }
    if has_brief {
        system.push(Part::ending_prefix(facts.brief.clone()));
    }
    if has_data {
        system.push(Part::ending_prefix(facts.data.clone()));
    }
    system
}

#[derive(Default)]
struct Talk {
    messages: Vec<Message>,
    view: RunView,
    began: Option<OffsetDateTime>,
    last: Option<OffsetDateTime>,
    results: Vec<ToolResult>,
    texts: Vec<String>,
    /// What had been heard when the model was last asked.
    sent: Option<Message>,
    is_without_status: bool,
}

impl Talk {
    fn hear(&mut self, event: &Event, texts: &Texts) {
        match &event.body {
            Body::RunCreated(created) => self.begin(created, event.at, texts),
            Body::ForkedFrom(forked) => {
                self.began = Some(event.at);
                self.texts.extend(forked.budget.as_ref().map(Texts::budget));
            }
            Body::LlmRequested(_) => {
                // Of one that was lost, the message goes out again, with what came since.
                let earlier = self.sent.take();
                self.sent = merged(earlier, self.pending());
            }
            Body::LlmResponded(answer) => {
                self.messages.extend(self.sent.take());
                let blocks = answer.blocks.iter().filter_map(said);
                // Providers do not take back a text without a letter in it.
                let is_said = |block: &Block| !matches!(block, Block::Text { text } if text.trim().is_empty());
                let mut blocks: Vec<Block> = blocks.filter(is_said).collect();
                if blocks.is_empty() {
                    blocks.push(Block::text("(nothing)"));
                }
                self.messages.push(Message { role: Role::Assistant, blocks });
            }
            Body::ToolFinished(finished) => self.results.push(ToolResult {
                call: finished.call.id.clone(),
                text: finished.shown.clone(),
                is_error: finished.fault.is_some(),
            }),
            Body::InjectedMessage(message) => self.texts.push(message.text.clone()),
            Body::BudgetChanged(changed) => self.texts.push(Texts::budget(&changed.budget)),
            _ => {}
        }
        self.last = Some(event.at);
        self.view.apply(event);
    }

    fn begin(&mut self, created: &RunCreated, at: OffsetDateTime, texts: &Texts) {
        self.began = Some(at);
        self.texts.push(texts.first(created));
    }

    /// A message of what was heard since the last; results come first.
    fn pending(&mut self) -> Option<Message> {
        let is_silent = self.results.is_empty() || self.is_without_status;
        let status = match (is_silent, self.began, self.last) {
            (false, Some(began), Some(last)) => status(&self.view, began, last),
            _ => None,
        };
        let results = std::mem::take(&mut self.results).into_iter().map(Block::ToolResult);
        let texts = status.into_iter().chain(std::mem::take(&mut self.texts));
        let blocks: Vec<Block> = results.chain(texts.map(Block::text)).collect();
        (!blocks.is_empty()).then_some(Message { role: Role::User, blocks })
    }

    fn flush(&mut self) {
        let sent = self.sent.take();
        let pending = self.pending();
        self.messages.extend(merged(sent, pending));
    }
}

fn merged(earlier: Option<Message>, later: Option<Message>) -> Option<Message> {
    match (earlier, later) {
        (Some(mut earlier), Some(later)) => {
            earlier.blocks.extend(later.blocks);
            Some(earlier)
        }
        (earlier, later) => earlier.or(later),
    }
}

#[cfg(test)]
mod tests;
