//! The server's part of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Hosting, Running};

/// Serve sandboxes over HTTP: E2B's API and our own, on one port
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Where to listen; may be given more than once
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub(crate) listen: Vec<SocketAddr>,
    /// One more port, for clients that keep many streams open
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) data_listen: Option<SocketAddr>,
    /// Where to listen with TLS, for hosts like `8080-<id>.<domain>`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) tls_listen: Option<SocketAddr>,
    /// Certificate chain (PEM); the one of `belljar tls init` if left out
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name, and port if it is not 443, under which sandboxes are reached
    #[arg(long, value_name = "NAME[:PORT]")]
    pub(crate) domain: Option<String>,
    /// API keys, one `KEY TENANT [floor=TIER]` a line; made on the first start if left out
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// Sandboxes that one tenant may have at once
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_sandboxes: usize,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) hosting: Hosting,
}

const EXAMPLES: &str = "\
Examples:
  belljar serve                              then, in another shell:
  eval \"$(belljar env --key e2b_...)\"        and run any program that uses E2B's SDK

  belljar serve --tier gvisor --floor gvisor nothing runs on the host's own kernel

  belljar serve --network packages --network-most allow
                                             pip and npm work; nothing is open

  belljar tls init --domain sb.localhost
  belljar serve --tls-listen 127.0.0.1:8443 --domain sb.localhost:8443";

/// Print the variables that point E2B's SDKs at a server
#[derive(Debug, Args)]
pub(crate) struct Env {
    /// For which language to print them
    #[arg(value_enum, default_value_t = Shell::Sh)]
    pub(crate) shell: Shell,
    /// Where the server listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3000")]
    pub(crate) url: String,
    /// Where its data port is, if it has one
    #[arg(long, value_name = "URL")]
    pub(crate) data_url: Option<String>,
    /// The domain of a server with TLS, instead of addresses
    #[arg(long, value_name = "NAME[:PORT]", conflicts_with_all = ["url", "data_url"])]
    pub(crate) domain: Option<String>,
    /// The API key that the server printed [env: E2B_API_KEY]
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// The server's `--data`, to find its certificates [env: BELLJAR_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Sh,
    Python,
    Javascript,
}

/// Make certificates for `belljar serve`
#[derive(Debug, Args)]
pub(crate) struct Tls {
    #[command(subcommand)]
    pub(crate) command: TlsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Make an authority of our own and a certificate for a domain and all below it
    Init {
        /// Without a port
        #[arg(long, value_name = "NAME", default_value = "sb.localhost")]
        domain: String,
        /// The server's `--data` [env: BELLJAR_DATA]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}
