//! The command line of `belljar workflow`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Run steps with data between them: runs, and commands in sandboxes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Workflow {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// URL of a server or a platform [default: this machine, without a server]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) server_key: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) action: WorkflowAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowAction {
    /// Run a workflow until it ends
    Run(WorkflowRun),
    /// Check a file and print its mistakes with their lines
    Validate {
        /// Workflow file in TOML or JSON
        file: PathBuf,
    },
    /// Draw a workflow as SVG
    Graph {
        /// Workflow file in TOML or JSON
        file: PathBuf,
        /// Output file [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List your newest workflows
    List {
        /// Maximum number to show
        #[arg(long, value_name = "N", default_value_t = 20)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// Show a workflow, its steps and results
    Show {
        /// Workflow id
        workflow: String,
    },
    /// Cancel a workflow and the steps that are under way
    Cancel {
        /// Workflow id
        workflow: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowRun {
    /// Workflow file in TOML or JSON
    #[arg(required_unless_present = "resume")]
    pub(crate) file: Option<PathBuf>,
    /// Input: a file as NAME=PATH, or a value as NAME=JSON; may be repeated
    #[arg(long = "input", value_name = "NAME=PATH")]
    pub(crate) inputs: Vec<String>,
    /// Go on with a workflow that was interrupted
    #[arg(long, value_name = "ID", conflicts_with_all = ["file", "inputs"])]
    pub(crate) resume: Option<String>,
    /// Directory for the workflow's output files
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Gateway configuration with the operation that reaches the model; without --server
    #[arg(long, value_name = "FILE")]
    pub(crate) gateway: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  belljar workflow validate report.toml
  belljar workflow run report.toml --input sales=sales.csv --out results
  belljar workflow run --resume wf_0123456789abcdef0123456789abcdef
  belljar workflow graph report.toml --out report.svg

docs/workflows.md describes the file.";
