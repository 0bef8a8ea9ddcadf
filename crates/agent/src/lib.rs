#![doc = include_str!("../README.md")]

mod again;
mod answer;
mod brief;
mod budget;
mod compose;
mod data;
mod decide;
#[cfg(test)]
mod invented;
mod money;
mod network;
mod output;
mod pipeline;
pub mod program;
mod prompt;
mod recording;
mod report;
mod retry;
mod room;
mod shorten;
mod signal;
mod skill;
mod story;
mod tally;
mod tools;
mod trace;
mod turn;
mod words;
mod worker;

pub use belljar_api::turn::Turn;

pub use again::{AgainError, More, again, next_attempt, try_again};
pub use budget::Clause;
pub use compose::compose;
pub use data::{
    DataError, Depot, Format, Item, MANIFEST, Plan, PlanError, Room, Strategy, shelve_bytes,
    shelve_files,
};
pub use decide::{Closing, Step, decide};
pub use money::Prices;
pub use pipeline::{Attempt, Pipeline, Rules, Tried};
pub use prompt::{Facts, PROMPT, Texts};
pub use recording::{Recording, RecordingError};
pub use report::{ReportError, report};
pub use retry::{Larger, NoRetry, retry};
pub use shorten::{MOST_SHOWN, Shortened, shorten};
pub use signal::{GuardKind, Observer, RunStart, Signal, Signals, StepAttempt};
pub use skill::{MAX_ARCHIVE_BYTES, MAX_SKILLS, SKILLS, SkillError, SkillFolder};
pub use story::Story;
pub use tally::{Figures, Spread, Tally};
pub use trace::{RunSpan, RunTrace, SpanIds, SpanKind};
pub use turn::{TurnError, turn};
pub use words::{WordListener, Words};
pub use worker::{Left, ProgramOutcome, ProgramRecorder, RecordError, Settings, WorkError, Worker};
