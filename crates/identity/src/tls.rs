//! TLS 1.3 with certificates on both sides. Certificates and authorities can be replaced
//! while connections are open; new connections use the new ones.

mod verifiers;

use std::sync::{Arc, PoisonError, RwLock};

use rustls_pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerifier};
use tokio_rustls::rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, RootCertStore,
    ServerConfig, ServerConnection, SignatureScheme,
};

use crate::certificate::{Peer, PeerError, PeerIdentity};
use crate::clock::PlatformClock;
use crate::keys::{KeyError, KeyPair};

use self::verifiers::{ClientVerifier, PinnedVerifier, ServerVerifier, Unverified};

/// The reason there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    #[error("cannot set up TLS")]
    Setup(#[source] Error),
    #[error("an authority's certificate cannot be used")]
    Authority(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The clients that a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Control, and nothing without a certificate. For a node's listener.
    ControlOnly,
    /// Nodes, and clients without a certificate: those may enrol. For control's listener.
    NodesOrEnrolling,
}

/// Sessions that a client can resume: some for each node.
const MAX_SESSIONS: usize = 4096;

/// A peer's own certificate and the authorities that it trusts; cheap to clone.
#[derive(Debug, Clone)]
pub struct Endpoint(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: PlatformClock,
    provider: Arc<CryptoProvider>,
    own: RwLock<Option<Arc<CertifiedKey>>>,
    trusted: RwLock<Option<Verifiers>>,
}

#[derive(Debug, Clone)]
struct Verifiers {
    of_clients: Arc<dyn ClientCertVerifier>,
    of_servers: Arc<WebPkiServerVerifier>,
}

impl Endpoint {
    pub fn new(clock: PlatformClock) -> Self {
        Self(Arc::new(Inner {
            clock,
            provider: Arc::new(ring::default_provider()),
            own: RwLock::default(),
            trusted: RwLock::default(),
        }))
    }

    /// Presents this chain, own certificate first, from the next connection on.
    pub fn set_certificate(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: &KeyPair,
    ) -> Result<(), TlsConfigError> {
        let certified = CertifiedKey::new(chain, key.for_tls()?);
        certified.keys_match().map_err(TlsConfigError::Setup)?;
        *self.0.own.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
        Ok(())
    }

    /// Trusts these authorities, and no others, from the next connection on.
    pub fn set_trust<'a>(
        &self,
        authorities: impl IntoIterator<Item = &'a CertificateDer<'static>>,
    ) -> Result<(), TlsConfigError> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots
                .add(authority.clone())
                .map_err(|error| TlsConfigError::Authority(Box::new(error)))?;
        }
        let roots = Arc::new(roots);
        let provider = self.0.provider.clone();
        let cannot = |error| TlsConfigError::Authority(Box::new(error));
        let of_clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider);
        let provider = self.0.provider.clone();
        let of_servers = WebPkiServerVerifier::builder_with_provider(roots, provider);
        let verifiers = Verifiers {
            of_clients: of_clients.build().map_err(cannot)?,
            of_servers: of_servers.build().map_err(cannot)?,
        };
        *self.0.trusted.write().unwrap_or_else(PoisonError::into_inner) = Some(verifiers);
        Ok(())
    }

    pub fn server_config(&self, clients: Clients) -> Result<Arc<ServerConfig>, TlsConfigError> {
        let verifier = ClientVerifier { endpoint: self.clone(), clients };
        let config = ServerConfig::builder_with_details(
            self.0.provider.clone(),
            Arc::new(self.0.clock.clone()),
        );
        let mut config = config
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsConfigError::Setup)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TlsConfigError> {
        let verifier = Arc::new(ServerVerifier(self.clone()));
        self.client(verifier, Resumption::in_memory_sessions(MAX_SESSIONS))
    }

    fn client(
        &self,
        verifier: Arc<dyn ServerCertVerifier>,
        resumption: Resumption,
    ) -> Result<Arc<ClientConfig>, TlsConfigError> {
        let config = ClientConfig::builder_with_details(
            self.0.provider.clone(),
            Arc::new(self.0.clock.clone()),
        );
        let mut config = config
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsConfigError::Setup)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = resumption;
        Ok(Arc::new(config))
    }

    /// The client of a connection, if it showed a certificate. Of a session that was
    /// resumed it is verified again: it may have expired since, or lost its authority.
    pub fn client_of(
        &self,
        connection: &ServerConnection,
        clients: Clients,
    ) -> Result<Option<PeerIdentity>, PeerError> {
        let Some([certificate, chain @ ..]) = connection.peer_certificates() else {
            return match clients {
                Clients::ControlOnly => Err(PeerError::Absent),
                Clients::NodesOrEnrolling => Ok(None),
            };
        };
        if connection.handshake_kind() == Some(HandshakeKind::Resumed) {
            let verifier = ClientVerifier { endpoint: self.clone(), clients };
            let verified = verifier.verify_client_cert(certificate, chain, self.now());
            verified.map_err(|_| PeerError::Invalid)?;
        }
        PeerIdentity::of(certificate).map(Some)
    }

    /// The server of a connection, which must be `expected`; verified as
    /// [`Self::client_of`] does.
    pub fn server_of(
        &self,
        connection: &ClientConnection,
        expected: Peer,
    ) -> Result<PeerIdentity, PeerError> {
        let Some([certificate, chain @ ..]) = connection.peer_certificates() else {
            return Err(PeerError::Absent);
        };
        if connection.handshake_kind() == Some(HandshakeKind::Resumed) {
            let name = expected.server_name();
            let verifier = ServerVerifier(self.clone());
            let verified = verifier.verify_server_cert(certificate, chain, &name, &[], self.now());
            verified.map_err(|_| PeerError::Invalid)?;
        }
        let identity = PeerIdentity::of(certificate)?;
        if identity.peer == expected { Ok(identity) } else { Err(PeerError::Other) }
    }

    fn now(&self) -> UnixTime {
        UnixTime::since_unix_epoch(std::time::Duration::from_millis(self.0.clock.now()))
    }

    fn own(&self) -> Option<Arc<CertifiedKey>> {
        self.0.own.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn verifiers(&self) -> Result<Verifiers, Error> {
        let trusted = self.0.trusted.read().unwrap_or_else(PoisonError::into_inner).clone();
        trusted.ok_or_else(|| Error::General("no authority is trusted yet".to_owned()))
    }

    fn verify_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }
}

