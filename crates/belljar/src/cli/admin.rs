//! The command line of `belljar admin`.

use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::units::parse_time;
use belljar_domain::{OperationCap, Tier};
use belljar_store::Scope;
use clap::{Args, Subcommand};

use super::{UsageSums, parse_tier};

/// Manage a platform's tenants, API keys, nodes and prices in its database
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Admin {
    /// URL of the platform's database. Other users of this host can see it here: put passwords
    /// into --database-file [env: BELLJAR_DATABASE]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "database_file")]
    pub(crate) database: Option<String>,
    /// File with the URL of the database, including the password
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) database_file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) action: AdminAction,
}

const EXAMPLES: &str = "\
Examples:
  belljar admin control-key /etc/belljar/control.key
  export BELLJAR_DATABASE=postgres://belljar@db.internal/belljar
  belljar admin migrate
  belljar admin tenant put acme --sandboxes 200 --max-lifetime 12h --floor gvisor
  belljar admin tenant put acme --max-runs 200 --max-run-dollars-per-day 50
  belljar admin key add acme --scope sandboxes --label ci --expires-in 720h --operations search
  belljar admin bill acme --within 24h
  belljar admin usage --by tenant,account
  belljar admin node add node-4 > token
  belljar admin node list
  belljar admin node drain node-3 --wait 30m
  belljar admin node undrain node-3
  belljar admin node forget node-2
  belljar admin sandbox list --node node-3
  belljar admin node revoke node-3
  belljar admin authority rotate --control-key /etc/belljar/control.key";

