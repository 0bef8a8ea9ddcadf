//! Tokens that are not for logs.

use std::fmt;
use std::sync::OnceLock;

use belljar_domain::NodeNumber;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Which node of a platform this process is: whatever is named or opened by what
/// it makes is found again by it.
static MARK: OnceLock<NodeNumber> = OnceLock::new();

/// From now on, everything that is made here says on which node it was.
pub fn mark(node: NodeNumber) {
    let _ = MARK.set(node);
}

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// 160 random bits, in hexadecimal; on a node of a platform 144, after its
    /// number.
    pub(crate) fn random() -> std::io::Result<Self> {
        let mut bytes = [0u8; 20];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
        if let Some(node) = MARK.get() {
            bytes[..2].copy_from_slice(&node.get().to_be_bytes());
        }
        Ok(Self(hex(&bytes)))
    }

    /// Another secret, for one purpose, by which this one cannot be found. Restarts do not
    /// change it.
    pub(crate) fn derive(&self, purpose: &str) -> Self {
        let digest = Sha256::new().chain_update(purpose).chain_update([0]).chain_update(&self.0);
        Self(hex(&digest.finalize()[..20]))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether this is it, in a time that does not tell how much of it fits.
    pub fn is(&self, given: &str) -> bool {
        Sha256::digest(&self.0) == Sha256::digest(given)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
