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
    /// Serve Prometheus metrics: control at this address, node N at its port plus N
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Start a node again when it dies
    #[arg(long)]
    pub(crate) restart_nodes: bool,
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

  belljar dev --nodes 3 --restart-nodes --metrics 127.0.0.1:9300

The death of a node is reported, and the platform goes on: its sandboxes are lost, as they
would be elsewhere. The death of control, PostgreSQL or NATS ends everything.

Needs PostgreSQL 15 or newer and nats-server, and starts both for itself: whatever else
runs on this machine is left alone. `belljar serve` is one server, and needs neither.";
