//! The authority of one sandbox: what ends TLS where content has to be seen.
//!
//! It is trusted inside its sandbox and nowhere else. Its key is made here, is
//! never written anywhere, and is gone when the sandbox is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_domain::network::Host;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use time::{Duration, OffsetDateTime};
use tokio_rustls::rustls::{self, ServerConfig};

/// How long it is good for, and how much earlier it claims to be: clocks inside
/// may be a little behind.
const LIFE: Duration = Duration::days(7);
const LEAF_LIFE: Duration = Duration::days(1);
const EARLIER: Duration = Duration::hours(1);
/// A leaf is made anew before this much of its life is left.
const RENEW: Duration = Duration::hours(12);
/// Leaves that are kept.
const MOST: usize = 1024;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// All leaves have one key: whoever has it is this process.
    key: KeyPair,
    leaves: Mutex<HashMap<Host, (OffsetDateTime, Arc<ServerConfig>)>>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("cannot create a certificate")]
    Make(#[source] rcgen::Error),
    #[error("cannot use the new certificate")]
    Use(#[source] rustls::Error),
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    pub(crate) fn new() -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::new(Vec::new()).map_err(AuthorityError::Make)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, "Belljar authority of one sandbox");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // It speaks for servers alone. (GnuTLS refuses every name of an authority
        // that is kept from mail by name.)
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Which hosts a policy names may change while the certificate is trusted,
        // so it cannot list them. It does not speak for ourselves.
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![],
            excluded_subtrees: vec![
                GeneralSubtree::DnsName("belljar.internal".to_owned()),
                GeneralSubtree::DnsName("localhost".to_owned()),
            ],
        });
        let now = OffsetDateTime::now_utc();
        params.not_before = now - EARLIER;
        params.not_after = now + LIFE;
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(AuthorityError::Make)?;
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        Ok(Self { issuer, key, leaves: Mutex::default() })
    }

    /// Its certificate.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// What a server that is `host` shows.
    pub(crate) fn leaf(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        let now = OffsetDateTime::now_utc();
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, leaf)) = leaves.get(host)
            && *until - now > RENEW
        {
            return Ok(Arc::clone(leaf));
        }
        if leaves.len() >= MOST {
            leaves.clear();
        }
        let until = now + LEAF_LIFE;
        let leaf = self.make(host, now, until)?;
        leaves.insert(host.clone(), (until, Arc::clone(&leaf)));
        Ok(leaf)
    }

    fn make(
        &self,
        host: &Host,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<Arc<ServerConfig>, AuthorityError> {
        let name = match host {
            Host::Name(name) => name.to_string(),
            Host::Address(address) => address.to_string(),
        };
        let mut params = CertificateParams::new(vec![name]).map_err(AuthorityError::Make)?;
        params.distinguished_name.push(DnType::CommonName, "Belljar");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = now - EARLIER;
        params.not_after = until;
        let leaf = params.signed_by(&self.key, &self.issuer).map_err(AuthorityError::Make)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(AuthorityError::Use)?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone(), self.issuer.der().clone()], key)
            .map_err(AuthorityError::Use)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_keeps_its_leaf_and_others_have_their_own() {
        let authority = Authority::new().unwrap();
        let leaf = |host: &str| authority.leaf(&host.parse().unwrap()).unwrap();
        assert!(Arc::ptr_eq(&leaf("example.org"), &leaf("EXAMPLE.org.")));
        assert!(!Arc::ptr_eq(&leaf("example.org"), &leaf("example.com")));
        assert!(authority.pem().starts_with("-----BEGIN CERTIFICATE-----"));
    }
}
