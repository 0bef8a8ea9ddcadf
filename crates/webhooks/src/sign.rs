//! Signatures of messages, by the Standard Webhooks specification.
//!
//! HMAC-SHA256 over `id.timestamp.body`. The header has one signature for each valid
//! secret, separated by spaces, so that a receiver can change its secret without a gap.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

const PREFIX: &str = "whsec_";
/// The specification recommends 24 to 64 bytes.
const SECRET_BYTES: usize = 32;

/// The key that a tenant and the platform share for one webhook.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(Vec<u8>);

/// The system has no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot get random numbers")]
pub struct NoRandom;

impl Secret {
    pub fn generate() -> Result<Self, NoRandom> {
        let mut bytes = [0; SECRET_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
        Ok(Self(bytes.to_vec()))
    }

    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text that the tenant gets once: `whsec_` and Base64.
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let tag = hmac::sign(&key, format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(tag.as_ref()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Returns the value of the header `webhook-signature`.
pub fn signatures(secrets: &[Secret], id: &str, timestamp: i64, body: &str) -> String {
    let all = secrets.iter().map(|secret| secret.sign(id, timestamp, body));
    all.collect::<Vec<_>>().join(" ")
}

/// Returns an id that cannot be guessed: the prefix and 32 hexadecimal digits.
pub(crate) fn random_id(prefix: &str) -> Result<String, NoRandom> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(format!("{prefix}{:032x}", u128::from_be_bytes(bytes)))
}

/// Returns a random number for jitter; 0 if there is none.
pub(crate) fn random_number() -> u32 {
    let mut bytes = [0; 4];
    let _ = SystemRandom::new().fill(&mut bytes);
    u32::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Secret {
        Secret(STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap())
    }

    /// The vector of the specification's own libraries.
    #[test]
    fn signature_matches_the_vector_of_the_specification() {
        let signed = signatures(
            &[known()],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(known().expose(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    }

    #[test]
    fn two_valid_secrets_give_two_signatures() {
        let (old, new) = (known(), Secret::generate().unwrap());
        let both = signatures(&[new.clone(), old.clone()], "m", 1, "{}");
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!(first, signatures(&[new], "m", 1, "{}"));
        assert_eq!(second, signatures(&[old], "m", 1, "{}"));
        assert_ne!(first, second);
    }

    #[test]
    fn a_changed_part_changes_the_signature() {
        let signed = |id, at, body| signatures(&[known()], id, at, body);
        let all =
            [signed("a", 1, "x"), signed("b", 1, "x"), signed("a", 2, "x"), signed("a", 1, "y")];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one));
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", known()), "[redacted]");
        assert_ne!(Secret::generate().unwrap(), Secret::generate().unwrap());
    }
}
