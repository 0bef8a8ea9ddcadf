//! The command line of `belljar dataset`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Describe data files: structure, ranges, keys and relationships
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dataset {
    #[command(subcommand)]
    pub(crate) action: DatasetAction,
}

const EXAMPLES: &str = "\
Examples:
  belljar dataset describe deals.json activities.csv
  belljar dataset describe --tokens 800 events.jsonl
  belljar dataset describe --json --svg relationships.svg *.csv";

#[derive(Debug, Subcommand)]
pub(crate) enum DatasetAction {
    Describe(Describe),
}

/// Print the description of JSON, JSON Lines, CSV and Parquet files, as a model gets it
#[derive(Debug, Args)]
pub(crate) struct Describe {
    /// Files to describe
    #[arg(value_name = "FILES", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print the complete description as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw the datasets and their relationships to an SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Approximate size of the text in model tokens; details are left out until it fits
    #[arg(long, value_name = "N", default_value_t = 4000)]
    pub(crate) tokens: usize,
    /// Number of reader threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: Option<u8>,
    /// Hide progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Dataset {
    /// Returns the values of `--json` and `--quiet`.
    pub(crate) fn output(&self) -> (bool, bool) {
        match &self.action {
            DatasetAction::Describe(describe) => (describe.json, describe.quiet),
        }
    }
}