#[derive(Debug, Subcommand)]
pub(crate) enum AdminAction {
    /// Migrate the database to this version; migrations only go forward
    Migrate,
    /// Create the secret that encrypts the platform's signing keys; only for hosts of control
    ControlKey {
        /// File to write; an existing file is never overwritten
        file: PathBuf,
    },
    /// Manage the keys that sign node certificates and control's requests
    #[command(subcommand)]
    Authority(AuthorityAction),
    /// Manage tenants and their quotas
    #[command(subcommand)]
    Tenant(TenantAction),
    /// Manage API keys; only their hashes are stored
    #[command(subcommand)]
    Key(KeyAction),
    /// Manage nodes
    #[command(subcommand)]
    Node(NodeAction),
    /// Sandboxes of every tenant
    #[command(subcommand)]
    Sandbox(SandboxAction),
    /// Show and change prices
    #[command(subcommand)]
    Price(PriceAction),
    /// Show a tenant's charges by account
    Bill {
        /// Tenant name
        tenant: String,
        /// Period of the charges, up to now
        #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "720h")]
        within: Duration,
    },
    /// Show what tenants were charged: model tokens, egress bytes and sandbox time
    Usage {
        /// Show only charges of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        sums: UsageSums,
    },
    /// Show the audit log, newest entry first
    Audit {
        /// Show only entries about this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Maximum number to show
        #[arg(long = "limit", alias = "most", short = 'n', value_name = "N", default_value_t = 50)]
        most: u32,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TenantAction {
    /// Create a tenant or change its quotas; options that are left out stay unchanged
    Put {
        /// Tenant name
        name: String,
        /// Maximum number of sandboxes [default for a new tenant: 1000]
        #[arg(long, value_name = "N")]
        sandboxes: Option<u32>,
        /// Maximum lifetime of a sandbox [default for a new tenant: 24h]
        #[arg(long = "max-lifetime", alias = "longest-life", value_name = "TIME")]
        #[arg(value_parser = parse_time)]
        longest_life: Option<Duration>,
        /// Floor: the weakest tier of its sandboxes, or `none` [default for a new tenant: none]
        #[arg(long, value_name = "TIER", value_parser = parse_floor)]
        floor: Option<Floor>,
        /// Gateway operations that its keys may name, with commas between them; `all` or `none`
        /// [default for a new tenant: all]
        #[arg(long, value_name = "NAMES")]
        operations: Option<OperationCap>,
        /// Maximum number of unfinished runs [default: --max-runs of control]
        #[arg(long, value_name = "N")]
        max_runs: Option<u32>,
        /// Maximum cost of the models of its runs per day (UTC), in dollars [default:
        /// --max-run-dollars-per-day of control]
        #[arg(long, value_name = "DOLLARS", value_parser = super::agent::parse_dollars)]
        max_run_dollars_per_day: Option<u64>,
    },
    /// Close a tenant: refuse its API keys and end its sandboxes
    Close {
        /// Tenant name
        name: String,
    },
    /// List tenants with their quotas and sandboxes
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyAction {
    /// Create an API key and print it; it is shown only once
    Add {
        /// Tenant name
        tenant: String,
        /// Scope of the key: read, sandboxes, templates or admin; may be repeated [default: all but
        /// admin]
        #[arg(long, value_name = "SCOPE", value_parser = parse_scope)]
        scope: Vec<Scope>,
        /// Label for lists
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
        /// Key lifetime [default: until it is revoked]
        #[arg(long = "expires-in", alias = "lives", value_name = "TIME", value_parser = parse_time)]
        lives: Option<Duration>,
        /// Gateway operations that the key may name, with commas between them; `all` or `none`
        #[arg(long, value_name = "NAMES", default_value = "all")]
        operations: OperationCap,
    },
    /// Change the gateway operations that a key may name
    Set {
        /// Tenant name
        tenant: String,
        /// Key id, as `key list` shows it
        id: String,
        /// Names with commas between them; `all` or `none`
        #[arg(long, value_name = "NAMES")]
        operations: OperationCap,
    },
    /// List a tenant's keys by id, without the secrets
    List {
        /// Tenant name
        tenant: String,
    },
    /// Revoke a key
    Revoke {
        /// Tenant name
        tenant: String,
        /// Key id, as `key list` shows it
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxAction {
    /// List the sandboxes that run or are paused, newest first
    List {
        /// Only those on this node
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Only those of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Maximum number to show
        #[arg(long, short = 'n', value_name = "N", default_value_t = 200)]
        limit: u32,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PriceAction {
    /// List prices
    List,
    /// Change a price; earlier charges stay unchanged
    Set {
        /// Name of the price, as `price list` shows it
        what: String,
        /// Price of one unit in dollars, with at most nine decimal places
        #[arg(value_parser = parse_dollars)]
        dollars: Dollars,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthorityAction {
    /// List the trusted generations of keys, and the one that signs
    List,
    /// Create the next generation of keys
    ///
    /// It is trusted at once and signs after a delay, so that every node knows it first. The older
    /// generation stays trusted for 8 days.
    Rotate {
        /// File with control's secret
        #[arg(long, value_name = "FILE")]
        control_key: PathBuf,
        /// Delay before the new generation signs
        #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
        after: Duration,
    },
    /// Stop trusting a generation at once; nodes with certificates from it have to enrol again
    Drop {
        /// Number of the generation, as `authority list` shows it
        generation: u32,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeAction {
    /// List nodes with their state, slots, leases and certificates
    List,
    /// Print a one-time token that a host enrols with under this name
    Add {
        /// Node name
        #[arg(value_parser = parse_node_name)]
        name: String,
        /// Token lifetime
        #[arg(long = "expires-in", alias = "lives", value_name = "TIME", default_value = "1h")]
        #[arg(value_parser = parse_time)]
        lives: Duration,
        /// Replace the host that is enrolled under this name
        #[arg(long)]
        replace: bool,
    },
    /// Place sandboxes on a drained node again
    Undrain {
        /// The node's name
        name: String,
    },
    /// Remove a lost node from the list; it needs a new token to come back
    Forget {
        /// The node's name
        name: String,
    },
    /// Revoke a node's certificate at once; its sandboxes end as lost
    Revoke {
        /// The node's name
        name: String,
    },
    /// Place no new sandboxes on a node; its running sandboxes continue
    Drain {
        /// The node's name
        name: String,
        /// Wait until the node has no sandboxes, at most this long
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        wait: Option<Duration>,
    },
}

/// Names go into files, metrics and logs.
fn parse_node_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if (1..=63).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with(['-', '.']) {
        Ok(text.to_owned())
    } else {
        Err("expected a node name: 1 to 63 letters, digits, `-`, `.` and `_`".to_owned())
    }
}

/// A floor, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Floor(pub(crate) Option<Tier>);

fn parse_floor(text: &str) -> Result<Floor, String> {
    if text == "none" { Ok(Floor(None)) } else { parse_tier(text).map(|tier| Floor(Some(tier))) }
}

/// Billionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dollars(pub(crate) u64);

fn parse_dollars(text: &str) -> Result<Dollars, String> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_read = !whole.is_empty() && digits(whole) && digits(part) && part.len() <= 9;
    let nano = is_read.then(|| format!("{whole}{part:0<9}").parse().ok()).flatten();
    // What the database can hold.
    let nano = nano.filter(|nano| i64::try_from(*nano).is_ok());
    nano.map(Dollars)
        .ok_or_else(|| format!("`{text}` is not a price\nhint: use a form like 0.000014"))
}

fn parse_scope(text: &str) -> Result<Scope, String> {
    Scope::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
        let names = Scope::ALL.map(Scope::as_str).join(", ");
        format!("unknown scope `{text}`\nhint: the scopes are {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact_to_a_billionth() {
        for (text, nano) in
            [("0.000014", 14_000), ("0", 0), ("2.5", 2_500_000_000), ("1.", 1_000_000_000)]
        {
            assert_eq!(parse_dollars(text), Ok(Dollars(nano)), "{text}");
        }
        for text in ["", ".5", "-1", "1e-6", "0.0000000001", "99999999999", "1,5"] {
            assert!(parse_dollars(text).is_err(), "{text}");
        }
    }
}
