//! The names in certificates.

use belljar_domain::NodeNumber;
use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;

use crate::keys::PublicKey;

/// Below a domain that is reserved for private use: no public authority issues for it.
const DOMAIN: &str = "belljar.internal";

/// One of the two kinds of peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Control,
    Node(NodeNumber),
}

/// The reason a certificate names no peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    #[error("the certificate cannot be parsed")]
    Parse,
    #[error("the certificate does not name one peer of a platform")]
    Name,
    #[error("the certificate's key is not an Ed25519 key")]
    Key,
    #[error("the certificate is not valid now")]
    Invalid,
    #[error("the peer shows no certificate")]
    Absent,
    #[error("the certificate is another peer's")]
    Other,
}

/// A peer, as its certificate has proven it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    pub peer: Peer,
    pub public_key: PublicKey,
}

impl Peer {
    /// The DNS name in this peer's certificate.
    pub fn name(self) -> String {
        match self {
            Self::Control => format!("control.{DOMAIN}"),
            Self::Node(number) => format!("node-{number}.{DOMAIN}"),
        }
    }

    fn named(name: &str) -> Option<Self> {
        let label = name.strip_suffix(DOMAIN)?.strip_suffix('.')?;
        if label == "control" {
            return Some(Self::Control);
        }
        let number = label.strip_prefix("node-")?.parse().ok().and_then(NodeNumber::new)?;
        // One spelling only: no `node-07`.
        Some(Self::Node(number)).filter(|peer| peer.name() == name)
    }

    pub(crate) fn server_name(self) -> ServerName<'static> {
        // Labels of letters, digits and hyphens always are a DNS name.
        ServerName::try_from(self.name())
            .unwrap_or(ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into()))
    }
}

/// The DER of an Ed25519 public key up to its 32 bytes (RFC 8410).
const ED25519_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

impl PeerIdentity {
    /// Reads the peer that a certificate names. The certificate must have been
    /// verified: this looks at no signature.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, PeerError> {
        let certificate = EndEntityCert::try_from(certificate).map_err(|_| PeerError::Parse)?;
        let mut names = certificate.valid_dns_names();
        let (Some(name), None) = (names.next(), names.next()) else {
            return Err(PeerError::Name);
        };
        let peer = Peer::named(name).ok_or(PeerError::Name)?;
        let info = certificate.subject_public_key_info();
        let key = info.as_ref().strip_prefix(&ED25519_PREFIX[..]).ok_or(PeerError::Key)?;
        let public_key = PublicKey::from_bytes(key).map_err(|_| PeerError::Key)?;
        Ok(Self { peer, public_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_one_peer_and_back() {
        let seven = Peer::Node(NodeNumber::new(7).unwrap());
        assert_eq!(seven.name(), "node-7.belljar.internal");
        for peer in [Peer::Control, seven] {
            assert_eq!(Peer::named(&peer.name()), Some(peer));
        }
        for other in [
            "node-07.belljar.internal",
            "node-0.belljar.internal",
            "node-.belljar.internal",
            "node-99999.belljar.internal",
            "belljar.internal",
            "control.belljar.internal.example.com",
            "x.control.belljar.internal",
            "node-7",
        ] {
            assert_eq!(Peer::named(other), None, "{other}");
        }
    }
}
