//! The command line of `belljar ask` and `belljar runs`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use belljar_model::Question;
use belljar_model::units::{parse_size, parse_time};
use clap::{Args, Subcommand, ValueEnum};
use time::format_description::well_known::{Iso8601, Rfc3339};
use time::{Date, OffsetDateTime};

use super::agent::parse_dollars;

/// Answer a question about files with code that runs in a sandbox
///
/// A model writes the code; its key stays in the gateway. Without a model, fixed rules do what they
/// can, and cost nothing. The answer goes to standard output, what happens to standard error. Files
/// that the code made are kept with the run; --out writes them into a directory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ask {
    /// The question
    #[arg(value_name = "QUESTION", required_unless_present = "resume")]
    pub(crate) question: Option<Question>,
    /// Files that it is about: JSON, JSON Lines, CSV (also compressed with gzip or zstd), Excel, Parquet
    #[arg(long, short, value_name = "FILE", num_args = 1.., conflicts_with = "resume")]
    pub(crate) data: Vec<PathBuf>,
    /// Write the run's files, result.md among them, into this directory
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with a run that was interrupted, or wait for one that is paused; as it was begun:
    /// `belljar runs budget` changes what it may use
    #[arg(long, value_name = "RUN", conflicts_with_all = ["Allowance", "now"])]
    pub(crate) resume: Option<RunName>,
    /// How often a question that was not answered is tried again, each time with twice the turns, or
    /// the memory, that were not enough
    #[arg(long, value_name = "COUNT", default_value = "1", help_heading = "Budget")]
    pub(crate) retries: u32,
    /// What "now" means, such as 2026-03-20 or 2026-03-20T09:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) now: Option<OffsetDateTime>,
    /// Print events as JSON lines to standard output; the last one has the answer
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Show the code that runs, and what it prints
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) budget: Allowance,
    #[command(flatten)]
    pub(crate) place: Place,
}

const EXAMPLES: &str = "\
Examples:
  belljar ask 'Which region has the highest revenue?' --data sales.csv
  belljar ask 'Which deals went quiet this quarter?' --data deals.json emails.json \\
      --gateway gateway.toml --turns 20 --budget-usd 0.50
  belljar ask --resume RUN

docs/runs.md explains runs. Exit status: 0 if there is an answer, 3 if a budget ended before there
was one, 4 if the run was cancelled, 5 if it failed.";

/// Who answers.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelChoice {
    /// The gateway's configuration: operations and their credentials (TOML)
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub(crate) gateway: Option<PathBuf>,
    /// The gateway's operation to use [default: the only one that speaks to models]
    #[arg(long, value_name = "NAME", requires = "gateway", help_heading = "Model")]
    pub(crate) operation: Option<String>,
    /// The model [default: the first of the operation; `heuristic` without a gateway]
    #[arg(long, short, help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// Where the model is, instead of --gateway: such as https://models.example.com
    #[arg(long, value_name = "URL", conflicts_with = "gateway", requires = "model")]
    #[arg(help_heading = "Model")]
    pub(crate) model_url: Option<String>,
    /// The file with its key; only the gateway reads it
    #[arg(long, value_name = "FILE", requires = "model_url", help_heading = "Model")]
    pub(crate) model_key: Option<PathBuf>,
    /// The file with its prices, if belljar does not know the model (TOML)
    #[arg(long, value_name = "FILE", requires = "model_url", help_heading = "Model")]
    pub(crate) prices: Option<PathBuf>,
    /// What --model-url speaks
    #[arg(long, value_enum, default_value = "anthropic-messages", help_heading = "Model")]
    pub(crate) dialect: Dialect,
    /// The most tokens of one answer
    #[arg(long, value_name = "TOKENS", default_value = "8192", help_heading = "Model")]
    pub(crate) max_output: u64,
}

