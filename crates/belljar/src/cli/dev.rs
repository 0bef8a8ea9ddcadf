//! The command line of `belljar dev`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Start a complete platform on this host: PostgreSQL, NATS, control and nodes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dev {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) nodes: u16,
    /// Slots: maximum number of sandboxes on each node
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) slots: u32,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub(crate) listen: SocketAddr,
    /// Serve Prometheus metrics: control at this address, node N at its port plus N
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Start a node again when it dies
    #[arg(long)]
    pub(crate) restart_nodes: bool,
    /// Directory for all data, including the database [default: dev, beside the data of `belljar
    /// serve`]
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

The death of a node is reported, and the platform continues. The node's sandboxes are lost. The death of control, PostgreSQL or NATS ends everything.

Needs the programs of PostgreSQL 15 or newer and nats-server. It starts its own instances of
both and uses no others. `belljar serve` is a single server that needs neither.";
