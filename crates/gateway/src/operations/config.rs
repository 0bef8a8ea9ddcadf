//! `[operations.NAME]` as it is written, before it is checked.
//!
//! ```toml
//! [operations.claude]
//! kind = "model"
//! dialects = ["anthropic-messages"]
//! upstream = "https://models.example.com"
//! credential = { file = "/etc/belljar/keys/claude", as = "x-api-key" }
//! models = ["claude-opus-4-8"]
//! aliases = { large = "claude-opus-4-8" }
//! prices = "/etc/belljar/prices.toml"
//! max_output_tokens = 8192
//! pin = { service_tier = "standard_only" }
//! budget = { dollars = "200.00", every_seconds = 86400 }
//!
//! [operations.search]
//! kind = "http"
//! upstream = "https://search.example.com/api"
//! methods = ["GET"]
//! paths = ["/query"]
//! credential = { env = "SEARCH_KEY", header = "x-subscription-token" }
//!
//! [operations.telemetry]
//! kind = "otlp"
//! upstream = "https://collector.example.com"
//! credential = { env = "COLLECTOR_KEY", as = "bearer" }
//!
//! [operations.telemetry.tenants.acme]
//! credential = { env = "ACME_COLLECTOR_KEY", as = "bearer" }
//!
//! [operations.code]
//! kind = "git"
//! upstream = "https://git.example.com"
//! repositories = ["acme/*"]
//! branches = ["agent/*"]
//! approve = "push"
//! forge = "forgejo"
//! credential = { env = "GIT_TOKEN", as = "basic", user = "belljar" }
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use belljar_llm::Dialect;
use serde::Deserialize;

use crate::budget::Limit;

/// All operations, by name.
pub(crate) type Table = BTreeMap<Name, Settings>;

/// An operation's name. It stands in paths, so it is made of what needs no
/// quoting there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Name(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an operation's name has 1 to 64 of a-z, 0-9, `:`, `-`, `_` and `.`, a letter first")]
pub(crate) struct InvalidName;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Speaks one or more of the model dialects.
    Model,
    /// Anything else that is asked over HTTP.
    Http,
    /// OpenTelemetry of programs inside.
    Otlp,
    /// Repositories of a git server.
    Git,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) kind: Kind,
    pub(crate) upstream: String,
    /// The upstream may be `http:`, where everybody on the way can read along.
    #[serde(default)]
    pub(crate) plaintext: bool,
    pub(crate) credential: Option<Credential>,
    pub(crate) dialects: Option<Vec<Dialect>>,
    pub(crate) methods: Option<Vec<String>>,
    /// Whole segments: `/a` is `/a` and `/a/b`, never `/ab`.
    pub(crate) paths: Option<Vec<String>>,
    /// Which models may be asked for, as the upstream calls them; absent: all
    /// that have a price.
    pub(crate) models: Option<Vec<String>>,
    /// Other names for them, used inside.
    pub(crate) aliases: Option<BTreeMap<String, String>>,
    /// Fields of every request's body, whatever the sandbox wrote there.
    pub(crate) pin: Option<toml::Table>,
    pub(crate) prices: Option<PathBuf>,
    pub(crate) max_output_tokens: Option<u64>,
    /// Of all tenants together.
    pub(crate) budget: Option<Budget>,
    /// Of each tenant.
    pub(crate) tenant_budget: Option<Budget>,
    /// Collectors and credentials of tenants, in place of the operation's own.
    pub(crate) tenants: Option<BTreeMap<String, TenantCollector>>,
    /// Patterns of repositories: `*` stands for any text without a slash.
    pub(crate) repositories: Option<Vec<String>>,
    /// Patterns of branches that may be pushed: `*` stands for any text.
    pub(crate) branches: Option<Vec<String>>,
    /// The default branch may be pushed too, if a pattern fits it.
    pub(crate) default_branch: Option<bool>,
    /// Branches may be moved to other histories.
    pub(crate) force: Option<bool>,
    /// Branches may be deleted.
    pub(crate) deletions: Option<bool>,
    pub(crate) approve: Option<Approve>,
    /// Time that a request waits for its approval.
    pub(crate) approval_seconds: Option<u64>,
    /// The API for merge requests; absent: there are none.
    pub(crate) forge: Option<ForgeKind>,
    /// The URL of that API, if it is not the usual one.
    pub(crate) api: Option<String>,
    /// In bytes, of a request.
    pub(crate) max_body: Option<u64>,
    /// In bytes, of an answer.
    pub(crate) max_answer: Option<u64>,
    #[serde(default)]
    pub(crate) timeouts: Timeouts,
}

