//! What a server and a platform are told about runs.

use belljar_model::units::parse_size;
use clap::Args;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Runs")]
pub(crate) struct Running {
    /// Runs that are worked on here at once; with 0, others have to
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) runs: usize,
    /// What their sandboxes are made of when a run does not say
    #[arg(long, value_name = "NAME", default_value = "python-data")]
    pub(crate) run_template: String,
    /// How much data a tenant may bring for runs
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = parse_size)]
    pub(crate) run_data: u64,
    /// How long one file of it may be
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub(crate) run_file: u64,
}
