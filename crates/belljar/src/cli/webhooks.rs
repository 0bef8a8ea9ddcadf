//! Webhooks on the command line: options of servers, and the command for clients.

use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::network::Block;
use belljar_domain::units::parse_time;
use clap::{Args, Subcommand};

/// Options of servers and platforms.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub(crate) struct Webhooking {
    /// Address range that webhooks may have although it is not public, such as 10.1.0.0/16; may be
    /// repeated. With a loopback range, loopback addresses need no https
    #[arg(long, value_name = "RANGE")]
    pub(crate) webhook_allow: Vec<Block>,
    /// Attempts at one message to a webhook
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) webhook_attempts: u32,
    /// Wait after the first failed attempt; each further wait is four times as long
    #[arg(long, value_name = "TIME", default_value = "16s", value_parser = parse_time)]
    pub(crate) webhook_retry: Duration,
}

/// Call URLs when something happens to sandboxes and runs of a server or a platform
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Webhooks {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// URL of the server or the platform
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:3000")]
    pub(crate) server: String,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) server_key: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) action: WebhooksAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WebhooksAction {
    /// Add a webhook and print its secret, once
    Add {
        /// An https URL with a public address
        url: String,
        /// Kinds of events, such as run.ended,sandbox.ended
        #[arg(long, value_name = "KINDS", value_delimiter = ',', required = true)]
        kinds: Vec<String>,
    },
    /// List your webhooks
    List,
    /// Delete a webhook and the messages that wait for it
    Remove {
        /// Webhook id
        webhook: String,
    },
    /// Send a test message
    Test {
        /// Webhook id
        webhook: String,
    },
    /// Make a new secret and print it, once; the old one stays valid for a day
    Rotate {
        /// Webhook id
        webhook: String,
    },
    /// Call a disabled webhook again
    Enable {
        /// Webhook id
        webhook: String,
    },
    /// List the newest messages to a webhook, and their attempts
    Deliveries {
        /// Webhook id
        webhook: String,
        /// Maximum number to show
        #[arg(long, value_name = "N", default_value_t = 20)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
}

const EXAMPLES: &str = "\
Examples:
  belljar webhooks add https://hooks.example.com/belljar --kinds run.ended,run.waiting
  belljar webhooks test wh_0123456789abcdef0123456789abcdef
  belljar webhooks deliveries wh_0123456789abcdef0123456789abcdef

docs/webhooks.md lists the kinds and shows how to verify a signature.";
