//! The command line of `belljar dev`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Start a whole platform on this machine: PostgreSQL, NATS, control and nodes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dev {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) nodes: u16,
    /// Sandboxes that each of them can have at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) slots: u32,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub(crate) listen: SocketAddr,
    /// Where everything is kept, the database included [default: dev, beside the data of
    /// `belljar serve`]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  belljar dev                       then, in another shell:
  . /var/lib/belljar/dev/env        and run any program that uses E2B's SDK

  belljar dev --nodes 3
  belljar admin --database-file /var/lib/belljar/dev/database node list

Needs PostgreSQL 15 or newer and nats-server, and starts both for itself: whatever else
runs on this machine is left alone. `belljar serve` is one server, and needs neither.";
