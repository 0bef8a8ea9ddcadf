//! The server's part of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Hosting, Running, Webhooking};

/// Serve sandboxes over HTTP: E2B's API and Belljar's own, on one port
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Address to listen on; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Additional address for clients that keep many streams open
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) data_listen: Option<SocketAddr>,
    /// Address to listen on with TLS, for hosts like `8080-<id>.<domain>`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) tls_listen: Option<SocketAddr>,
    /// TLS certificate chain (PEM) [default: the one of `belljar tls init`]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Domain of the sandboxes' hosts, with the port if it is not 443
    #[arg(long, value_name = "NAME[:PORT]")]
    pub(crate) domain: Option<String>,
    /// File of API keys, one `KEY TENANT [floor=TIER] [operations=NAMES]` per line [default: created at the first
    /// start]
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// Maximum number of sandboxes per tenant
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_sandboxes: usize,
    /// Do not serve the web console at /console
    #[arg(long)]
    pub(crate) no_console: bool,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) webhooks: Webhooking,
    #[command(flatten)]
    pub(crate) hosting: Hosting,
}

const EXAMPLES: &str = "\
Examples:
  belljar serve                              then, in another shell:
  eval \"$(belljar env --key e2b_...)\"        and run any program that uses E2B's SDK

  belljar serve --tier gvisor --floor gvisor no sandbox runs on the host's kernel

  belljar serve --network packages --max-network allow
                                             pip and npm work; open access is refused

  belljar tls init --domain sb.localhost
  belljar serve --tls-listen 127.0.0.1:8443 --domain sb.localhost:8443";

/// Print the environment variables that point E2B's SDKs at a server
#[derive(Debug, Args)]
pub(crate) struct Env {
    /// Output format: sh, python or javascript
    #[arg(value_enum, default_value_t = Shell::Sh)]
    pub(crate) shell: Shell,
    /// URL of the server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3000")]
    pub(crate) url: String,
    /// URL of the server's data port (`--data-listen`), if it has one
    #[arg(long, value_name = "URL")]
    pub(crate) data_url: Option<String>,
    /// Domain of a server with TLS, instead of URLs
    #[arg(long, value_name = "NAME[:PORT]", conflicts_with_all = ["url", "data_url"])]
    pub(crate) domain: Option<String>,
    /// API key that the server printed [env: E2B_API_KEY]
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Data directory of the server (its `--data`), for the certificates [env: BELLJAR_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// File to write the system's authorities and the server's to, for SSL_CERT_FILE [default:
    /// tls/bundle.pem in the data directory]
    #[arg(long, value_name = "FILE", requires = "domain")]
    pub(crate) bundle: Option<PathBuf>,
    /// The server's certificate is from a public authority: set no variables for certificates
    #[arg(long, requires = "domain", conflicts_with = "bundle")]
    pub(crate) public_ca: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Sh,
    Python,
    Javascript,
}

/// Create certificates for `belljar serve`
#[derive(Debug, Args)]
pub(crate) struct Tls {
    #[command(subcommand)]
    pub(crate) command: TlsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Create a private certificate authority, and a certificate for a domain and its subdomains
    Init {
        /// Domain, without a port
        #[arg(long, value_name = "NAME", default_value = "sb.localhost")]
        domain: String,
        /// Data directory of the server (its `--data`) [env: BELLJAR_DATA]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}
