//! What every provider asks of a conversation, found out before it is paid for.

use std::collections::BTreeSet;

use super::{Block, Conversation, Message, Role};

/// Why no provider would take a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConversation {
    #[error("the conversation does not begin with a message of the user")]
    Beginning,
    #[error("the conversation ends with the model's own words")]
    End,
    #[error("the tool call `{0}` is not answered in the message after it")]
    Unanswered(String),
    #[error("the tool result for `{0}` answers no call of the message before it")]
    Uncalled(String),
    #[error("the id `{0}` is of two tool calls")]
    Twice(String),
    #[error("message {0} holds what its role cannot say")]
    Role(usize),
    #[error("the tool `{0}` is offered twice")]
    Tool(String),
}

impl Conversation {
    /// Finds what is wrong, or nothing.
    pub fn check(&self) -> Result<(), InvalidConversation> {
        let mut names = BTreeSet::new();
        if let Some(tool) = self.tools.iter().find(|tool| !names.insert(&tool.name)) {
            return Err(InvalidConversation::Tool(tool.name.clone()));
        }
        if self.messages.first().is_none_or(|first| first.role != Role::User) {
            return Err(InvalidConversation::Beginning);
        }
        if self.messages.last().is_none_or(|last| last.role != Role::User) {
            return Err(InvalidConversation::End);
        }
        let mut ids = BTreeSet::new();
        let mut due = BTreeSet::new();
        for (index, message) in self.messages.iter().enumerate() {
            if !message.blocks.iter().all(|block| is_of(block, message.role)) {
                return Err(InvalidConversation::Role(index));
            }
            answered(message, &mut due)?;
            for call in message.calls() {
                if !ids.insert(&call.id) {
                    return Err(InvalidConversation::Twice(call.id.clone()));
                }
                due.insert(&call.id);
            }
        }
        Ok(())
    }
}

fn is_of(block: &Block, role: Role) -> bool {
    match block {
        Block::Text { .. } => true,
        Block::ToolResult(_) => role == Role::User,
        Block::ToolCall(_) | Block::Opaque(_) => role == Role::Assistant,
    }
}

/// Takes what a message answers from what is due; nothing may be left.
fn answered<'c>(
    message: &'c Message,
    due: &mut BTreeSet<&'c String>,
) -> Result<(), InvalidConversation> {
    for result in message.tool_results() {
        if !due.remove(&result.call) {
            return Err(InvalidConversation::Uncalled(result.call.clone()));
        }
    }
    match due.first() {
        Some(id) => Err(InvalidConversation::Unanswered((*id).clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Input, Tool, ToolCall};
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: "look".to_owned(), input: Input::read("") }
    }

    fn calling(ids: &[&str]) -> Message {
        let blocks = ids.iter().map(|id| Block::ToolCall(call(id))).collect();
        Message { role: Role::Assistant, blocks }
    }

    fn results(ids: &[&str]) -> Message {
        Message::results(ids.iter().map(|id| call(id).answered("seen")))
    }

    fn check(messages: Vec<Message>) -> Result<(), InvalidConversation> {
        Conversation { messages, ..Conversation::default() }.check()
    }

    #[test]
    fn calls_and_results_belong_together() {
        let begin = || Message::user("Look.");
        assert_eq!(check(vec![begin(), calling(&["a", "b"]), results(&["b", "a"])]), Ok(()));
        for (messages, want) in [
            (vec![begin(), calling(&["a", "b"]), results(&["a"])], "b` is not answered"),
            (vec![begin(), calling(&["a"]), begin()], "a` is not answered"),
            (vec![begin(), calling(&["a"]), results(&["a", "a"])], "a` answers no call"),
            (vec![begin(), results(&["c"])], "c` answers no call"),
            (
                vec![begin(), calling(&["a"]), results(&["a"]), calling(&["a"]), results(&["a"])],
                "a` is of two",
            ),
            (vec![], "does not begin"),
            (vec![calling(&["a"])], "does not begin"),
            (vec![begin(), calling(&["a"])], "ends with the model's own"),
        ] {
            let found = check(messages).unwrap_err().to_string();
            assert!(found.contains(want), "{found}");
        }
        let mut odd = begin();
        odd.blocks.push(Block::ToolCall(call("a")));
        assert_eq!(check(vec![odd]), Err(InvalidConversation::Role(0)));
    }

    #[test]
    fn tools_have_one_name_each() {
        let schema = serde_json::json!({ "type": "object" });
        let tool = Tool { name: "look".to_owned(), description: String::new(), schema };
        let tools = vec![tool.clone(), tool];
        let conversation =
            Conversation { tools, messages: vec![Message::user("Hi")], ..Default::default() };
        assert_eq!(conversation.check(), Err(InvalidConversation::Tool("look".to_owned())));
    }
}
