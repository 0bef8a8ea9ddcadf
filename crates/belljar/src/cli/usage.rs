//! The command line of `belljar usage`.

use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::units::parse_time;
use belljar_journal::UsageKey;
use clap::Args;

use super::RunName;

/// Show what was charged: model tokens, egress bytes and sandbox time
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Usage {
    #[command(flatten)]
    pub(crate) sums: UsageSums,
    /// Show only charges of this run: its id, or its first 4 or more characters
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<RunName>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// URL of a server or a platform [default: the charges of `belljar ask` on this machine]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) server_key: Option<PathBuf>,
}

/// Charges and their groups; for tenants, and for operators.
#[derive(Debug, Clone, Args)]
pub(crate) struct UsageSums {
    /// Properties to group by, with commas between them: run, model, operation, day, account; for
    /// operators also tenant [default: one group]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) by: Vec<UsageKey>,
    /// Period of the charges, up to now
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "720h")]
    pub(crate) within: Duration,
    /// Maximum number of groups to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

const EXAMPLES: &str = "\
Examples:
  belljar usage
  belljar usage --by run,model --within 24h
  belljar usage --server https://sandboxes.example --by day --json";
