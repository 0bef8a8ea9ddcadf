//! Certificates: read from files, or made by an authority of our own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: rustls_pki_types::pem::Error },
    #[error("cannot use the certificate in `{path}`")]
    Use { path: PathBuf, source: rustls::Error },
    #[error("cannot make a certificate")]
    Make(#[source] rcgen::Error),
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
}

/// Reads a certificate chain and its key, both PEM.
pub fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let read = |path: &Path, source| TlsError::Read { path: path.to_owned(), source };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| read(certificate, source))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|source| read(key, source))?;
    let cannot = |source| TlsError::Use { path: certificate.to_owned(), source };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(cannot)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(cannot)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The files that [`init`] makes.
#[derive(Debug, Clone)]
pub struct Files {
    /// What clients must trust.
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Files {
    pub fn below(dir: &Path) -> Self {
        Self {
            authority: dir.join("ca.pem"),
            certificate: dir.join("server.pem"),
            key: dir.join("server.key"),
        }
    }
}

/// Makes an authority and a certificate for `domain` and everything directly
/// below it. The authority's own key is not kept: it signs once.
pub fn init(dir: &Path, domain: &str) -> Result<Files, TlsError> {
    fs::create_dir_all(dir).map_err(|source| TlsError::Write { path: dir.to_owned(), source })?;
    let mut params = CertificateParams::new(Vec::new()).map_err(TlsError::Make)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name.push(DnType::CommonName, format!("Belljar authority of {domain}"));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(TlsError::Make)?;
    let authority = CertifiedIssuer::self_signed(params, key).map_err(TlsError::Make)?;

    let names =
        [domain.to_owned(), format!("*.{domain}"), "localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).map_err(TlsError::Make)?;
    params.distinguished_name.push(DnType::CommonName, domain);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(TlsError::Make)?;
    let certificate = params.signed_by(&key, &authority).map_err(TlsError::Make)?;

    let files = Files::below(dir);
    write(&files.authority, &authority.pem(), 0o644)?;
    write(&files.certificate, &certificate.pem(), 0o644)?;
    write(&files.key, &key.serialize_pem(), 0o600)?;
    Ok(files)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), TlsError> {
    let written = || -> io::Result<()> {
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(new, path)
    };
    written().map_err(|source| TlsError::Write { path: path.to_owned(), source })
}
