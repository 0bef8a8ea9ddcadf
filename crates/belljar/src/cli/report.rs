//! The command line of `belljar report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::RunName;

/// Write the report of an ended run: one HTML file that loads nothing
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Report {
    /// Run id, or its first 4 or more characters
    pub(crate) run: RunName,
    /// File to write; `-` is the standard output [default: report-RUN.html]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Open the report in the browser [default: yes at a terminal with a display]
    #[arg(long, value_name = "WHEN", value_enum)]
    pub(crate) open: Option<Open>,
    /// Brand of the report, as a TOML file with `name`, `logo`, `light` and `dark`; a server has
    /// its own
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub(crate) brand: Option<PathBuf>,
    /// Print one JSON document about the file
    #[arg(long)]
    pub(crate) json: bool,
    /// URL of a server or a platform [default: the runs of `belljar ask` on this machine]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) server_key: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Open {
    Yes,
    No,
}

const EXAMPLES: &str = "\
Examples:
  belljar report aavq
  belljar report aavq --out sales.html --open no
  belljar report aavq --server https://sandboxes.example --out -";
