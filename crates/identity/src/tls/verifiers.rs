//! Who is accepted at the other end.

use std::sync::Arc;

use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved,
    RootCertStore, SignatureScheme,
};

use super::{Clients, Endpoint};
use crate::certificate::{Peer, PeerIdentity};
use crate::keys::digest;

const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ED25519];

fn tls12() -> Error {
    Error::PeerMisbehaved(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)
}

#[derive(Debug)]
pub(super) struct ClientVerifier {
    pub(super) endpoint: Endpoint,
    pub(super) clients: Clients,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.clients == Clients::ControlOnly
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verifiers = self.endpoint.verifiers()?;
        let verified = verifiers.of_clients.verify_client_cert(certificate, chain, now)?;
        let peer = PeerIdentity::of(certificate).map(|identity| identity.peer);
        match (self.clients, peer) {
            (Clients::ControlOnly, Ok(Peer::Control))
            | (Clients::NodesOrEnrolling, Ok(Peer::Node(_))) => Ok(verified),
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.endpoint.verify_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

/// Implements the parts of a verifier of servers that are the same for all of them.
macro_rules! server_verifier {
    ($verifier:ty, $endpoint:expr, $verify:expr) => {
        impl ServerCertVerifier for $verifier {
            fn verify_server_cert(
                &self,
                certificate: &CertificateDer<'_>,
                chain: &[CertificateDer<'_>],
                name: &ServerName<'_>,
                _: &[u8],
                now: UnixTime,
            ) -> Result<ServerCertVerified, Error> {
                $verify(self, certificate, chain, name, now)
            }

            fn verify_tls12_signature(
                &self,
                _: &[u8],
                _: &CertificateDer<'_>,
                _: &DigitallySignedStruct,
            ) -> Result<HandshakeSignatureValid, Error> {
                Err(tls12())
            }

            fn verify_tls13_signature(
                &self,
                message: &[u8],
                certificate: &CertificateDer<'_>,
                signature: &DigitallySignedStruct,
            ) -> Result<HandshakeSignatureValid, Error> {
                $endpoint(self).verify_signature(message, certificate, signature)
            }

            fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
                SCHEMES.to_vec()
            }
        }
    };
}

#[derive(Debug)]
pub(super) struct ServerVerifier(pub(super) Endpoint);

server_verifier!(
    ServerVerifier,
    |this: &ServerVerifier| this.0.clone(),
    |this: &Self, certificate: &_, chain: &_, name: &_, now| {
        this.0.verifiers()?.of_servers.verify_server_cert(certificate, chain, name, &[], now)
    }
);

#[derive(Debug)]
pub(super) struct PinnedVerifier {
    pub(super) endpoint: Endpoint,
    pub(super) authority: [u8; 32],
}

impl PinnedVerifier {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned = chain.iter().find(|authority| digest(authority) == self.authority);
        let pinned = pinned.ok_or(CertificateError::UnknownIssuer)?;
        let bad = |_| Error::from(CertificateError::BadEncoding);
        let mut roots = RootCertStore::empty();
        roots.add(pinned.clone().into_owned()).map_err(bad)?;
        let provider = self.endpoint.0.provider.clone();
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().map_err(|_| CertificateError::UnknownIssuer)?;
        verifier.verify_server_cert(certificate, &[], name, &[], now)
    }
}

server_verifier!(PinnedVerifier, |this: &PinnedVerifier| this.endpoint.clone(), Self::verify);

#[derive(Debug)]
pub(super) struct Unverified(pub(super) Endpoint);

server_verifier!(
    Unverified,
    |this: &Unverified| this.0.clone(),
    |_: &Self, _: &_, _: &_, _: &_, _| Ok(ServerCertVerified::assertion())
);
