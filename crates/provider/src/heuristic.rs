//! Answers without a model: fixed rules that match words of the question to columns
//! of the data, and say so.
//!
//! ```text
//!   look ──► aggregate ──► write result.md ──► finish
//!     │          └── it failed ──────────┐
//!     └── nothing to read, or not understood ──► say why, without an answer
//! ```
//!
//! It plays by the same protocol as a model does. What it has done so far stands in
//! the conversation, in the first line of the code that it wrote; it keeps nothing
//! itself, so it goes on after a crash like any other provider.

mod code;
mod compare;
mod cover;
mod lexer;
mod measure;
mod names;
mod plan;
mod question;
mod report;
mod shape;
mod time;
mod words;

use belljar_llm::Usage;
use serde_json::{Map, Value};

use crate::answer::{Answer, Stop};
use crate::conversation::{Block, Conversation, Input, Message, Role, Tool, ToolCall, ToolResult};
use crate::parameters::AppliedParameters;
use crate::provider::{AnswerError, Answering, Delta, OnDelta, Options, Provider, ToolChoice};
use plan::Plan;
use question::Question;
use shape::Shape;

/// Rules instead of a model. Needs no key, costs nothing, and is modest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heuristic;

/// With these words a loop says that what was done in a sandbox is gone.
const LOST: &str = "The sandbox was lost";
/// How often a step is done again in another sandbox.
const MOST_TRIES: usize = 3;

/// What was done last, read from the conversation.
#[derive(Clone, Copy)]
enum Stage<'c> {
    Nothing,
    Looked(&'c ToolResult),
    Aggregated { looked: &'c ToolResult, result: &'c ToolResult },
    Written { looked: &'c ToolResult, result: &'c ToolResult },
}

/// What is said now.
enum Said {
    /// More is to come, or it is the answer.
    Talk(Vec<Block>),
    /// There is no answer, and why.
    NoAnswer(String),
}

impl Provider for Heuristic {
    fn name(&self) -> &'static str {
        "heuristic"
    }

    fn answer<'a>(
        &'a self,
        conversation: &'a Conversation,
        options: &'a Options,
        on_delta: &'a mut OnDelta<'_>,
    ) -> Answering<'a> {
        let answer = answer(conversation, options.tools);
        if let Ok(answer) = &answer {
            on_delta(Delta::Text(&answer.text()));
        }
        Box::pin(std::future::ready(answer))
    }
}

fn answer(conversation: &Conversation, tools: ToolChoice) -> Result<Answer, AnswerError> {
    conversation.check()?;
    let hand = Hand { conversation, may_call: tools != ToolChoice::None };
    let question = Question::read(conversation);
    let said = match stage(conversation) {
        Stage::Nothing => Said::Talk(hand.look(&question)),
        Stage::Looked(looked) => hand.compute(&question, looked),
        Stage::Aggregated { looked, result } => hand.tell(&question, looked, result, |answer| {
            hand.write(&report::result(&question, answer))
        }),
        Stage::Written { looked, result } => {
            hand.tell(&question, looked, result, |answer| hand.finish(answer))
        }
    };
    let (blocks, stop) = match said {
        Said::Talk(blocks) => {
            let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
            (blocks, if calls { Stop::ToolCalls } else { Stop::End })
        }
        Said::NoAnswer(why) => (vec![Block::text(why)], Stop::NoAnswer),
    };
    Ok(Answer {
        blocks,
        stop,
        usage: Some(Usage::default()),
        model: Some("heuristic".to_owned()),
        id: None,
        retries: Vec::new(),
        applied: AppliedParameters::default(),
    })
}

/// Goes through what was done. A step that failed is forgotten when its sandbox was
/// lost, or replaced since: the next one may be larger.
fn stage(conversation: &Conversation) -> Stage<'_> {
    let calls: Vec<&ToolCall> = conversation.messages.iter().flat_map(Message::calls).collect();
    let mut stage = Stage::Nothing;
    let mut tries = 0;
    let blocks = conversation.messages.iter().filter(|message| message.role == Role::User);
    for block in blocks.flat_map(|message| &message.blocks) {
        let is_lost = match block {
            Block::ToolResult(result) => {
                let call = calls.iter().find(|call| call.id == result.call);
                stage = call.map_or(stage, |call| stage.after(call, result));
                result.text.contains(LOST)
            }
            Block::Text { text } => text.contains(LOST),
            Block::ToolCall(_) | Block::Opaque(_) => false,
        };
        if is_lost && tries < MOST_TRIES {
            let before = stage.before();
            tries += usize::from(before.is_some());
            stage = before.unwrap_or(stage);
        }
    }
    stage
}

