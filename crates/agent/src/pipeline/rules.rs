//! The agents of a pipeline without a model: fixed rules that answer like one.
//!
//! They read their message from the conversation and hand theirs in with the role's tool, so the
//! run is the same run, with the same events.

use belljar_llm::Usage;
use belljar_pipeline::{
    CodeArtifact, ExecutionResult, Failure, Plan, PlanRequest, Role, code, diagnose, plan,
};
use belljar_provider::{
    Answer, AnswerError, Answering, AppliedParameters, Block, Conversation, Delta, Heuristic,
    Input, OnDelta, Options, Provider, Role as Speaker, Stop, ToolCall,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::talk::{ARTIFACT, EXECUTION, LIMITS, Limits, PLAN, REQUEST};

/// Rules instead of a model, for every kind of agent. They need no key and cost nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl Provider for Rules {
    fn name(&self) -> &'static str {
        Heuristic.name()
    }

    fn answer<'a>(
        &'a self,
        conversation: &'a Conversation,
        options: &'a Options,
        on_delta: &'a mut OnDelta<'_>,
    ) -> Answering<'a> {
        let [tool] = &conversation.tools[..] else {
            return Heuristic.answer(conversation, options, on_delta);
        };
        let Some(role) = Role::of_tool(&tool.name) else {
            return Heuristic.answer(conversation, options, on_delta);
        };
        let answer = answer(conversation, role);
        if let Ok(answer) = &answer {
            on_delta(Delta::Text(&answer.text()));
        }
        Box::pin(std::future::ready(answer))
    }
}

fn answer(conversation: &Conversation, role: Role) -> Result<Answer, AnswerError> {
    conversation.check()?;
    let handed_in = match role {
        Role::Planner => {
            part::<PlanRequest>(conversation, REQUEST).and_then(|it| plan(&it)).map(|it| input(&it))
        }
        Role::Coder => {
            part::<Plan>(conversation, PLAN).and_then(|it| code(&it)).map(|it| input(&it))
        }
        Role::Debugger => debugged(conversation),
    };
    let (blocks, stop) = match handed_in {
        Ok(input) => {
            let id = format!("rules_{}_{}", role.as_str(), conversation.messages.len());
            let call = ToolCall { id, name: role.tool().to_owned(), input };
            (vec![Block::ToolCall(call)], Stop::ToolCalls)
        }
        Err(why) => (vec![Block::text(why)], Stop::NoAnswer),
    };
    Ok(Answer {
        blocks,
        stop,
        usage: Some(Usage::default()),
        model: Some(Heuristic.name().to_owned()),
        id: None,
        retries: Vec::new(),
        applied: AppliedParameters::default(),
    })
}

fn debugged(conversation: &Conversation) -> Result<Input, String> {
    let plan: Plan = part(conversation, PLAN)?;
    let artifact: CodeArtifact = part(conversation, ARTIFACT)?;
    let result: ExecutionResult = part(conversation, EXECUTION)?;
    let limits: Option<Limits> = part(conversation, LIMITS).ok();
    let memory_bytes = limits.map(|limits| limits.memory_bytes);
    let failure = Failure { plan: &plan, artifact: &artifact, result: &result, memory_bytes };
    diagnose(&failure).map(|diagnosis| input(&diagnosis))
}

fn input(message: &impl Serialize) -> Input {
    Input::of(message)
}

/// A part of the message that the agent works from.
fn part<T: DeserializeOwned>(conversation: &Conversation, name: &str) -> Result<T, String> {
    let missing = || format!("There is no {name} to work from.");
    let first = conversation.messages.iter().find(|message| message.role == Speaker::User);
    let blocks = first.map(|message| &message.blocks[..]).unwrap_or_default();
    let text = blocks.iter().find_map(|block| match block {
        Block::Text { text } => text.strip_prefix(name)?.strip_prefix('\n'),
        _ => None,
    });
    serde_json::from_str(text.ok_or_else(missing)?).map_err(|_| missing())
}
