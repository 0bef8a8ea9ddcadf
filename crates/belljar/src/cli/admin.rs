//! The command line of `belljar admin`.

use std::path::PathBuf;
use std::time::Duration;

use belljar_model::Tier;
use belljar_model::units::parse_time;
use belljar_store::Scope;
use clap::{Args, Subcommand};

use super::parse_tier;

/// Keep a platform in order: tenants, keys and nodes, straight in its database
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Admin {
    /// The platform's database; other users of this host can see what is written here, so
    /// passwords are better in a file [env: BELLJAR_DATABASE]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "database_file")]
    pub(crate) database: Option<String>,
    /// A file that holds the address instead, password and all
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
  belljar admin tenant put acme --sandboxes 200 --longest-life 12h --floor gvisor
  belljar admin key add acme --scope sandboxes --label ci --lives 720h
  belljar admin bill acme --within 24h
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
    /// Bring the database's tables to what this version needs; only ever forward
    Migrate,
    /// Make the secret that seals the platform's signing keys; for machines of control only
    ControlKey {
        /// Where to write it; what is there already is never overwritten
        file: PathBuf,
    },
    /// The keys that certificates of nodes and signatures of control are made with
    #[command(subcommand)]
    Authority(AuthorityAction),
    /// Tenants, and what they may have
    #[command(subcommand)]
    Tenant(TenantAction),
    /// API keys; only their hashes are kept
    #[command(subcommand)]
    Key(KeyAction),
    /// Nodes, and what is on them
    #[command(subcommand)]
    Node(NodeAction),
    /// Sandboxes of every tenant
    #[command(subcommand)]
    Sandbox(SandboxAction),
    /// What things cost
    #[command(subcommand)]
    Price(PriceAction),
    /// What a tenant was charged, by account
    Bill {
        tenant: String,
        /// Only what was charged within this time
        #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "720h")]
        within: Duration,
    },
    /// What was done, by whom, newest first
    Audit {
        /// Only what is about this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// How many deeds
        #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
        most: u32,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TenantAction {
    /// Make a tenant, or change what it may have; what is left out stays as it is
    Put {
        name: String,
        /// Sandboxes that it may have at once [default for a new one: 1000]
        #[arg(long, value_name = "N")]
        sandboxes: Option<u32>,
        /// How long one of them may live [default for a new one: 24h]
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        longest_life: Option<Duration>,
        /// The weakest tier that they may have, or `none` [default for a new one: none]
        #[arg(long, value_name = "TIER", value_parser = parse_floor)]
        floor: Option<Floor>,
    },
    /// Let nothing of a tenant work from now on, and end its sandboxes
    Close { name: String },
    /// All of them, and how much each has
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyAction {
    /// Make a key and print it: nobody will see it again
    Add {
        tenant: String,
        /// What it opens: read, sandboxes, templates, admin; may be repeated [default: all but
        /// admin]
        #[arg(long, value_name = "SCOPE", value_parser = parse_scope)]
        scope: Vec<Scope>,
        /// What to know it by
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
        /// How long it opens anything [default: until it is revoked]
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        lives: Option<Duration>,
    },
    /// The keys of a tenant, without the keys
    List { tenant: String },
    /// Let a key open nothing from now on
    Revoke {
        tenant: String,
        /// As `key list` shows it
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
    /// All of them
    List,
    /// Change one; what was charged before stays as it is
    Set {
        /// As `price list` shows it
        what: String,
        /// Of one unit, to a billionth of a dollar
        #[arg(value_parser = parse_dollars)]
        dollars: Dollars,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthorityAction {
    /// Generations that are trusted, and which of them signs
    List,
    /// Make the next generation: trusted at once, in use after a while, so that every node has
    /// heard of it; the older one is trusted for another 8 days
    Rotate {
        /// Control's secret
        #[arg(long, value_name = "FILE")]
        control_key: PathBuf,
        /// When it is taken into use
        #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
        after: Duration,
    },
    /// Trust a generation no longer, at once: nodes whose certificates it issued have to enrol
    /// again
    Drop { generation: u32 },
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeAction {
    /// All of them: state, places, leases, certificates
    List,
    /// Print a one-time token that a machine enrols with under this name
    Add {
        #[arg(value_parser = parse_node_name)]
        name: String,
        /// How long the token can be used
        #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1h")]
        lives: Duration,
        /// Let it take the place of the machine that is enrolled under this name
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
    /// Revoke a node's key at once; its sandboxes end as lost
    Revoke {
        /// The node's name
        name: String,
    },
    /// Place no new sandboxes on a node; those that it has go on
    Drain {
        /// The node's name
        name: String,
        /// Wait until nothing is on it any more, at most so long
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
        Err("a node's name has 1 to 63 letters, digits, `-`, `.` and `_`".to_owned())
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
    nano.map(Dollars).ok_or_else(|| format!("`{text}` is no price\nhint: write it like 0.000014"))
}

fn parse_scope(text: &str) -> Result<Scope, String> {
    Scope::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
        let names = Scope::ALL.map(Scope::as_str).join(", ");
        format!("there is no scope `{text}`\nhint: the scopes are {names}")
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
