//! What a server and a platform are told about runs.

use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::units::{parse_days, parse_size, parse_time};
use clap::Args;

use super::agent::parse_dollars;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Runs")]
pub(crate) struct Running {
    /// Concurrent runs in this process; 0 leaves runs to other replicas. A run that waits for its
    /// model costs memory here and in its sandbox, and no thread
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) runs: usize,
    /// Concurrent workflows in this process; 0 leaves workflows to other replicas
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) workflows: usize,
    /// Maximum number of unfinished runs of one tenant; on a platform, of a tenant without a quota
    /// of its own
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_runs: u64,
    /// Maximum cost of models in dollars that one tenant's runs may have per day (UTC); on a
    /// platform, of a tenant without a quota of its own
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    pub(crate) max_run_dollars_per_day: Option<u64>,
    /// Default template for the sandboxes of runs
    #[arg(long, value_name = "NAME", default_value = "python-data")]
    pub(crate) run_template: String,
    /// Maximum time of one run since its creation, and the time of a run that names none
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) max_run_time: Option<Duration>,
    /// Maximum cost of the model of one run in dollars, such as 0.50, and the cost of a run that
    /// names none
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    pub(crate) max_run_cost: Option<u64>,
    /// Retention of rows of calls and connections
    #[arg(long, value_name = "TIME", value_parser = parse_days, default_value = "30d")]
    pub(crate) keep_rows: Duration,
    /// Maximum number of tokens in one model answer of a run, and that of a run that names none
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_run_output_tokens: Option<u32>,
    /// Maximum size of all data that one tenant uploads for runs
    #[arg(long = "max-run-data", alias = "run-data", value_name = "SIZE")]
    #[arg(default_value = "10G", value_parser = parse_size)]
    pub(crate) run_data: u64,
    /// Maximum size of one uploaded file
    #[arg(long = "max-run-file", alias = "run-file", value_name = "SIZE")]
    #[arg(default_value = "1G", value_parser = parse_size)]
    pub(crate) run_file: u64,
    /// Brand of the reports of runs, as a TOML file with `name`, `logo`, `light` and `dark`
    #[arg(long, value_name = "FILE")]
    pub(crate) report_brand: Option<PathBuf>,
}

impl Running {
    /// Runs of one command on this machine, without a server.
    pub(crate) fn of_command() -> Self {
        Self {
            runs: 8,
            workflows: 1,
            max_runs: 1000,
            max_run_dollars_per_day: None,
            run_template: "python-data".to_owned(),
            max_run_time: None,
            max_run_cost: None,
            keep_rows: Duration::from_secs(30 * 24 * 3600),
            max_run_output_tokens: None,
            run_data: 10 << 30,
            run_file: 1 << 30,
            report_brand: None,
        }
    }
}
