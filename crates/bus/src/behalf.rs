//! In whose name a request comes to a node.
//!
//! Control proves who asks, and says so in a header that nobody without the
//! cluster's key can make. It is bound to one method and one path, and fresh for
//! a minute. Between control and nodes, both ways, messages are proven alike.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belljar_model::{SandboxId, Tier};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Where it is said.
pub const HEADER: &str = "belljar-behalf";

/// Said by a node that belongs to no platform just now: it has done nothing.
pub const ABSENT: &str = "belljar-absent";

/// Asks a node whether a request would be for a sandbox of its own.
pub const WHOSE: &str = "belljar-whose";

/// Where each item of a list stands in its order, said by a node to control.
pub const KEYS: &str = "belljar-keys";

/// How far apart the clocks of two hosts may be, and how long a message may take.
pub const FRESH: Duration = Duration::from_secs(60);

/// In whose name, and what control has decided for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behalf {
    pub tenant: String,
    /// The weakest wall that the tenant's sandboxes may have, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Tier>,
    /// What sandboxes that this request makes are called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<SandboxId>,
    /// When it was said, on control's clock, in milliseconds since 1970.
    pub at: u64,
}

/// Why something said is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    #[error("it is not what control says")]
    Form,
    #[error("it was not made with the cluster's key")]
    Proof,
    #[error("it is too old, or the clocks of the hosts differ by more than a minute")]
    Stale,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum ClusterKeyError {
    #[error("cannot read the cluster's key in `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("the cluster's key in `{0}` has fewer than {SHORTEST} characters")]
    Short(PathBuf),
}

const SHORTEST: usize = 32;

/// What control and all nodes of a platform share.
#[derive(Clone)]
pub struct ClusterKey(Hmac<Sha256>);

impl std::fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterKey([redacted])")
    }
}

impl ClusterKey {
    /// Reads it from a file; white space around it does not count.
    pub fn read(path: &Path) -> Result<Self, ClusterKeyError> {
        let text = fs::read_to_string(path);
        let text =
            text.map_err(|source| ClusterKeyError::Read { path: path.to_owned(), source })?;
        let text = text.trim();
        if text.len() < SHORTEST {
            return Err(ClusterKeyError::Short(path.to_owned()));
        }
        Ok(Self::of(text))
    }

    pub fn of(text: &str) -> Self {
        // A key that is shorter than a block is filled up with zeros.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&Sha256::digest(text));
        Self(Hmac::new(&block.into()))
    }

    /// Says something about `what`, which whoever hears it knows as well.
    pub fn sign<T: Serialize>(&self, what: &str, said: &T) -> Result<String, serde_json::Error> {
        let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(said)?);
        let proof = URL_SAFE_NO_PAD.encode(self.mac(what, &body).finalize().into_bytes());
        Ok(format!("{body}.{proof}"))
    }

    pub fn verify<T: for<'de> Deserialize<'de>>(
        &self,
        what: &str,
        text: &str,
    ) -> Result<T, Unproven> {
        let (body, proof) = text.split_once('.').ok_or(Unproven::Form)?;
        let proof = URL_SAFE_NO_PAD.decode(proof).map_err(|_| Unproven::Form)?;
        self.mac(what, body).verify_slice(&proof).map_err(|_| Unproven::Proof)?;
        let body = URL_SAFE_NO_PAD.decode(body).map_err(|_| Unproven::Form)?;
        serde_json::from_slice(&body).map_err(|_| Unproven::Form)
    }

    fn mac(&self, what: &str, body: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(what.as_bytes());
        mac.update(&[0]);
        mac.update(body.as_bytes());
        mac
    }
}

/// What a request is about, for [`ClusterKey::sign`].
pub fn about(method: &str, path: &str) -> String {
    format!("{method} {path}")
}

/// Whether something said at `at` is fresh at `now`, both in milliseconds.
pub fn is_fresh(at: u64, now: u64) -> bool {
    u128::from(at.abs_diff(now)) <= FRESH.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behalf() -> Behalf {
        let id = SandboxId::from_random([3; 16]);
        Behalf { tenant: "one".into(), floor: Some(Tier::Jail), ids: vec![id], at: 5 }
    }

    #[test]
    fn what_was_signed_is_believed_for_its_request_only() {
        let key = ClusterKey::of("k");
        let said = key.sign("POST /sandboxes", &behalf()).unwrap();
        assert_eq!(key.verify("POST /sandboxes", &said), Ok(behalf()));
        assert_eq!(key.verify::<Behalf>("POST /sandboxes/", &said), Err(Unproven::Proof));
        assert_eq!(key.verify::<Behalf>("DELETE /sandboxes", &said), Err(Unproven::Proof));
        let other = ClusterKey::of("l");
        assert_eq!(other.verify::<Behalf>("POST /sandboxes", &said), Err(Unproven::Proof));
    }

    #[test]
    fn nothing_of_it_can_be_changed() {
        let key = ClusterKey::of("k");
        let said = key.sign("GET /", &behalf()).unwrap();
        let (body, proof) = said.split_once('.').unwrap();
        let more = Behalf { tenant: "two".into(), ..behalf() };
        let more = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&more).unwrap());
        for wrong in [format!("{more}.{proof}"), format!("{body}."), body.to_owned(), String::new()]
        {
            assert!(key.verify::<Behalf>("GET /", &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_minute_is_fresh_both_ways() {
        assert!(is_fresh(100_000, 159_000) && is_fresh(159_000, 100_000));
        assert!(!is_fresh(100_000, 161_000) && !is_fresh(161_000, 100_000));
    }
}
