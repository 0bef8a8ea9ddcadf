//! TLS to the collector.

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::options::ExportOptions;

/// TLS cannot be set up as the operator wants it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read `{path}`")]
    Read { path: String, source: pem::Error },
    #[error("`{path}` has no certificate")]
    Empty { path: String },
    #[error("invalid authority in `{path}`")]
    Authority { path: String, source: rustls::Error },
    #[error(
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY need each other"
    )]
    HalfClient,
    #[error("the client certificate and its key cannot be used")]
    Client(#[source] rustls::Error),
    #[error("cannot set up TLS")]
    SetUp(#[source] rustls::Error),
}

pub(super) fn connector(options: &ExportOptions) -> Result<TlsConnector, TlsError> {
    let mut roots = RootCertStore::empty();
    match &options.authorities {
        Some(path) => {
            for authority in certificates(path)? {
                roots.add(authority).map_err(|source| TlsError::Authority {
                    path: path.display().to_string(),
                    source,
                })?;
            }
        }
        None => {
            // Unreadable ones are the operator's; the handshake says what is lacking.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::SetUp)?
        .with_root_certificates(roots);
    let config = match (&options.client_certificate, &options.client_key) {
        (Some(chain), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|source| TlsError::Read { path: key.display().to_string(), source })?;
            config.with_client_auth_cert(certificates(chain)?, private).map_err(TlsError::Client)?
        }
        (None, None) => config.with_no_client_auth(),
        _ => return Err(TlsError::HalfClient),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let shown = || path.display().to_string();
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|source| TlsError::Read { path: shown(), source })?;
    if read.is_empty() { Err(TlsError::Empty { path: shown() }) } else { Ok(read) }
}
