//! Approvals on the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Approve or deny what waits: pushes and merge requests of code, and tool calls of runs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Approvals {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// URL of the server or the platform
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:3000")]
    pub(crate) server: String,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) server_key: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) action: ApprovalsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsAction {
    /// List the requests that wait
    List,
    /// Let a request go on
    Approve {
        /// Approval id
        approval: String,
    },
    /// Refuse a request
    Deny {
        /// Approval id
        approval: String,
        /// A sentence for the code that asks
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
    },
}

const EXAMPLES: &str = "\
Examples:
  belljar approvals list
  belljar approvals approve i0123456789abcdefghij.0123456789abcdef
  belljar approvals approve run.aaaaaaaaaaaaaaaaaaaaaaaaaa.0123456789abcdef
  belljar approvals deny i0123456789abcdefghij.0123456789abcdef --message 'add a test first'

docs/git.md and docs/approvals.md describe what waits.";
