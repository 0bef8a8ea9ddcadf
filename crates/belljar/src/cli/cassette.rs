//! The command line of `belljar cassette`.

use std::path::PathBuf;

use belljar_domain::network::CassetteId;
use clap::{Args, Subcommand};

/// Inspect, compare, export and import cassettes recorded with --record
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cassette {
    /// Tenant that owns the cassettes, if they are a server's
    #[arg(long, value_name = "NAME", default_value = "local", global = true)]
    pub(crate) tenant: String,
    /// Data directory of the server (its `--data`) [env: BELLJAR_DATA]
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
    /// List cassettes
    List,
    /// Show the requests and responses of a cassette
    Show {
        /// Cassette name
        cassette: CassetteId,
    },
    /// Show the differences between two cassettes; exit status 1 if there are any
    Diff {
        /// Older cassette
        before: CassetteId,
        /// Newer cassette
        after: CassetteId,
    },
    /// Write a cassette to one file
    Export {
        /// Cassette name
        cassette: CassetteId,
        /// File to write; `-` is standard output
        file: PathBuf,
    },
    /// Import a cassette from a file and verify its digests
    Import {
        /// Name for the imported cassette
        cassette: CassetteId,
        /// File to read; `-` is standard input
        file: PathBuf,
    },
    /// Check a cassette for damage; exit status 1 if there is any
    Verify {
        /// Cassette name
        cassette: CassetteId,
    },
    /// Remove a cassette and the response bodies that only it uses
    Remove {
        /// Cassette name
        cassette: CassetteId,
    },
}