impl<'c> Stage<'c> {
    fn after(self, call: &ToolCall, result: &'c ToolResult) -> Self {
        match (code::step(call), self) {
            (Some(code::LOOK), _) => Self::Looked(result),
            (Some(code::AGGREGATE), Self::Looked(looked)) => Self::Aggregated { looked, result },
            (Some(code::WRITE), Self::Aggregated { looked, result }) => {
                Self::Written { looked, result }
            }
            (_, Self::Aggregated { looked, result }) if call.name == "write_file" => {
                Self::Written { looked, result }
            }
            _ => self,
        }
    }

    /// What was done before the last step, if that failed.
    fn before(self) -> Option<Self> {
        match self {
            Self::Looked(looked) if looked.is_error => Some(Self::Nothing),
            Self::Aggregated { looked, result } if result.is_error => Some(Self::Looked(looked)),
            _ => None,
        }
    }
}

/// Does things with the tools that are on offer.
struct Hand<'c> {
    conversation: &'c Conversation,
    may_call: bool,
}

impl Hand<'_> {
    fn look(&self, question: &Question) -> Vec<Block> {
        let said = "I work by fixed rules, without a language model. First I look at the shapes of \
                    the data.";
        self.python(said, &code::look(question))
    }

    /// Computes what the question means, if that can be told.
    fn compute(&self, question: &Question, looked: &ToolResult) -> Said {
        let shapes = Shape::read(&looked.text);
        if shapes.is_empty() {
            return Said::NoAnswer(report::without_data(&looked.text));
        }
        match Plan::make(question, &shapes) {
            Ok(plan) => {
                let said = format!("I will compute {}.", plan.describe());
                Said::Talk(self.python(&said, &code::aggregate(question, &plan)))
            }
            Err(puzzle) => {
                Said::NoAnswer(report::puzzled(&puzzle, question, &shapes, &looked.text))
            }
        }
    }

    /// Hands on what was computed, if it was.
    fn tell(
        &self,
        question: &Question,
        looked: &ToolResult,
        result: &ToolResult,
        on: impl Fn(&str) -> Vec<Block>,
    ) -> Said {
        // What was planned is what would be planned again.
        let Ok(plan) = Plan::make(question, &Shape::read(&looked.text)) else {
            return self.compute(question, looked);
        };
        match report::answer(&plan, &looked.text, &result.text) {
            Some(answer) => Said::Talk(on(&answer)),
            None => Said::NoAnswer(report::failed(&plan, &result.text)),
        }
    }

    fn write(&self, text: &str) -> Vec<Block> {
        let said = "I write down what was found.";
        match self.tool("write_file") {
            Some(tool) => {
                let path = argument(tool, &["path", "file", "filename", "name"]);
                let content = argument(tool, &["content", "contents", "text", "data"]);
                self.call(said, tool, &[(path, "result.md"), (content, text)])
            }
            None if self.tool("execute_python").is_some() => self.python(said, &code::write(text)),
            None => vec![Block::text(text)],
        }
    }

    fn finish(&self, answer: &str) -> Vec<Block> {
        match self.tool("finish") {
            Some(tool) => {
                let name = argument(tool, &["answer", "summary", "result", "text", "message"]);
                self.call("This is what was found.", tool, &[(name, answer)])
            }
            None => vec![Block::text(answer)],
        }
    }

    fn python(&self, said: &str, code: &str) -> Vec<Block> {
        match self.tool("execute_python") {
            Some(tool) => {
                let argument = argument(tool, &["code", "source", "script"]);
                self.call(said, tool, &[(argument, code)])
            }
            None => vec![Block::text(
                "I work by fixed rules, without a language model, and without execute_python I \
                 cannot compute anything.",
            )],
        }
    }

    fn tool(&self, name: &str) -> Option<&Tool> {
        let mut offered = self.conversation.tools.iter();
        offered.find(|tool| self.may_call && tool.name == name)
    }

    fn call(&self, said: &str, tool: &Tool, arguments: &[(&str, &str)]) -> Vec<Block> {
        let pairs = arguments.iter().filter(|(name, _)| !name.is_empty());
        let input: Map<String, Value> =
            pairs.map(|(name, text)| ((*name).to_owned(), (*text).into())).collect();
        let id = format!("heuristic_{}", self.conversation.messages.len());
        let call = ToolCall { id, name: tool.name.clone(), input: Input::of(&input) };
        vec![Block::text(said), Block::ToolCall(call)]
    }
}

/// How a tool calls an argument: by one of the usual names, or by its first required
/// one; an empty name if it takes none.
fn argument<'t>(tool: &'t Tool, names: &[&'t str]) -> &'t str {
    let properties = &tool.schema["properties"];
    let usual = names.iter().find(|name| properties.get(name).is_some());
    let required = || tool.schema["required"].as_array()?.first()?.as_str();
    usual.copied().or_else(required).unwrap_or_default()
}

#[cfg(test)]
mod tests;
