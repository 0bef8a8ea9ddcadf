//! An authority for tests: trusted by whoever is given its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use crate::listen::Security;

/// Signs certificates of servers. Its key exists in memory only.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    /// Makes one, and writes what clients must trust to `file`.
    pub fn create(file: &Path) -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, "Authority of a Belljar test");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        std::fs::write(file, issuer.pem())
            .with_context(|| format!("cannot write the authority to `{}`", file.display()))?;
        Ok(Self { issuer, file: file.to_owned() })
    }

    /// The PEM file that clients must trust.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// TLS for a server that answers to these names, and on loopback.
    pub fn server(&self, names: &[&str]) -> anyhow::Result<Security> {
        let mut names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Security::Tls(Arc::new(config)))
    }
}
