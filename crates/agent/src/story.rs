//! What the loop needs to know of a run, beside what a [`RunView`] tells.

use belljar_domain::EndReason;
use belljar_journal::event::{Block, Body, Event, Injected, Limit, LlmTrouble};
use belljar_journal::{CallState, RunView};
use time::OffsetDateTime;

use crate::output::NO_INTERPRETER;
use crate::pipeline::Pipeline;
use crate::program::ProgramRun;
use crate::tools::{self, FINISH, PYTHON};

/// A run's events, folded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Story {
    pub view: RunView,
    /// When it was created.
    pub began: Option<OffsetDateTime>,
    /// What the model said last that was not empty.
    pub said: Option<String>,
    /// What the last answer says, and why it ends.
    pub words: String,
    pub stop: String,
    /// Whether the last request offered no tools, and whether it was answered.
    pub is_last: bool,
    pub is_last_answered: bool,
    /// Why the last request came to nothing, if asking again is no use.
    pub trouble: Option<(LlmTrouble, String)>,
    /// What `finish` was called with, once that has been done.
    pub answer: Option<String>,
    /// Whether what is left of the money is kept for a last answer.
    pub is_short: bool,
    /// What the dearest answer cost, in billionths of a dollar.
    pub dearest: u64,
    /// How often the model was told to go on.
    pub repairs: u32,
    /// Whether the run's sandbox is known to be gone.
    pub is_sandbox_lost: bool,
    /// What the last sandbox was made of.
    pub template: String,
    /// Why nothing could be started to run Python in, of all calls since one was run.
    pub unstarted: Vec<String>,
    /// None: one model calls tools.
    pub pipeline: Option<Pipeline>,
    /// None: no published program does the work.
    pub program: Option<ProgramRun>,
}

impl Story {
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut story = Self::default();
        events.into_iter().for_each(|event| story.apply(event));
        story
    }

    pub fn apply(&mut self, event: &Event) {
        match &event.body {
            Body::RunCreated(created) => {
                self.began = Some(event.at);
                self.pipeline = created.agent().is_pipeline().then(Pipeline::default);
                self.program = ProgramRun::begin(created);
            }
            Body::ForkedFrom(_) => self.begin_anew(event.at),
            Body::LlmRequested(asked) => self.is_last = asked.last,
            Body::LimitHit(hit) if hit.limit == Limit::Money => self.is_short = true,
            Body::BudgetChanged(_) => self.is_short = false,
            Body::LlmResponded(answer) => {
                self.trouble = None;
                self.dearest = self.dearest.max(answer.nano_dollars);
                self.is_last_answered = self.is_last;
                self.words = words(&answer.blocks);
                self.stop.clone_from(&answer.stop);
                if !self.words.is_empty() {
                    self.said = Some(self.words.clone());
                }
            }
            Body::LlmFailed(failed) if failed.trouble != LlmTrouble::Lost => {
                self.trouble = Some((failed.trouble, failed.message.clone()));
            }
            Body::SandboxAttached(attached) => {
                self.is_sandbox_lost = false;
                self.template.clone_from(&attached.template);
            }
            Body::ToolFinished(finished) => {
                self.is_sandbox_lost |= finished.reason == EndReason::Lost;
                let call = self.view.calls.iter().find(|call| call.call == finished.call);
                match call.map(|call| (call.name.as_str(), &call.input)) {
                    Some((FINISH, input)) if finished.fault.is_none() => {
                        self.answer = tools::answer(input);
                    }
                    Some((PYTHON, _)) => match &finished.fault {
                        Some(fault) if fault.category == NO_INTERPRETER => {
                            self.unstarted.push(fault.message.clone());
                        }
                        _ => self.unstarted.clear(),
                    },
                    _ => {}
                }
            }
            Body::InjectedMessage(message) if message.kind == Injected::Repair => self.repairs += 1,
            _ => {}
        }
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.apply(event);
        }
        if let Some(program) = &mut self.program {
            program.apply(&self.view, event);
        }
        self.view.apply(event);
    }

    /// What was said stays said; how it ended was the parent's end.
    fn begin_anew(&mut self, at: OffsetDateTime) {
        self.began = Some(at);
        self.is_last = false;
        self.is_last_answered = false;
        self.trouble = None;
        self.is_short = false;
        self.answer = None;
        self.repairs = 0;
        self.is_sandbox_lost = false;
        self.unstarted.clear();
    }

    /// Whether every call of the last answer has its result.
    pub fn is_between_turns(&self) -> bool {
        self.view.calls.iter().all(|call| call.state == CallState::Finished)
    }
}

fn words(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<String>().trim().to_owned()
}
