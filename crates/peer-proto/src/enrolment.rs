//! How a node becomes a member, and stays one: enrolment, certificates, trust.

use belljar_domain::NodeNumber;
use serde::{Deserialize, Serialize};

use crate::encoded::Encoded;

/// Exchanges a one-time token for a certificate. Needs no client certificate.
pub const ENROL: &str = "/internal/nodes/enrol";
/// Exchanges a certificate for a newer one.
pub const RENEW: &str = "/internal/nodes/renew";
/// Control's time, signed. Needs no client certificate: a node whose clock is wrong
/// cannot verify control's certificate, but can verify this.
pub const CLOCK: &str = "/internal/clock";

/// Asks for a certificate with a one-time token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrol {
    pub name: String,
    /// The secret half of the token.
    pub token: Encoded,
    pub public_key: Encoded,
    /// The key's signature over name and token: the sender has the private half.
    pub proof: Encoded,
}

/// A node's certificate, and whom it trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    pub number: NodeNumber,
    /// DER.
    pub certificate: Encoded,
    /// The generation of the authority that issued it.
    pub generation: u32,
    /// Milliseconds since 1970, on control's clock.
    pub issued_at: u64,
    pub expires_at: u64,
    pub trust: Trust,
    pub now: u64,
}

/// The authorities that a node trusts. During a rotation there are two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// The generation that issues and signs now.
    pub current: u32,
    pub authorities: Vec<TrustedAuthority>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedAuthority {
    pub generation: u32,
    /// The CA's certificate, DER.
    pub certificate: Encoded,
    /// The key that verifies control's signatures.
    pub verifying_key: Encoded,
}

impl Trust {
    /// A short text that differs if the trust does.
    pub fn version(&self) -> String {
        let keys = self.authorities.iter().map(|authority| {
            let key = authority.verifying_key.0.iter().take(6);
            key.map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        std::iter::once(self.current.to_string()).chain(keys).collect::<Vec<_>>().join(".")
    }
}

/// Asks control what time it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskClock {
    /// Random: an answer to another question is not this one's.
    pub nonce: Encoded,
}