/// A client that trusts one authority, by the digest of its certificate, which the
/// server must send along. For a node that enrols: all that it has is a token.
pub fn pinned_client(
    clock: PlatformClock,
    authority: [u8; 32],
) -> Result<(Endpoint, Arc<ClientConfig>), TlsConfigError> {
    let endpoint = Endpoint::new(clock);
    let verifier = PinnedVerifier { endpoint: endpoint.clone(), authority };
    let config = endpoint.client(Arc::new(verifier), Resumption::disabled())?;
    Ok((endpoint, config))
}

/// A client that verifies no certificate. Only for control's clock, whose answer is signed.
pub fn unverified_client(
    clock: PlatformClock,
) -> Result<(Endpoint, Arc<ClientConfig>), TlsConfigError> {
    let endpoint = Endpoint::new(clock);
    let verifier = Arc::new(Unverified(endpoint.clone()));
    let config = endpoint.client(verifier, Resumption::disabled())?;
    Ok((endpoint, config))
}

impl ResolvesServerCert for Endpoint {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.own()
    }
}

impl ResolvesClientCert for Endpoint {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.own().filter(|_| schemes.contains(&SignatureScheme::ED25519))
    }

    fn has_certs(&self) -> bool {
        self.own().is_some()
    }
}

#[cfg(test)]
mod tests;