/// The requests that wait until a human has approved them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Approve {
    #[default]
    Never,
    Push,
    /// Pushes and merge requests.
    Always,
}

/// The kinds of APIs for merge requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ForgeKind {
    #[serde(alias = "forgejo")]
    Gitea,
    Github,
    Gitlab,
}

/// The collector of one tenant.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantCollector {
    pub(crate) upstream: Option<String>,
    #[serde(default)]
    pub(crate) plaintext: bool,
    pub(crate) credential: Option<Credential>,
}

/// Where a credential is found, and how it is shown to the upstream.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credential {
    pub(crate) file: Option<PathBuf>,
    pub(crate) env: Option<String>,
    #[serde(rename = "as")]
    pub(crate) shape: Option<Shape>,
    pub(crate) header: Option<String>,
    /// The name that goes with a password.
    pub(crate) user: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Shape {
    #[serde(rename = "bearer")]
    Bearer,
    #[serde(rename = "x-api-key")]
    ApiKey,
    #[serde(rename = "basic")]
    Basic,
    /// As Gitea writes it.
    #[serde(rename = "token")]
    Token,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Timeouts {
    pub(crate) connect_seconds: u64,
    /// For the whole body of a request to arrive from inside.
    pub(crate) body_seconds: u64,
    /// Until the head of the answer.
    pub(crate) answer_seconds: u64,
    /// Between two pieces of the answer.
    pub(crate) idle_seconds: u64,
}

impl Default for Timeouts {
    /// Models think for minutes, and their clients wait that long.
    fn default() -> Self {
        Self { connect_seconds: 10, body_seconds: 60, answer_seconds: 600, idle_seconds: 300 }
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Budget {
    pub(crate) requests: Option<u64>,
    pub(crate) tokens: Option<u64>,
    pub(crate) dollars: Option<Dollars>,
    pub(crate) requests_per_minute: Option<u32>,
    pub(crate) every_seconds: Option<u64>,
}

impl From<Budget> for Limit {
    fn from(budget: Budget) -> Self {
        Self {
            requests: budget.requests,
            tokens: budget.tokens,
            nano_dollars: budget.dollars.map(|dollars| dollars.nano),
            requests_per_minute: budget.requests_per_minute,
            every: budget.every_seconds.map(Duration::from_secs),
        }
    }
}

/// Money, written as text so that no binary fraction comes near it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Dollars {
    pub(crate) nano: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an amount of dollars is written like \"12.50\", with at most nine places")]
pub(crate) struct InvalidDollars;

impl FromStr for Dollars {
    type Err = InvalidDollars;

    fn from_str(text: &str) -> Result<Self, InvalidDollars> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 9 {
            return Err(InvalidDollars);
        }
        let whole: u64 = whole.parse().map_err(|_| InvalidDollars)?;
        let part: u64 = format!("{part:0<9}").parse().map_err(|_| InvalidDollars)?;
        let nano = whole.checked_mul(1_000_000_000).and_then(|nano| nano.checked_add(part));
        nano.map(|nano| Self { nano }).ok_or(InvalidDollars)
    }
}

impl TryFrom<String> for Dollars {
    type Error = InvalidDollars;

    fn try_from(text: String) -> Result<Self, InvalidDollars> {
        text.parse()
    }
}

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b":-_.".contains(&b);
        let fits = (1..=64).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(is_plain);
        fits.then(|| Self(text.to_owned())).ok_or(InvalidName)
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_exact() {
        let nano = |text: &str| text.parse::<Dollars>().map(|dollars| dollars.nano);
        assert_eq!(nano("0.1"), Ok(100_000_000));
        assert_eq!(nano("12.50"), Ok(12_500_000_000));
        assert_eq!(nano("3"), Ok(3_000_000_000));
        assert_eq!(nano("0.000000001"), Ok(1));
        for wrong in ["", ".", "1.", ".5", "-1", "1e3", "0.0000000001", "99999999999999", "1 "] {
            assert_eq!(nano(wrong), Err(InvalidDollars), "{wrong}");
        }
    }

    #[test]
    fn names_need_no_quoting() {
        for right in ["llm:chat", "a", "data.read-2_x"] {
            assert!(right.parse::<Name>().is_ok(), "{right}");
        }
        for wrong in ["", "A", "a/b", "a%2f", "..", "-a", "a b", "ä", &"a".repeat(65)] {
            assert!(wrong.parse::<Name>().is_err(), "{wrong}");
        }
    }
}
