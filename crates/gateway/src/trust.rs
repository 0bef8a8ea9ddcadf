//! Whom the gateway believes to be who they say: the system's authorities, and
//! those that the operator adds.

use std::path::PathBuf;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// Why upstreams cannot be told from impostors.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("cannot read the authorities in `{path}`")]
    Read { path: PathBuf, source: rustls_pki_types::pem::Error },
    #[error("invalid authority in `{path}`")]
    Authority { path: PathBuf, source: rustls::Error },
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// How upstreams are spoken to.
pub(crate) fn client(extra: &[PathBuf]) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore::empty();
    // A host without authorities reaches what the operator named, or nobody.
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "cannot read some system authorities");
    }
    roots.add_parsable_certificates(found.certs);
    for path in extra {
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|source| TrustError::Read { path: path.clone(), source })?;
        for certificate in certificates {
            roots
                .add(certificate)
                .map_err(|source| TrustError::Authority { path: path.clone(), source })?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TrustError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
