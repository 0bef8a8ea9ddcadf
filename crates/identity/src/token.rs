//! One-time tokens that a node enrols with.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::keys::{KeyError, digest, random};

const PREFIX: &str = "bjnode_";

/// A secret that control knows the digest of, and the digest of control's CA
/// certificate: by it the node knows control before it trusts anything else.
#[derive(Clone, PartialEq, Eq)]
pub struct EnrolmentToken {
    secret: [u8; 32],
    authority: [u8; 32],
}

/// The reason a text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an enrolment token looks like `{PREFIX}...`, as `belljar admin node add` prints it")]
pub struct InvalidToken;

impl EnrolmentToken {
    /// Makes a token for control whose CA certificate (DER) this is.
    pub fn generate(authority: &[u8]) -> Result<Self, KeyError> {
        Ok(Self { secret: random()?, authority: digest(authority) })
    }

    /// The part that control is shown.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// The digest of the secret, which is all that the database keeps.
    pub fn digest(&self) -> [u8; 32] {
        digest(&self.secret)
    }

    /// The digest of the CA certificate that control must present.
    pub fn authority(&self) -> [u8; 32] {
        self.authority
    }

    /// The token as text. It is shown once, by whoever makes it.
    pub fn expose(&self) -> String {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&self.secret);
        bytes[32..].copy_from_slice(&self.authority);
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for EnrolmentToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let text = text.trim().strip_prefix(PREFIX).ok_or(InvalidToken)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidToken)?;
        let bytes: [u8; 64] = bytes.try_into().map_err(|_| InvalidToken)?;
        let half = |range: std::ops::Range<usize>| {
            let mut half = [0; 32];
            half.copy_from_slice(&bytes[range]);
            half
        };
        Ok(Self { secret: half(0..32), authority: half(32..64) })
    }
}

impl fmt::Debug for EnrolmentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnrolmentToken([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_survives_its_text() {
        let token = EnrolmentToken::generate(b"certificate").unwrap();
        let text = token.expose();
        assert_eq!(format!(" {text}\n").parse(), Ok(token.clone()));
        assert_eq!(token.authority(), digest(b"certificate"));
        assert_ne!(token, EnrolmentToken::generate(b"certificate").unwrap());
        for wrong in ["", "bjnode_", "bjnode_AAAA", &text[7..], &format!("{text}A")] {
            assert_eq!(wrong.parse::<EnrolmentToken>(), Err(InvalidToken), "{wrong}");
        }
        assert!(!format!("{token:?}").contains(&text[7..20]));
    }
}
