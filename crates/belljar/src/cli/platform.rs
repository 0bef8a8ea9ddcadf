//! The command lines of a platform's roles.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use belljar_control::Keyring;
use belljar_domain::units::parse_time;
use belljar_objects::Place;
use clap::Args;

use super::{Hosting, Observe, Running, Webhooking};

/// Options that control and nodes share.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Platform")]
pub(crate) struct Platform {
    /// NATS servers, like nats://host:4222; without them, free slots are noticed later
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) nats: Vec<String>,
}

/// Serve a platform's API: authenticate requests, place sandboxes and proxy to nodes
#[derive(Debug, Args)]
#[command(after_help = CONTROL)]
pub(crate) struct Control {
    /// Address to listen on; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Address to listen on with TLS, for hosts like `8080-<id>.<domain>`
    #[arg(long, value_name = "ADDRESS", requires_all = ["tls_cert", "tls_key"])]
    pub(crate) tls_listen: Option<SocketAddr>,
    /// TLS certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the TLS certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Do not serve the web console at /console
    #[arg(long)]
    pub(crate) no_console: bool,
    /// Address that nodes connect to, with mutual TLS; use a private network
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3001", help_heading = "Nodes")]
    pub(crate) node_listen: SocketAddr,
    /// File with the secret that encrypts the platform's signing keys in the database, the same for
    /// every replica; `belljar admin control-key` creates it
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    pub(crate) control_key: PathBuf,
    /// Lifetime of node certificates, at most 7 days. Nodes renew them; a node that is off for
    /// longer has to enrol again
    #[arg(long = "certificate-lifetime", alias = "certificate-life", value_name = "TIME",
          default_value = "72h", value_parser = parse_certificate_life, help_heading = "Nodes")]
    pub(crate) certificate_life: Duration,
    /// Gateway configuration file of the nodes. Its budgets hold, whatever limits a node claims, and
    /// a node gets nothing of other budgets; without it, control uses the limits that nodes claim
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    pub(crate) node_budgets: Option<PathBuf>,
    /// URL of the platform's database. Other users of this host can see it here: put passwords
    /// into --database-file [env: BELLJAR_DATABASE]
    #[arg(long, value_name = "URL", conflicts_with = "database_file")]
    pub(crate) database: Option<String>,
    /// File with the URL of the database, including the password
    #[arg(long, value_name = "FILE")]
    pub(crate) database_file: Option<PathBuf>,
    /// Size of the database connection pool, ideally 4 to 8 for each core of the database, all
    /// replicas together; leases use 8 more connections
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) database_connections: u32,
    /// Concurrent creates per node, ideally its number of cores; more are queued, and tenants take
    /// turns
    #[arg(long = "creates-per-node", alias = "at-once", value_name = "N", default_value_t = 4)]
    pub(crate) at_once: usize,
    /// Webhook that is called with JSON when there are too few or too many nodes
    #[arg(long, value_name = "URL")]
    pub(crate) scale_webhook: Option<String>,
    /// Time for requests in progress to finish at shutdown
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub(crate) grace: Duration,
    /// Object store that all replicas and nodes share for the data of runs: a shared directory or
    /// s3://BUCKET[/PREFIX]; without it, runs are disabled
    #[arg(long, value_name = "DIR|s3://BUCKET", help_heading = "Runs")]
    pub(crate) objects: Option<Place>,
    /// File with endpoint and credentials of the bucket, as AWS_NAME=value lines
    #[arg(long, value_name = "FILE", requires = "objects", help_heading = "Runs")]
    pub(crate) objects_settings: Option<PathBuf>,
    /// Gateway configuration file with the models for runs; without it, fixed rules answer
    #[arg(long, value_name = "FILE", help_heading = "Runs")]
    pub(crate) gateway: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) webhooks: Webhooking,
    #[command(flatten)]
    pub(crate) platform: Platform,
    #[command(flatten)]
    pub(crate) observe: Observe,
}

const CONTROL: &str = "\
Any number of replicas can share one database. All are equal.

Examples:
  belljar admin control-key /etc/belljar/control.key
  belljar control --database-file /etc/belljar/database --control-key /etc/belljar/control.key \\
                  --nats nats://10.0.0.2:4222 --listen 10.0.0.1:3000 --node-listen 10.0.0.1:3001";

