//! The command line of `belljar ask` and `belljar runs`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use belljar_domain::units::{parse_size, parse_time};
use belljar_domain::{ChosenLimits, Question, Tier};
use belljar_journal::event::Environment;
use clap::{Args, Subcommand, ValueEnum};
use time::format_description::well_known::{Iso8601, Rfc3339};
use time::{Date, OffsetDateTime};

use super::agent::parse_dollars;
use super::brief::BriefOptions;
use super::{AgentOptions, Reaches};
use super::{parse_cores, parse_tier};

/// Answer a question about files with code that runs in a sandbox
///
/// A model writes the code; its key stays in the gateway. Without a model, fixed rules answer
/// simple questions at no cost. The answer goes to standard output, progress to standard error.
/// Files that the code made are kept with the run; --out writes them into a directory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ask {
    /// Question to answer
    #[arg(value_name = "QUESTION", required_unless_present = "resume")]
    pub(crate) question: Option<Question>,
    /// Data files: JSON, JSON Lines, CSV (also compressed with gzip or zstd), Excel, Parquet
    #[arg(long, short, value_name = "FILE", num_args = 1.., conflicts_with = "resume")]
    pub(crate) data: Vec<PathBuf>,
    /// Directory for the run's files, including result.md
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Resume an interrupted run, or wait for a paused one. It keeps its options; `belljar runs
    /// budget` changes its budget
    #[arg(long, value_name = "RUN")]
    #[arg(conflicts_with_all = ["Allowance", "Confines", "Reaches", "BriefOptions", "AgentOptions", "now"])]
    pub(crate) resume: Option<RunName>,
    /// Number of retries if there is no answer; each one doubles the turns or the memory that was
    /// not enough
    #[arg(long, value_name = "COUNT", default_value = "1", help_heading = "Budget")]
    pub(crate) retries: u32,
    /// Let the model ask you; the run then waits for `belljar runs answer`
    #[arg(long, conflicts_with = "resume")]
    pub(crate) questions: bool,
    /// Date or time to use as "now", such as 2026-03-20 or 2026-03-20T09:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) now: Option<OffsetDateTime>,
    /// Print events as JSON lines; the last one has the answer
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Show the code that runs, and what it prints
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) agent: AgentOptions,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) budget: Allowance,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) confines: Confines,
    #[command(flatten)]
    pub(crate) reaches: Reaches,
    #[command(flatten)]
    pub(crate) brief: BriefOptions,
}

const EXAMPLES: &str = "\
Examples:
  belljar ask 'Which region has the highest revenue?' --data sales.csv
  belljar ask 'Which deals went quiet this quarter?' --data deals.json emails.json \\
      --gateway gateway.toml --turns 20 --budget-usd 0.50
  belljar ask 'Which of these companies are hiring?' --data companies.csv \\
      --gateway gateway.toml --operations search
  belljar ask --agent pipeline 'Write a Python script that computes the median of a list'
  belljar ask --resume RUN

docs/runs.md explains runs. Exit status: 0 if there is an answer, 3 if a budget was exhausted
first, 4 if the run was cancelled, 5 if it failed.";

/// The model and its prices.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelChoice {
    /// Gateway configuration file (TOML): operations and their credentials
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub(crate) gateway: Option<PathBuf>,
    /// Gateway operation to use [default: the only one for models]
    #[arg(long, value_name = "NAME", requires = "gateway", help_heading = "Model")]
    pub(crate) operation: Option<String>,
    /// Model to use [default: the operation's first; `heuristic` without a gateway]
    #[arg(long, short, help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// Base URL of the model's API instead of --gateway, such as https://models.example.com
    #[arg(long, value_name = "URL", conflicts_with = "gateway", requires = "model")]
    #[arg(help_heading = "Model")]
    pub(crate) model_url: Option<String>,
    /// File with the API key for --model-url; only the gateway reads it
    #[arg(long, value_name = "FILE", requires = "model_url", help_heading = "Model")]
    pub(crate) model_key: Option<PathBuf>,
    /// File with the model's prices (TOML), for models that belljar does not know
    #[arg(long, value_name = "FILE", requires = "model_url", help_heading = "Model")]
    pub(crate) prices: Option<PathBuf>,
    /// API dialect of --model-url
    #[arg(long, value_enum, default_value = "anthropic-messages", help_heading = "Model")]
    pub(crate) dialect: Dialect,
    /// Maximum number of tokens in one model answer, reasoning included [default: 8192]
    #[arg(long, visible_alias = "output-tokens", value_name = "TOKENS", help_heading = "Model")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_output: Option<u32>,
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

/// The budget of a run.
#[derive(Debug, Clone, Args)]
pub(crate) struct Allowance {
    /// Maximum number of turns; the model is warned when 3 and 1 remain
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(help_heading = "Budget")]
    pub(crate) turns: Option<u32>,
    /// Maximum cost of the model in dollars, such as 0.50
    #[arg(long = "budget-usd", visible_alias = "budget", value_name = "DOLLARS", value_parser = parse_dollars)]
    #[arg(help_heading = "Budget")]
    pub(crate) nano_dollars: Option<u64>,
    /// Maximum number of tokens, input and output together
    #[arg(long, value_name = "COUNT", help_heading = "Budget")]
    pub(crate) tokens: Option<u64>,
    /// Wall-clock limit for the whole run
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Budget")]
    pub(crate) time: Option<Duration>,
    /// CPU-time limit for all code of the run
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Budget")]
    pub(crate) cpu_time: Option<Duration>,
    /// Output limit for all code of the run
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Budget")]
    pub(crate) output_limit: Option<u64>,
}

