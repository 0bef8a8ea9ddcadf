//! In whose name a request comes to a node.
//!
//! Control authenticates the caller, and says so in a header that it signs. A node
//! verifies it with control's public keys; it holds nothing that could sign one.

use std::time::Duration;

use belljar_domain::{NodeNumber, OperationCaps, SandboxId, Tier};
use serde::{Deserialize, Serialize};

use crate::encoded::Encoded;

/// The header that holds a signed [`Behalf`].
pub const HEADER: &str = "belljar-behalf";

/// Said by a node that belongs to no platform just now: it has done nothing.
pub const ABSENT: &str = "belljar-absent";

/// Asks a node whether a request would be for a sandbox of its own.
pub const WHOSE: &str = "belljar-whose";

/// Where each item of a list stands in its order, said by a node to control.
pub const KEYS: &str = "belljar-keys";

/// How old a signed request may be. Control and nodes use one clock, the platform's;
/// this is what a request may take on its way.
pub const FRESH: Duration = Duration::from_secs(60);

/// The caller of a request, and what control has decided for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behalf {
    pub tenant: String,
    /// The weakest tier that the tenant's sandboxes may have, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Tier>,
    /// The caps on operations of the tenant and of the API key.
    #[serde(default, skip_serializing_if = "OperationCaps::is_all")]
    pub operation_caps: OperationCaps,
    /// The ids of sandboxes that this request makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<SandboxId>,
    /// The node that it is for.
    pub node: NodeNumber,
    /// The SHA-256 of the body, if control held all of it. None: the body is streamed,
    /// and only TLS protects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Encoded>,
    /// Random: a request is accepted once.
    pub nonce: Encoded,
    /// When it was signed, on the platform's clock, in milliseconds since 1970.
    pub at: u64,
}

/// The context that a [`Behalf`] is signed for: method, path and query.
pub fn about(method: &str, path: &str) -> String {
    format!("{method} {path}")
}

/// Returns true if something signed at `at` is fresh at `now`, both in milliseconds.
pub fn is_fresh(at: u64, now: u64) -> bool {
    u128::from(at.abs_diff(now)) <= FRESH.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_fresh_both_ways() {
        assert!(is_fresh(100_000, 159_000) && is_fresh(159_000, 100_000));
        assert!(!is_fresh(100_000, 161_000) && !is_fresh(161_000, 100_000));
    }
}
