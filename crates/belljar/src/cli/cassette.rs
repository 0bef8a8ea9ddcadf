//! The command line of `belljar cassette`.

use std::path::PathBuf;

use belljar_model::network::CassetteId;
use clap::{Args, Subcommand};

/// Look at what was recorded with --record, compare it, move it elsewhere
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cassette {
    /// Whose cassettes, of a server's
    #[arg(long, value_name = "NAME", default_value = "local", global = true)]
    pub(crate) tenant: String,
    /// The server's `--data` [env: BELLJAR_DATA]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) action: CassetteAction,
}

const EXAMPLES: &str = "\
Examples:
  belljar run --network packages --record monday install.py
  belljar cassette show monday
  belljar cassette diff monday tuesday
  belljar cassette export monday monday.cassette";

#[derive(Debug, Subcommand)]
pub(crate) enum CassetteAction {
    /// List the cassettes
    List,
    /// Show what was asked, and what was answered
    Show { cassette: CassetteId },
    /// Say what another cassette has more, less, or differently; status 1 if anything
    Diff { before: CassetteId, after: CassetteId },
    /// Write a cassette to one file
    Export {
        cassette: CassetteId,
        /// `-`: standard output
        file: PathBuf,
    },
    /// Take over a cassette from a file; what it says of itself is checked
    Import {
        cassette: CassetteId,
        /// `-`: standard input
        file: PathBuf,
    },
    /// Read everything, and say what is damaged; status 1 if anything
    Verify { cassette: CassetteId },
    /// Remove a cassette, and the bodies that only it has
    Remove { cassette: CassetteId },
}
