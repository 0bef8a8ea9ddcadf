//! The command line of `belljar dataset`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Describe data files without showing them: structure, ranges, keys, relationships
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

/// Say what is in JSON, JSON Lines, CSV and Parquet files, as a model is told it
#[derive(Debug, Args)]
pub(crate) struct Describe {
    #[arg(value_name = "FILES", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print everything that was found, as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw the datasets and what refers to what into a file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// About how many tokens of a model the text may take; detail is left out until it fits
    #[arg(long, value_name = "N", default_value_t = 4000)]
    pub(crate) tokens: usize,
    /// How many threads read [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: Option<u8>,
    /// Do not say how far it is
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Dataset {
    /// Whether JSON is wanted, and whether quiet is.
    pub(crate) fn output(&self) -> (bool, bool) {
        match &self.action {
            DatasetAction::Describe(describe) => (describe.json, describe.quiet),
        }
    }
}