/// Run sandboxes for a platform (one node per host)
#[derive(Debug, Args)]
#[command(after_help = NODE)]
pub(crate) struct Node {
    /// Permanent name of this node; the ids of its sandboxes depend on it [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// URL of control's port for nodes, like https://10.0.0.1:3001; of several, any that responds
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true,
          value_parser = parse_peer)]
    pub(crate) control: Vec<String>,
    /// File with the one-time token of `belljar admin node add`; needed only until the node is
    /// enrolled
    #[arg(long, value_name = "FILE")]
    pub(crate) enrol_token_file: Option<PathBuf>,
    /// Address to listen on for control, with mutual TLS; no other client can connect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3100")]
    pub(crate) listen: SocketAddr,
    /// URL of this node for control [default: https:// and the --listen address]
    #[arg(long, value_name = "URL", value_parser = parse_peer)]
    pub(crate) address: Option<String>,
    /// Address to listen on for clients that bypass control, without TLS; it accepts only requests
    /// with a sandbox's own token [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) public_listen: Option<SocketAddr>,
    /// URL of --public-listen for clients; returned with each sandbox
    #[arg(long, value_name = "URL", value_parser = parse_base, requires = "public_listen")]
    pub(crate) direct_url: Option<String>,
    /// Slots: maximum number of sandboxes on this node
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) slots: u32,
    /// Domain of the sandboxes' hosts, with the port if it is not 443
    #[arg(long, value_name = "NAME[:PORT]")]
    pub(crate) domain: Option<String>,
    /// Time for running sandboxes to end at shutdown; no new ones are created meanwhile
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_time)]
    pub(crate) drain: Duration,
    #[command(flatten)]
    pub(crate) platform: Platform,
    #[command(flatten)]
    pub(crate) hosting: Hosting,
}

const NODE: &str = "\
A node holds no API keys, no database password, and no key that signs for tenants or other nodes.
Its own key is created on the host and stays in --data.

Example:
  belljar admin node add node-1 > token            # where control runs; valid once, for an hour
  belljar node --name node-1 --control https://10.0.0.1:3001 --enrol-token-file token \\
               --nats nats://10.0.0.2:4222 --listen 10.0.0.11:3100 --slots 500";

fn parse_certificate_life(text: &str) -> Result<Duration, String> {
    let life = parse_time(text).map_err(|error| error.to_string())?;
    let longest = Keyring::LONGEST_CERTIFICATE_LIFE;
    if (Duration::from_secs(1)..=longest).contains(&life) {
        Ok(life)
    } else {
        Err("expected a lifetime from 1 second to 7 days".to_owned())
    }
}

/// Parses the URL that control or a node is reached at by the other: TLS and a port.
fn parse_peer(text: &str) -> Result<String, String> {
    let base = text.trim_end_matches('/');
    let rest = base.strip_prefix("https://").unwrap_or_default();
    let port = rest.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) if !rest.contains(['/', '?', '#', ' ', '@']) => Ok(base.to_owned()),
        _ => Err("expected a URL like https://10.0.0.1:3001".to_owned()),
    }
}

/// Parses a base URL for paths; the result has no trailing slash.
fn parse_base(text: &str) -> Result<String, String> {
    let base = text.trim_end_matches('/');
    let rest = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', ' ']) => Ok(base.to_owned()),
        _ => Err("expected a URL like https://node-1.example.com".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_reached_with_tls_at_a_port() {
        for text in ["https://10.0.0.1:3001", "https://control:3001/", "https://[::1]:3001"] {
            assert_eq!(parse_peer(text).unwrap(), text.trim_end_matches('/'));
        }
        for text in ["", "http://10.0.0.1:3000", "https://c", "https://c:x", "https://c:1/p", "c:1"]
        {
            assert!(parse_peer(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_base_has_a_scheme_and_no_slash_at_its_end() {
        assert_eq!(parse_base("https://n.example.com/").unwrap(), "https://n.example.com");
        assert_eq!(parse_base("http://10.0.0.1:3100/a").unwrap(), "http://10.0.0.1:3100/a");
        for text in ["", "n.example.com", "https://", "ftp://n", "http://n/?a", "http://n m"] {
            assert!(parse_base(text).is_err(), "{text:?}");
        }
    }
}
