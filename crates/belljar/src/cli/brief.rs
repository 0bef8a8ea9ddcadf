//! Options of `belljar ask` about its model: parameters, instructions, skills and recordings.

use std::path::PathBuf;
use std::str::FromStr;

use belljar_domain::approval::{APPROVAL_SECONDS, ApprovalPolicy, MAX_APPROVAL_SECONDS};
use belljar_domain::{Effort, Instructions, RecordingName, Temperature};
use belljar_journal::event::Guards;
use clap::{Args, ValueEnum};

/// The brief of the run's model. A resumed run keeps its own.
#[derive(Debug, Args)]
pub(crate) struct BriefOptions {
    /// Sampling temperature, from 0 to 2 [default: the provider's]
    #[arg(long, value_name = "NUMBER", help_heading = "Model")]
    pub(crate) temperature: Option<Temperature>,
    /// Reasoning effort: low, medium or high [default: the provider's]
    #[arg(long, value_name = "EFFORT", help_heading = "Model")]
    pub(crate) effort: Option<Effort>,
    /// Text to add to the model's prompt, or @FILE to read it from a file
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "Model")]
    pub(crate) instructions: Option<InstructionsSource>,
    /// Folder with a SKILL.md that the model can use; repeatable
    #[arg(long = "skill", value_name = "FOLDER", help_heading = "Model")]
    pub(crate) skills: Vec<PathBuf>,
    /// Record the model's answers under this name
    #[arg(long, value_name = "NAME", conflicts_with = "replay", help_heading = "Model")]
    pub(crate) record: Option<RecordingName>,
    /// Replay a recording without a model: its name, or the recorded run
    #[arg(long, value_name = "NAME|RUN", help_heading = "Model")]
    #[arg(conflicts_with = "model_url")]
    pub(crate) replay: Option<String>,
    /// Guards to switch off, with commas between them, to compare runs with and without them
    #[arg(long, value_enum, value_name = "GUARDS", value_delimiter = ',', help_heading = "Model")]
    pub(crate) without_guards: Vec<Guard>,
    /// Tool calls that wait until you approve them on the terminal: never, always, or names of tools
    /// with commas, such as shell,execute_python
    #[arg(long, value_name = "POLICY", default_value = "never", help_heading = "Model")]
    pub(crate) approve: ApprovalPolicy,
    /// Seconds until a tool call without a decision is denied
    #[arg(long, value_name = "SECONDS", default_value_t = APPROVAL_SECONDS, help_heading = "Model")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_APPROVAL_SECONDS))]
    pub(crate) approval_seconds: u64,
}

impl BriefOptions {
    /// The guards that are on.
    pub(crate) fn guards(&self) -> Guards {
        let is_on = |guard| !self.without_guards.contains(&guard);
        Guards {
            joins: is_on(Guard::Joins),
            dates: is_on(Guard::Dates),
            turns: is_on(Guard::Turns),
        }
    }
}

/// A guard of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guard {
    /// Reports of joins that went wrong
    Joins,
    /// Reports of dates that come from the wrong clock
    Dates,
    /// Messages to the model when few turns are left
    Turns,
}

/// Instructions, or the file that has them.
#[derive(Debug, Clone)]
pub(crate) enum InstructionsSource {
    Text(Instructions),
    File(PathBuf),
}

impl FromStr for InstructionsSource {
    type Err = belljar_domain::InvalidInstructions;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix('@') {
            Some(path) => Ok(Self::File(path.into())),
            None => Ok(Self::Text(text.parse()?)),
        }
    }
}
