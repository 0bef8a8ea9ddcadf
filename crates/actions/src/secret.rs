//! Tokens that are not for logs.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// 160 random bits, in hexadecimal.
    pub(crate) fn random() -> std::io::Result<Self> {
        let mut bytes = [0u8; 20];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
        Ok(Self(hex(&bytes)))
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
