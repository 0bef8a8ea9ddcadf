//! The command lines of a platform's roles.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use belljar_control::Keyring;
use belljar_model::units::parse_time;
use belljar_objects::Place;
use clap::Args;

use super::{Hosting, Observe, Running};

/// Options that control and nodes share.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Platform")]
pub(crate) struct Platform {
    /// Servers of the bus, like nats://host:4222; without them news of free places is slower
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) nats: Vec<String>,
}

/// Serve a platform's API: prove who asks, choose a node, pass it on
#[derive(Debug, Args)]
#[command(after_help = CONTROL)]
pub(crate) struct Control {
    /// Where to listen; may be given more than once
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Where to listen with TLS, for hosts like `8080-<id>.<domain>`
    #[arg(long, value_name = "ADDRESS", requires_all = ["tls_cert", "tls_key"])]
    pub(crate) tls_listen: Option<SocketAddr>,
    /// Certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Where nodes connect, with mutual TLS; a private network, never the internet
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3001", help_heading = "Nodes")]
    pub(crate) node_listen: SocketAddr,
    /// The secret that seals the platform's signing keys in the database, the same for every
    /// replica and for nothing else; `belljar admin control-key` makes one
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    pub(crate) control_key: PathBuf,
    /// How long certificates of nodes are valid, at most 7 days. They renew themselves; a node
    /// that is off for longer has to enrol again
    #[arg(long, value_name = "TIME", default_value = "72h", value_parser = parse_certificate_life,
          help_heading = "Nodes")]
    pub(crate) certificate_life: Duration,
    /// The platform's database; other users of this host can see what is written here, so
    /// passwords are better in a file [env: BELLJAR_DATABASE]
    #[arg(long, value_name = "URL", conflicts_with = "database_file")]
    pub(crate) database: Option<String>,
    /// A file that holds the address instead, password and all
    #[arg(long, value_name = "FILE")]
    pub(crate) database_file: Option<PathBuf>,
    /// Connections to the database at once, beside 8 that only leases use
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) database_connections: u32,
    /// Creates that each node works on at the same time, best about as many as it has cores;
    /// others wait, tenant by tenant
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) at_once: usize,
    /// Where it is told, as JSON, that nodes are too few or too many
    #[arg(long, value_name = "URL")]
    pub(crate) scale_webhook: Option<String>,
    /// How long requests may take to finish when control is told to stop
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub(crate) grace: Duration,
    /// Where all replicas keep the data of runs: a directory that they see, or
    /// s3://BUCKET[/PREFIX], as for nodes; without it no questions are answered
    #[arg(long, value_name = "DIR|s3://BUCKET", help_heading = "Runs")]
    pub(crate) objects: Option<Place>,
    /// Endpoint and credentials of the bucket, as AWS_NAME=value lines
    #[arg(long, value_name = "FILE", requires = "objects", help_heading = "Runs")]
    pub(crate) objects_settings: Option<PathBuf>,
    /// The gateway's configuration for models that runs ask; without it fixed rules answer
    #[arg(long, value_name = "FILE", help_heading = "Runs")]
    pub(crate) gateway: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) platform: Platform,
    #[command(flatten)]
    pub(crate) observe: Observe,
}

const CONTROL: &str = "\
Any number of these may run for one database; each is the same as every other.

Examples:
  belljar admin control-key /etc/belljar/control.key
  belljar control --database-file /etc/belljar/database --control-key /etc/belljar/control.key \\
                  --nats nats://10.0.0.2:4222 --listen 10.0.0.1:3000 --node-listen 10.0.0.1:3001";

/// Keep sandboxes for a platform
#[derive(Debug, Args)]
#[command(after_help = NODE)]
pub(crate) struct Node {
    /// This node's name for ever; ids of its sandboxes depend on it [default: the host's]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where control listens for nodes, like https://10.0.0.1:3001; of several, whoever answers
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true,
          value_parser = parse_peer)]
    pub(crate) control: Vec<String>,
    /// A file with the one-time token of `belljar admin node add`; needed until the node is
    /// enrolled, and not looked at afterwards
    #[arg(long, value_name = "FILE")]
    pub(crate) enrol_token_file: Option<PathBuf>,
    /// Where to listen for control, with mutual TLS: nothing else can connect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3100")]
    pub(crate) listen: SocketAddr,
    /// Where control reaches this node [default: https:// and where it listens]
    #[arg(long, value_name = "URL", value_parser = parse_peer)]
    pub(crate) address: Option<String>,
    /// Where to listen for tenants who skip control, without TLS; only what a sandbox's own
    /// token opens is answered there [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) public_listen: Option<SocketAddr>,
    /// Where tenants reach --public-listen; answered with each sandbox
    #[arg(long, value_name = "URL", value_parser = parse_base, requires = "public_listen")]
    pub(crate) direct_url: Option<String>,
    /// Sandboxes that it can have at once
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) slots: u32,
    /// The name, and port if it is not 443, under which the platform's sandboxes are reached
    #[arg(long, value_name = "NAME[:PORT]")]
    pub(crate) domain: Option<String>,
    /// How long sandboxes may go on when the node is told to stop; nothing new is made meanwhile
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_time)]
    pub(crate) drain: Duration,
    #[command(flatten)]
    pub(crate) platform: Platform,
    #[command(flatten)]
    pub(crate) hosting: Hosting,
}

const NODE: &str = "\
A node holds no API key, no password of the database, and nothing that signs for tenants or
other nodes. Its own key is made on the host and stays in --data.

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
        Err("a certificate is valid for at least a second and at most 7 days".to_owned())
    }
}

/// Where control or a node listens for the other: always with TLS, on a port of its own.
fn parse_peer(text: &str) -> Result<String, String> {
    let base = text.trim_end_matches('/');
    let rest = base.strip_prefix("https://").unwrap_or_default();
    let port = rest.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) if !rest.contains(['/', '?', '#', ' ', '@']) => Ok(base.to_owned()),
        _ => Err("it is not like https://10.0.0.1:3001".to_owned()),
    }
}

/// What paths are put behind: without a slash at its end.
fn parse_base(text: &str) -> Result<String, String> {
    let base = text.trim_end_matches('/');
    let rest = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', ' ']) => Ok(base.to_owned()),
        _ => Err("it is not like https://node-1.example.com".to_owned()),
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