/// The sandbox for the code.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Template to use; it needs IPython [default: python-data]
    #[arg(long, short, help_heading = "Sandbox")]
    pub(crate) template: Option<String>,
    /// URL of a server that runs the sandboxes [default: run them locally]
    #[arg(long, value_name = "URL", help_heading = "Sandbox")]
    pub(crate) server: Option<String>,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, value_name = "FILE", requires = "server", help_heading = "Sandbox")]
    pub(crate) server_key: Option<PathBuf>,
}

/// The tier and the limits of the run's sandboxes. A resumed run keeps its own.
#[derive(Debug, Clone, Args)]
pub(crate) struct Confines {
    /// Isolation tier: jail, oci/crun, oci/runc, gvisor or microvm [default: the template's, or
    /// jail]
    #[arg(long, value_parser = parse_tier, help_heading = "Sandbox")]
    pub(crate) tier: Option<Tier>,
    /// Memory limit for all processes and the writable disk together [default: the template's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub(crate) memory: Option<u64>,
    /// CPU cores, such as 0.5 [default: the template's]
    #[arg(long, value_name = "CORES", value_parser = parse_cores, help_heading = "Limits")]
    pub(crate) cpus: Option<u32>,
    /// Size of the writable disk [default: the template's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub(crate) disk: Option<u64>,
    /// Maximum number of processes and threads [default: the template's]
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub(crate) pids: Option<u32>,
    /// Wall-clock limit for each call of the model; --time limits the whole run [default: the
    /// template's]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Limits")]
    pub(crate) call_time: Option<Duration>,
}

impl Confines {
    /// As a run has them; what is not said is none.
    pub(crate) fn environment(&self) -> Environment {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let limits = ChosenLimits {
            memory_bytes: self.memory,
            cpu_millis: self.cpus.map(Into::into),
            pids: self.pids.map(Into::into),
            disk_bytes: self.disk,
            wall_ms: self.call_time.map(millis),
        };
        Environment { tier: self.tier, limits }
    }
}

/// List, inspect and control runs
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// URL of a server or a platform that has the runs [default: the runs of this machine]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) server_key: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) action: RunsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsAction {
    /// List the newest runs
    List {
        /// Maximum number to show
        #[arg(long = "limit", alias = "most", value_name = "N", default_value = "20")]
        most: usize,
    },
    /// Show a run, turn by turn
    Show {
        /// Run id, or its first 4 or more characters
        run: RunName,
    },
    /// Follow the events of a run live
    Watch {
        /// Run id, or its first 4 or more characters
        run: RunName,
    },
    /// Show the usage and the cost of runs
    Cost {
        /// Run ids, or their first 4 or more characters [default: the newest runs]
        runs: Vec<RunName>,
    },
    /// Show statistics of runs: outcomes, turns, time, cost and errors
    Stats {
        /// Number of newest runs to count
        #[arg(long = "limit", alias = "most", value_name = "N", default_value = "1000")]
        most: usize,
    },
    /// Show one turn of a run: code, whole output, file changes, connections, usage and cost
    Turn {
        /// Run id, or its first 4 or more characters
        run: RunName,
        /// Number of the turn, from 1
        turn: u32,
    },
    /// Print all events of a run as JSON lines
    Export {
        /// Run id, or its first 4 or more characters
        run: RunName,
    },
    /// Pause a run after the current step
    Pause {
        /// Run id, or its first 4 or more characters
        run: RunName,
    },
    /// Resume a paused run
    Resume {
        /// Run id, or its first 4 or more characters
        run: RunName,
    },
    /// Cancel a run
    Cancel {
        /// Run id, or its first 4 or more characters
        run: RunName,
    },
    /// Send a message to the model before its next turn
    Tell {
        /// Run id, or its first 4 or more characters
        run: RunName,
        /// Message to send
        text: String,
    },
    /// Continue a run for one turn, then pause it
    Step {
        /// Run id, or its first 4 or more characters
        run: RunName,
    },
    /// Set where a run pauses by itself; without an option, nowhere
    Break {
        /// Run id, or its first 4 or more characters
        run: RunName,
        /// Pause before each request to the model
        #[arg(long)]
        turns: bool,
        /// Pause before each tool call
        #[arg(long)]
        calls: bool,
    },
    /// Answer the question that a run waits with
    Answer {
        /// Run id, or its first 4 or more characters
        run: RunName,
        /// Answer to the question
        text: String,
    },
    /// Make another attempt at a run that ended without an answer, with a larger allocation
    Retry {
        /// Run id, or its first 4 or more characters
        run: RunName,
        /// Memory of the attempt's sandbox [default: as before]
        #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
        memory: Option<u64>,
        #[command(flatten)]
        budget: Allowance,
    },
    /// Change the budget of a run
    Budget {
        /// Run id, or its first 4 or more characters
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
        Err("expected a run id: 26 characters of a-z and 2-7, or its first 4 or more")
    }
}

pub(crate) fn parse_moment(text: &str) -> Result<OffsetDateTime, &'static str> {
    let moment = OffsetDateTime::parse(text, &Rfc3339);
    let midnight = || Some(Date::parse(text, &Iso8601::DATE).ok()?.midnight().assume_utc());
    let moment = moment.ok().or_else(midnight);
    moment.ok_or("expected a date such as 2026-03-20, or a time such as 2026-03-20T09:00:00Z")
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
