//! What a model answered.

use std::collections::BTreeSet;
use std::time::Duration;

use belljar_llm::Usage;

use crate::conversation::{Block, Conversation, Message, Role, ToolCall};
use crate::parameters::AppliedParameters;

/// One answer, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub blocks: Vec<Block>,
    pub stop: Stop,
    /// Each token counted once; `llm::price` knows what they cost. None if the
    /// provider did not say.
    pub usage: Option<Usage>,
    /// As the provider calls it.
    pub model: Option<String>,
    /// The provider's name for this answer.
    pub id: Option<String>,
    /// What was tried before, and may have cost something too.
    pub retries: Vec<Retry>,
    /// The parameters that were in force, as far as they are known.
    pub applied: AppliedParameters,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It is done.
    End,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It was cut off: a last call may be half.
    MaxOutput,
    /// It will not say this.
    Refusal,
    /// It has no answer; what it says is why.
    NoAnswer,
    /// The conversation has become too long for the model.
    ContextFull,
    /// A reason that is not known here, in the provider's words.
    Other(String),
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub failure: String,
    /// How long was waited after it.
    pub wait: Duration,
    /// What the provider had counted when it failed.
    pub usage: Option<Usage>,
}

impl Answer {
    /// What goes into the conversation.
    pub fn message(&self) -> Message {
        Message { role: Role::Assistant, blocks: self.blocks.clone() }
    }

    pub fn text(&self) -> String {
        self.message().text()
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Gives calls ids and names that every provider takes, and ids that none before
    /// had. Servers on laptops number them anew in each answer.
    pub(crate) fn settle(&mut self, conversation: &Conversation) {
        let mut taken: BTreeSet<String> = conversation
            .messages
            .iter()
            .flat_map(Message::calls)
            .map(|call| call.id.clone())
            .collect();
        let at = conversation.messages.len();
        for (index, block) in self.blocks.iter_mut().enumerate() {
            let Block::ToolCall(call) = block else { continue };
            if !is_word(&call.name) {
                call.name = word(&call.name);
            }
            if !is_word(&call.id) || taken.contains(&call.id) {
                call.id = format!("call_{at}_{index}");
            }
            taken.insert(call.id.clone());
        }
    }
}

fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The nearest text that can be a tool's name.
fn word(text: &str) -> String {
    let letters = text.bytes().take(64);
    let word: String =
        letters.map(|byte| if is_letter(byte) { char::from(byte) } else { '_' }).collect();
    if word.is_empty() { "unnamed".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Input;

    fn call(id: &str, name: &str) -> Block {
        Block::ToolCall(ToolCall { id: id.into(), name: name.into(), input: Input::read("") })
    }

    #[test]
    fn ids_and_names_are_such_that_every_provider_takes_them() {
        let blocks = vec![call("call_0", "look")];
        let conversation = Conversation {
            messages: vec![Message::user("Hi"), Message { role: Role::Assistant, blocks }],
            ..Conversation::default()
        };
        let mut answer = Answer {
            blocks: vec![
                call("call_0", "functions.look:0"),
                call("call_1", "look"),
                call("call_1", "look"),
                call("", ""),
            ],
            stop: Stop::ToolCalls,
            usage: None,
            model: None,
            id: None,
            retries: vec![],
            applied: AppliedParameters::default(),
        };
        answer.settle(&conversation);
        let settled: Vec<_> =
            answer.calls().map(|call| (call.id.as_str(), call.name.as_str())).collect();
        assert_eq!(
            settled,
            [
                ("call_2_0", "functions_look_0"),
                ("call_1", "look"),
                ("call_2_2", "look"),
                ("call_2_3", "unnamed")
            ]
        );
    }
}
