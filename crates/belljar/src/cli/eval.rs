//! The command line of `belljar eval`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

use super::Dialect;
use super::agent::parse_dollars;

/// Score the answers of runs: tasks × models × variants × repeats
///
/// Each trial of the grid is an ordinary run. Answers are scored by exact value, number, named
/// values, Python code in a sandbox, or a judge model. The table goes to standard output, progress
/// to standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Eval {
    #[command(subcommand)]
    pub(crate) action: Option<EvalAction>,
    /// File with the tasks (TOML or JSON)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Option<PathBuf>,
    /// Models to compare, with commas between them: MODEL or OPERATION=MODEL [default: the
    /// operation's first; `heuristic` without a gateway]
    #[arg(long, value_name = "MODELS", value_delimiter = ',', help_heading = "Grid")]
    pub(crate) models: Vec<ModelName>,
    /// Number of runs of each task, model and variant
    #[arg(long = "n", short = 'n', alias = "repeats", value_name = "COUNT", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Grid")]
    pub(crate) repeats: u32,
    /// Only these tasks, with commas between them
    #[arg(long, value_name = "IDS", value_delimiter = ',', help_heading = "Grid")]
    pub(crate) only: Vec<String>,
    /// Number of runs at a time
    #[arg(long, value_name = "COUNT", default_value = "2", help_heading = "Grid")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) jobs: u32,
    /// Maximum cost of the whole grid in dollars; every task then needs `budget_usd`
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars, help_heading = "Grid")]
    pub(crate) max_cost: Option<u64>,
    /// Seed of the comparisons' bootstrap
    #[arg(long, value_name = "NUMBER", default_value = "0", help_heading = "Grid")]
    pub(crate) seed: u64,
    /// File that keeps the finished trials [default: NAME.eval.jsonl for NAME.toml]
    #[arg(long, value_name = "FILE", help_heading = "Grid")]
    pub(crate) trials: Option<PathBuf>,
    /// Continue the grid of the trials' file: only what is missing is run
    #[arg(long, help_heading = "Grid")]
    pub(crate) resume: bool,
    /// Replay the runs of the trials' file and score them again, without a model or a network
    #[arg(long, conflicts_with_all = ["resume", "max_cost"], help_heading = "Grid")]
    pub(crate) replay: bool,

    /// Gateway configuration file (TOML): operations and their credentials
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub(crate) gateway: Option<PathBuf>,
    /// Base URL of the models' API instead of --gateway
    #[arg(long, value_name = "URL", conflicts_with = "gateway", requires = "models")]
    #[arg(help_heading = "Model")]
    pub(crate) model_url: Option<String>,
    /// File with the API key for --model-url; only the gateway reads it
    #[arg(long, value_name = "FILE", requires = "model_url", help_heading = "Model")]
    pub(crate) model_key: Option<PathBuf>,
    /// File with the models' prices (TOML), for models that belljar does not know
    #[arg(long, value_name = "FILE", requires = "model_url", help_heading = "Model")]
    pub(crate) prices: Option<PathBuf>,
    /// API dialect of --model-url
    #[arg(long, value_enum, default_value = "anthropic-messages", help_heading = "Model")]
    pub(crate) dialect: Dialect,
    /// URL of a server or a platform that makes the runs [default: this machine]
    #[arg(long, value_name = "URL", help_heading = "Model")]
    #[arg(conflicts_with_all = ["gateway", "model_url"])]
    pub(crate) server: Option<String>,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, value_name = "FILE", requires = "server", help_heading = "Model")]
    pub(crate) server_key: Option<PathBuf>,

    /// Fail if the mean score of a model and variant is lower, from 0 to 1
    #[arg(long, value_name = "SCORE", value_parser = parse_score, help_heading = "Output")]
    pub(crate) min_score: Option<f64>,
    /// Write the report as JSON; `-` prints it instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
    /// Print only the table
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  belljar eval tasks.toml
  belljar eval tasks.toml --gateway gateway.toml --models a,b --n 5 --html report.html
  belljar eval tasks.toml --gateway gateway.toml --models a --max-cost 2.00 --resume
  belljar eval tasks.toml --replay --min-score 0.9
  belljar eval import dabench DIR --limit 60 > dabench.toml

docs/evaluation.md explains the file of tasks. Exit status: 0 if the grid is complete, 6 if
--min-score is not reached, 7 if trials are missing or have no score, 130 if it was interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum EvalAction {
    /// Convert a benchmark into a file of tasks
    Import(EvalImport),
}

#[derive(Debug, Args)]
pub(crate) struct EvalImport {
    /// Benchmark to convert
    #[arg(value_enum)]
    pub(crate) benchmark: EvalBenchmark,
    /// Directory with its questions, labels and tables
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Number of questions, evenly taken from all [default: all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    /// Path of the tables, as the tasks name it [default: DIR/tables]
    #[arg(long, value_name = "PATH")]
    pub(crate) tables: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvalBenchmark {
    /// Questions about tables, from InfiAgent
    Dabench,
}

impl Eval {
    /// Returns true if standard output gets the report as JSON.
    pub(crate) fn prints_json(&self) -> bool {
        self.json.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

/// A model, and the operation that reaches it: `MODEL` or `OPERATION=MODEL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelName {
    pub(crate) operation: Option<String>,
    pub(crate) model: String,
}

impl FromStr for ModelName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (operation, model) = match text.split_once('=') {
            Some((operation, model)) => (Some(operation), model),
            None => (None, text),
        };
        if model.is_empty() || operation.is_some_and(str::is_empty) {
            return Err("expected MODEL or OPERATION=MODEL");
        }
        Ok(Self { operation: operation.map(str::to_owned), model: model.to_owned() })
    }
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.operation {
            Some(operation) => write!(f, "{operation}={}", self.model),
            None => f.write_str(&self.model),
        }
    }
}

fn parse_score(text: &str) -> Result<f64, &'static str> {
    let score = text.parse().ok().filter(|score| (0.0..=1.0).contains(score));
    score.ok_or("expected a score from 0 to 1")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parsed(words: &[&str]) -> Eval {
        let line = ["belljar", "eval"].iter().chain(words);
        let Command::Eval(eval) = Cli::parse_from(line).command else { panic!() };
        *eval
    }

    #[test]
    fn a_grid_is_one_line() {
        let words = ["t.toml", "--gateway", "g.toml", "--models", "a,op=b=c", "--n", "5"];
        let eval = parsed(&words);
        assert_eq!(eval.repeats, 5);
        let names: Vec<_> = eval.models.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a", "op=b=c"]);
        assert_eq!(eval.models[1].model, "b=c");
        assert!(parsed(&["t.toml", "--json", "-"]).prints_json());
        assert!("=a".parse::<ModelName>().is_err() && "a=".parse::<ModelName>().is_err());
    }

    #[test]
    fn an_import_needs_no_tasks() {
        let eval = parsed(&["import", "dabench", "dir", "--limit", "60"]);
        let Some(EvalAction::Import(import)) = eval.action else { panic!() };
        assert_eq!((import.limit, import.benchmark), (Some(60), EvalBenchmark::Dabench));
        assert!(Cli::try_parse_from(["belljar", "eval"]).is_err());
    }
}
