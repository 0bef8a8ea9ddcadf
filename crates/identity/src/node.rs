//! A node's identity on its own disk.
//!
//! ```text
//!   identity/node.key           its private key, made here; never leaves the host
//!   identity/certificate.json   its name and number, its certificate, whom it trusts
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use belljar_domain::NodeNumber;
use belljar_peer_proto::encoded::Encoded;
use belljar_peer_proto::enrolment::{Certificate, Trust};
use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use crate::certificate::{Peer, PeerError, PeerIdentity};
use crate::clock::PlatformClock;
use crate::keys::{KeyError, KeyPair, PublicKey};
use crate::private_file::{self, PrivateFileError};
use crate::tls::{Endpoint, TlsConfigError};
use crate::token::EnrolmentToken;

/// The reason a node has no identity.
#[derive(Debug, thiserror::Error)]
pub enum NodeIdentityError {
    #[error(transparent)]
    File(#[from] PrivateFileError),
    #[error("cannot make `{path}`")]
    Directory { path: PathBuf, source: io::Error },
    #[error("the node's key in `{path}` cannot be used")]
    Key { path: PathBuf, source: KeyError },
    #[error("the node's certificate in `{0}` cannot be read")]
    Unreadable(PathBuf, #[source] serde_json::Error),
    #[error("this host is enrolled as `{enrolled}`, not as `{asked}`")]
    Name { enrolled: String, asked: String },
    #[error("the certificate is not this node's")]
    Certificate(#[source] PeerError),
    #[error("the certificate or what it trusts cannot be used")]
    Tls(#[from] TlsConfigError),
}

/// Who a node is to its platform; cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeIdentity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    name: String,
    token: Encoded,
    key: KeyPair,
    clock: PlatformClock,
    endpoint: Endpoint,
    current: RwLock<Current>,
    /// Held while the file is written.
    writing: Mutex<()>,
}

#[derive(Debug, Clone)]
struct Current {
    certificate: Certificate,
    verifying_keys: Arc<[PublicKey]>,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    name: String,
    /// The SHA-256 of the token that was redeemed for it.
    token: Encoded,
    #[serde(flatten)]
    certificate: Certificate,
}

fn key_file(directory: &Path) -> PathBuf {
    directory.join("node.key")
}

fn certificate_file(directory: &Path) -> PathBuf {
    directory.join("certificate.json")
}

/// The key that a node enrols with: made once, and kept, so that an enrolment whose
/// answer was lost can be asked for again.
pub fn pending_key(directory: &Path) -> Result<KeyPair, NodeIdentityError> {
    let path = key_file(directory);
    let cannot = |source| NodeIdentityError::Key { path: path.clone(), source };
    if path.exists() {
        let text = private_file::read(&path)?;
        return KeyPair::from_pem(&String::from_utf8_lossy(&text)).map_err(cannot);
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| NodeIdentityError::Directory { path: directory.to_owned(), source })?;
    let key = KeyPair::generate().map_err(cannot)?;
    private_file::write(&path, key.to_pem().as_bytes())?;
    Ok(key)
}

impl NodeIdentity {
    /// Reads what an enrolment has left in `directory`. None: this host is not enrolled.
    pub fn load(directory: &Path, name: &str) -> Result<Option<Self>, NodeIdentityError> {
        let file = certificate_file(directory);
        if !file.exists() {
            return Ok(None);
        }
        let key = pending_key(directory)?;
        let text = private_file::read(&file)?;
        let saved: Saved = serde_json::from_slice(&text)
            .map_err(|source| NodeIdentityError::Unreadable(file.clone(), source))?;
        if saved.name != name {
            let asked = name.to_owned();
            return Err(NodeIdentityError::Name { enrolled: saved.name, asked });
        }
        Self::new(file, saved.name, saved.token, key, saved.certificate).map(Some)
    }

    /// Keeps what control has answered to an enrolment.
    pub fn enrolled(
        directory: &Path,
        name: &str,
        token: &EnrolmentToken,
        key: KeyPair,
        certificate: Certificate,
    ) -> Result<Self, NodeIdentityError> {
        let (file, token) = (certificate_file(directory), token.digest().into());
        let clock = certificate.now;
        let identity = Self::new(file, name.to_owned(), token, key, certificate)?;
        identity.clock().set(clock);
        identity.save()?;
        Ok(identity)
    }

    fn new(
        file: PathBuf,
        name: String,
        token: Encoded,
        key: KeyPair,
        certificate: Certificate,
    ) -> Result<Self, NodeIdentityError> {
        let clock = PlatformClock::default();
        let endpoint = Endpoint::new(clock.clone());
        let current = checked(&endpoint, &key, certificate)?;
        let (current, writing) = (RwLock::new(current), Mutex::default());
        Ok(Self(Arc::new(Inner { file, name, token, key, clock, endpoint, current, writing })))
    }

    /// Takes a newer certificate, or trust, into use.
    pub fn renew(&self, certificate: Certificate) -> Result<(), NodeIdentityError> {
        if certificate.number != self.number() {
            return Err(NodeIdentityError::Certificate(PeerError::Other));
        }
        self.replace(certificate)
    }

    /// Trusts these authorities from now on.
    pub fn set_trust(&self, trust: Trust) -> Result<(), NodeIdentityError> {
        let certificate = Certificate { trust, ..self.current().certificate };
        self.replace(certificate)
    }

    fn replace(&self, certificate: Certificate) -> Result<(), NodeIdentityError> {
        let current = checked(&self.0.endpoint, &self.0.key, certificate)?;
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        self.save()
    }

    fn save(&self) -> Result<(), NodeIdentityError> {
        let _writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let certificate = self.current().certificate;
        let (name, token) = (self.0.name.clone(), self.0.token.clone());
        let saved = Saved { name, token, certificate };
        let text = serde_json::to_vec_pretty(&saved)
            .map_err(|source| NodeIdentityError::Unreadable(self.0.file.clone(), source))?;
        Ok(private_file::write(&self.0.file, &text)?)
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn number(&self) -> NodeNumber {
        self.current().certificate.number
    }

    pub fn key(&self) -> &KeyPair {
        &self.0.key
    }

    pub fn clock(&self) -> &PlatformClock {
        &self.0.clock
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// The keys that control's signatures are verified with.
    pub fn verifying_keys(&self) -> Arc<[PublicKey]> {
        self.current().verifying_keys
    }

    pub fn trust(&self) -> Trust {
        self.current().certificate.trust
    }

    /// Until the certificate expires.
    pub fn certificate_left(&self) -> Duration {
        let expires_at = self.current().certificate.expires_at;
        Duration::from_millis(expires_at.saturating_sub(self.0.clock.now()))
    }

    /// Returns true if this token was redeemed for the identity.
    pub fn is_enrolled_with(&self, token: &EnrolmentToken) -> bool {
        self.0.token.0 == token.digest()
    }

    /// Returns true if a third of the certificate's life or less is left, or if an
    /// authority that is being replaced issued it.
    pub fn needs_renewal(&self) -> bool {
        let Certificate { issued_at, expires_at, generation, trust, .. } =
            self.current().certificate;
        let life = expires_at.saturating_sub(issued_at);
        let left = expires_at.saturating_sub(self.0.clock.now());
        left <= life / 3 || generation != trust.current
    }

    fn current(&self) -> Current {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Checks that the certificate is for this node's key, and has the endpoint use it.
fn checked(
    endpoint: &Endpoint,
    key: &KeyPair,
    certificate: Certificate,
) -> Result<Current, NodeIdentityError> {
    let der = CertificateDer::from(certificate.certificate.0.clone());
    let identity = PeerIdentity::of(&der).map_err(NodeIdentityError::Certificate)?;
    let own = PeerIdentity { peer: Peer::Node(certificate.number), public_key: key.public_key() };
    if identity != own {
        return Err(NodeIdentityError::Certificate(PeerError::Other));
    }
    let trusted = &certificate.trust.authorities;
    let verifying_keys = trusted
        .iter()
        .map(|authority| PublicKey::from_bytes(&authority.verifying_key.0))
        .collect::<Result<_, _>>()
        .map_err(|error| NodeIdentityError::Tls(error.into()))?;
    let roots: Vec<_> =
        trusted.iter().map(|one| CertificateDer::from(one.certificate.0.clone())).collect();
    endpoint.set_trust(&roots)?;
    endpoint.set_certificate(vec![der], key)?;
    Ok(Current { certificate, verifying_keys })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::authority::Authority;
    use belljar_peer_proto::enrolment::TrustedAuthority;

    fn number(number: u16) -> NodeNumber {
        NodeNumber::new(number).unwrap()
    }

    fn certificate(authority: &Authority, number: NodeNumber, key: &KeyPair) -> Certificate {
        let clock = PlatformClock::default();
        let life = Duration::from_secs(60);
        let issued = authority.issue(Peer::Node(number), &key.public_key(), &clock, life);
        let trusted = TrustedAuthority {
            generation: 1,
            certificate: Encoded(authority.certificate().to_vec()),
            verifying_key: authority.verifying_key().encoded(),
        };
        Certificate {
            number,
            certificate: Encoded(issued.unwrap().to_vec()),
            generation: 1,
            issued_at: clock.now(),
            expires_at: clock.now() + 60_000,
            trust: Trust { current: 1, authorities: vec![trusted] },
            now: clock.now(),
        }
    }

    #[test]
    fn identity_survives_a_restart_under_its_own_name() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        assert!(NodeIdentity::load(directory, "n").unwrap().is_none());
        let authority = Authority::generate(&PlatformClock::default()).unwrap();
        let key = pending_key(directory).unwrap();
        assert_eq!(pending_key(directory).unwrap().public_key(), key.public_key());
        let token = EnrolmentToken::generate(b"").unwrap();
        let issued = certificate(&authority, number(3), &key);
        NodeIdentity::enrolled(directory, "n", &token, key.clone(), issued).unwrap();
        let loaded = NodeIdentity::load(directory, "n").unwrap().unwrap();
        assert_eq!((loaded.number(), loaded.key().public_key()), (number(3), key.public_key()));
        assert_eq!(*loaded.verifying_keys(), [authority.verifying_key()]);
        assert!(loaded.is_enrolled_with(&token) && !loaded.needs_renewal());
        let other = NodeIdentity::load(directory, "m");
        assert!(matches!(other, Err(NodeIdentityError::Name { .. })), "{other:?}");
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(directory.join("node.key"), open).unwrap();
        let error = NodeIdentity::load(directory, "n").unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn certificate_of_another_key_or_number_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::generate(&PlatformClock::default()).unwrap();
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let token = EnrolmentToken::generate(b"").unwrap();
        let issued = certificate(&authority, number(3), &key);
        let identity = NodeIdentity::enrolled(directory.path(), "n", &token, key.clone(), issued);
        let identity = identity.unwrap();
        for wrong in [
            certificate(&authority, number(4), &key),
            certificate(&authority, number(3), &other),
            Certificate { number: number(4), ..certificate(&authority, number(3), &key) },
        ] {
            assert!(identity.renew(wrong).is_err());
        }
        let old = Certificate { issued_at: 0, ..certificate(&authority, number(3), &key) };
        identity.renew(Certificate { expires_at: old.now + 10_000, ..old }).unwrap();
        assert!(identity.needs_renewal(), "little of its life is left");
        identity.renew(certificate(&authority, number(3), &key)).unwrap();
        assert!(!identity.needs_renewal());
        let trust = Trust { current: 2, ..identity.trust() };
        identity.set_trust(trust).unwrap();
        assert!(identity.needs_renewal(), "its authority is being replaced");
    }
}
