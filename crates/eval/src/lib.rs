//! Evaluations of runs, without their input and output: tasks, scores, statistics, reports.
//!
//! ```text
//!   Suite (tasks.toml) ─► the runs of a grid ─► Trial: a score and figures
//!                                                 │
//!               Report: groups, tasks, comparisons ◄┘ ─► JSON, HTML
//! ```
//!
//! The command `belljar eval` asks the questions. Everything here is a function of its input, so
//! equal trials give equal reports, byte for byte.

mod answer;
mod dabench;
mod html;
mod report;
mod stats;
mod suite;
mod trial;
mod verdict;

pub use answer::{Score, score};
pub use dabench::{ImportError, import};
pub use html::page;
pub use report::{Comparison, Group, Report, ReportHead, TaskLine};
pub use stats::{Interval, PairedDifference, Repeats, mean, paired, spread, wilson};
pub use suite::{
    Checker, Expectation, GuardSettings, Judge, NumberRule, RunSettings, Suite, SuiteError, Task,
};
pub use trial::{Trial, TrialFigures, TrialKey};
pub use verdict::{VerdictError, verdict};
