//! Signed messages: a body, and an Ed25519 signature over its purpose, its context and it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::keys::{KeyError, KeyPair, PublicKey};

/// The kind of a signed message: one that is signed for one purpose is not accepted for
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Control passes a tenant's request to a node.
    Request,
    /// Control says what time it is.
    Clock,
    /// A node shows that it has the key that it enrols.
    Enrolment,
    /// A node's heartbeat.
    Beat,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Request => b"belljar request v1\0",
            Self::Clock => b"belljar clock v1\0",
            Self::Enrolment => b"belljar enrolment v1\0",
            Self::Beat => b"belljar beat v1\0",
        }
    }
}

/// The reason a signed message is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("it is not a signed message")]
    Form,
    #[error("no trusted key signed it")]
    Untrusted,
}

/// Signs `body`, which is about `context`: something that the verifier knows as well.
pub fn sign<T: Serialize>(
    key: &KeyPair,
    purpose: Purpose,
    context: &[u8],
    body: &T,
) -> Result<String, KeyError> {
    // Only types of ours come here; all of them can be written as JSON.
    let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(body).unwrap_or_default());
    let signature = sign_bytes(key, purpose, context, body.as_bytes())?;
    Ok(format!("{body}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Reads a message that one of `keys` signed.
pub fn verify<T: DeserializeOwned>(
    keys: &[PublicKey],
    purpose: Purpose,
    context: &[u8],
    text: &str,
) -> Result<T, SignatureError> {
    let (body, signature) = text.split_once('.').ok_or(SignatureError::Form)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| SignatureError::Form)?;
    if !verify_bytes(keys, purpose, context, body.as_bytes(), &signature) {
        return Err(SignatureError::Untrusted);
    }
    let body = URL_SAFE_NO_PAD.decode(body).map_err(|_| SignatureError::Form)?;
    serde_json::from_slice(&body).map_err(|_| SignatureError::Form)
}

/// The signature over `body` alone, for messages that carry it beside.
pub fn sign_bytes(
    key: &KeyPair,
    purpose: Purpose,
    context: &[u8],
    body: &[u8],
) -> Result<Vec<u8>, KeyError> {
    key.sign(&message(purpose, context, body))
}

/// Returns true if one of `keys` made `signature` over `body`.
pub fn verify_bytes(
    keys: &[PublicKey],
    purpose: Purpose,
    context: &[u8],
    body: &[u8],
    signature: &[u8],
) -> bool {
    let message = message(purpose, context, body);
    keys.iter().any(|key| key.verifies(&message, signature))
}

/// The length before the context keeps it apart from the body, whatever either contains.
fn message(purpose: Purpose, context: &[u8], body: &[u8]) -> Vec<u8> {
    let length = u64::try_from(context.len()).unwrap_or(u64::MAX).to_be_bytes();
    [purpose.label(), &length, context, body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_believed_for_its_purpose_and_context_only() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let (ours, theirs) = (key.public_key(), other.public_key());
        let text = sign(&key, Purpose::Request, b"GET /", &"body").unwrap();
        let read = |keys: &[PublicKey], purpose, context: &[u8]| {
            verify::<String>(keys, purpose, context, &text)
        };
        assert_eq!(read(&[theirs, ours], Purpose::Request, b"GET /"), Ok("body".to_owned()));
        let untrusted = Err(SignatureError::Untrusted);
        assert_eq!(read(&[theirs], Purpose::Request, b"GET /"), untrusted);
        assert_eq!(read(&[], Purpose::Request, b"GET /"), untrusted);
        assert_eq!(read(&[ours], Purpose::Clock, b"GET /"), untrusted);
        assert_eq!(read(&[ours], Purpose::Request, b"GET /a"), untrusted);
    }

    #[test]
    fn nothing_of_a_message_can_be_changed() {
        let key = KeyPair::generate().unwrap();
        let text = sign(&key, Purpose::Request, b"c", &"body").unwrap();
        let (body, signature) = text.split_once('.').unwrap();
        let other = URL_SAFE_NO_PAD.encode("\"ydob\"");
        for wrong in [format!("{other}.{signature}"), format!("{body}."), body.to_owned()] {
            let read = verify::<String>(&[key.public_key()], Purpose::Request, b"c", &wrong);
            assert!(read.is_err(), "{wrong}");
        }
    }
}