impl ModelChoice {
    /// Returns true if no model is named.
    pub(crate) fn is_fixed_rules(&self) -> bool {
        self.gateway.is_none() && self.model_url.is_none()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    AnthropicMessages,
    OpenaiResponses,
    OpenaiChat,
}

/// How much may be used.
#[derive(Debug, Clone, Args)]
pub(crate) struct Allowance {
    /// Answers of the model, at most; it is told when 3 and 1 remain
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(help_heading = "Budget")]
    pub(crate) turns: Option<u32>,
    /// What the model may cost, in dollars, such as 0.50
    #[arg(long = "budget-usd", visible_alias = "budget", value_name = "DOLLARS", value_parser = parse_dollars)]
    #[arg(help_heading = "Budget")]
    pub(crate) nano_dollars: Option<u64>,
    /// Tokens of all kinds together
    #[arg(long, value_name = "COUNT", help_heading = "Budget")]
    pub(crate) tokens: Option<u64>,
    /// Time on the clock, from the beginning on
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Budget")]
    pub(crate) time: Option<Duration>,
    /// Time on the CPU, of all code together
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Budget")]
    pub(crate) cpu_time: Option<Duration>,
    /// Output of all code together
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Budget")]
    pub(crate) output_limit: Option<u64>,
}

/// Where the code runs.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// What the sandbox stands on: a template with IPython [default: python-data]
    #[arg(long, short, help_heading = "Sandbox")]
    pub(crate) template: Option<String>,
    /// A server that makes the sandboxes [default: this process]
    #[arg(long, value_name = "URL", help_heading = "Sandbox")]
    pub(crate) server: Option<String>,
    /// Memory of the sandbox [default: the template's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "server")]
    #[arg(help_heading = "Sandbox")]
    pub(crate) memory: Option<u64>,
    /// The file with the key for --server [env: E2B_API_KEY]
    #[arg(long, value_name = "FILE", requires = "server", help_heading = "Sandbox")]
    pub(crate) server_key: Option<PathBuf>,
}

/// Look at runs, and steer them
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) action: RunsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsAction {
    /// The newest runs
    List {
        /// At most so many
        #[arg(long, default_value = "20")]
        most: usize,
    },
    /// What happened in a run, turn by turn
    Show { run: RunName },
    /// What happens in a run, as it happens
    Watch { run: RunName },
    /// What runs used, and what that cost
    Cost {
        /// All of the newest if none is named
        runs: Vec<RunName>,
    },
    /// How runs went: answers, turns, time, cost, what went wrong
    Stats {
        /// Of the newest so many
        #[arg(long, default_value = "1000")]
        most: usize,
    },
    /// All events of a run, as JSON lines
    Export { run: RunName },
    /// Have a run wait after what it does just now
    Pause { run: RunName },
    /// Have a run go on
    Resume { run: RunName },
    /// End a run
    Cancel { run: RunName },
    /// Say something to the model before its next turn
    Tell { run: RunName, text: String },
    /// Change how much a run may use
    Budget {
        run: RunName,
        #[command(flatten)]
        budget: Allowance,
    },
}

/// A run, by its id or by as much of its beginning as no other has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunName(String);

impl RunName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_letter = |letter: u8| matches!(letter, b'a'..=b'z' | b'2'..=b'7');
        if (4..=26).contains(&text.len()) && text.bytes().all(is_letter) {
            return Ok(Self(text.to_owned()));
        }
        Err("a run's id has 26 of a-z and 2-7; its first 4 or more are enough")
    }
}

fn parse_moment(text: &str) -> Result<OffsetDateTime, &'static str> {
    let moment = OffsetDateTime::parse(text, &Rfc3339);
    let midnight = || Some(Date::parse(text, &Iso8601::DATE).ok()?.midnight().assume_utc());
    let moment = moment.ok().or_else(midnight);
    moment.ok_or("write a day such as 2026-03-20, or a time such as 2026-03-20T09:00:00Z")
}

impl Allowance {
    /// As a run has it; what is not said is none.
    pub(crate) fn budget(&self) -> belljar_journal::event::Budget {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        belljar_journal::event::Budget {
            turns: self.turns,
            wall_ms: self.time.map(millis),
            tokens: self.tokens,
            nano_dollars: self.nano_dollars,
            output_bytes: self.output_limit,
            cpu_ms: self.cpu_time.map(millis),
        }
    }
}
