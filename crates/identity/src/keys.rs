//! Ed25519 keys, randomness and digests.

use std::fmt;
use std::sync::Arc;

use belljar_peer_proto::encoded::Encoded;
use rcgen::{PKCS_ED25519, PublicKeyData, SigningKey as _};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, UnparsedPublicKey};
use rustls_pki_types::PrivatePkcs8KeyDer;
use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls;

/// The reason a key is not there.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot generate a key")]
    Generate(#[source] rcgen::Error),
    #[error("cannot parse an Ed25519 key")]
    Parse(#[source] rcgen::Error),
    #[error("an Ed25519 public key has 32 bytes")]
    Length,
    #[error("the system has no randomness")]
    Random,
    #[error("cannot sign")]
    Sign(#[source] rcgen::Error),
    #[error("TLS cannot use the key")]
    Tls(#[source] rustls::Error),
}

/// Returns bytes that cannot be guessed.
pub fn random<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(bytes)
}

/// The SHA-256 of some bytes.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// An Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        bytes.try_into().map(Self).map_err(|_| KeyError::Length)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn encoded(&self) -> Encoded {
        Encoded(self.0.to_vec())
    }

    /// Returns true if `signature` is this key's over `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    /// The first 64 bits of its digest: enough for people to compare.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        digest(&self.0).iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &PKCS_ED25519
    }
}

/// An Ed25519 key pair; cheap to clone.
#[derive(Clone)]
pub struct KeyPair {
    pair: Arc<rcgen::KeyPair>,
    public: PublicKey,
}

impl KeyPair {
    pub fn generate() -> Result<Self, KeyError> {
        Self::new(rcgen::KeyPair::generate_for(&PKCS_ED25519).map_err(KeyError::Generate)?)
    }

    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from(der);
        let pair = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519);
        Self::new(pair.map_err(KeyError::Parse)?)
    }

    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let pair = rcgen::KeyPair::from_pkcs8_pem_and_sign_algo(text, &PKCS_ED25519);
        Self::new(pair.map_err(KeyError::Parse)?)
    }

    fn new(pair: rcgen::KeyPair) -> Result<Self, KeyError> {
        let public = PublicKey::from_bytes(pair.public_key_raw())?;
        Ok(Self { pair: Arc::new(pair), public })
    }

    pub fn to_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    pub(crate) fn pkcs8(&self) -> &[u8] {
        self.pair.serialized_der()
    }

    pub(crate) fn rcgen(&self) -> &rcgen::KeyPair {
        &self.pair
    }

    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        self.pair.sign(message).map_err(KeyError::Sign)
    }

    pub(crate) fn for_tls(&self) -> Result<Arc<dyn rustls::sign::SigningKey>, KeyError> {
        let der = PrivatePkcs8KeyDer::from(self.pkcs8());
        rustls::crypto::ring::sign::any_eddsa_type(&der).map_err(KeyError::Tls)
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({}, [redacted])", self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_survives_its_file() {
        let key = KeyPair::generate().unwrap();
        let same = KeyPair::from_pem(&key.to_pem()).unwrap();
        assert_eq!(same.public_key(), key.public_key());
        let signature = same.sign(b"x").unwrap();
        assert!(key.public_key().verifies(b"x", &signature));
        assert!(!key.public_key().verifies(b"y", &signature));
        assert!(!KeyPair::generate().unwrap().public_key().verifies(b"x", &signature));
        let shown = format!("{key:?}");
        assert!(shown.contains("[redacted]"), "{shown}");
    }
}
