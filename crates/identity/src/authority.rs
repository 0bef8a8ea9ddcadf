//! An authority: the key that certificates are issued with, and the key that control
//! signs requests with. Replicas of control share them through the database, sealed.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose,
};
use rustls_pki_types::CertificateDer;

use crate::certificate::Peer;
use crate::clock::PlatformClock;
use crate::control_key::ControlKeys;
use crate::keys::{KeyError, KeyPair, PublicKey};

/// The reason there is no authority, or no certificate of it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("cannot make a certificate")]
    Issue(#[source] rcgen::Error),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the control key does not open this authority: another one sealed it")]
    Sealed,
    #[error("the authority's row is damaged")]
    Damaged,
}

/// Clocks of hosts that have not heard the platform's time yet may be this far behind.
const BACKDATED: Duration = Duration::from_secs(3600);
/// An authority is replaced by hand (`belljar admin authority rotate`) long before this.
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// One generation of control's keys.
#[derive(Debug, Clone)]
pub struct Authority {
    certificate: CertificateDer<'static>,
    issuing: KeyPair,
    signing: KeyPair,
}

impl Authority {
    /// Makes a new one.
    pub fn generate(clock: &PlatformClock) -> Result<Self, AuthorityError> {
        let (issuing, signing) = (KeyPair::generate()?, KeyPair::generate()?);
        let mut params = params_of(&issuing)?;
        params.not_before = clock.date() - BACKDATED;
        params.not_after = clock.date() + AUTHORITY_LIFE;
        let made = params.self_signed(issuing.rcgen()).map_err(AuthorityError::Issue)?;
        Ok(Self { certificate: made.der().clone(), issuing, signing })
    }

    /// The CA's certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The key that nodes verify control's requests with.
    pub fn verifying_key(&self) -> PublicKey {
        self.signing.public_key()
    }

    pub fn signing_key(&self) -> &KeyPair {
        &self.signing
    }

    /// Both keys, encrypted; bound to the certificate that stands beside them.
    pub fn seal(&self, keys: &ControlKeys) -> Result<Vec<u8>, AuthorityError> {
        let issuing = self.issuing.pkcs8();
        let length = u16::try_from(issuing.len()).map_err(|_| AuthorityError::Damaged)?;
        let plain = [&length.to_be_bytes()[..], issuing, self.signing.pkcs8()].concat();
        Ok(keys.seal(&self.certificate, &plain)?)
    }

    pub fn open(
        certificate: &[u8],
        sealed: &[u8],
        keys: &ControlKeys,
    ) -> Result<Self, AuthorityError> {
        let plain = keys.open(certificate, sealed).ok_or(AuthorityError::Sealed)?;
        let (length, rest) = plain.split_first_chunk().ok_or(AuthorityError::Damaged)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (issuing, signing) = rest.split_at_checked(length).ok_or(AuthorityError::Damaged)?;
        Ok(Self {
            certificate: CertificateDer::from(certificate.to_vec()),
            issuing: KeyPair::from_pkcs8(issuing)?,
            signing: KeyPair::from_pkcs8(signing)?,
        })
    }

    /// Issues a certificate for `peer`'s key, valid for `life` from now.
    pub fn issue(
        &self,
        peer: Peer,
        key: &PublicKey,
        clock: &PlatformClock,
        life: Duration,
    ) -> Result<CertificateDer<'static>, AuthorityError> {
        let mut params =
            CertificateParams::new(vec![peer.name()]).map_err(AuthorityError::Issue)?;
        params.distinguished_name.push(DnType::CommonName, peer.name());
        params.not_before = clock.date() - BACKDATED;
        params.not_after = clock.date() + life;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Both of them listen, and both of them connect.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::new(params_of(&self.issuing)?, self.issuing.rcgen());
        let made = params.signed_by(key, &issuer).map_err(AuthorityError::Issue)?;
        Ok(made.der().clone())
    }
}

/// The same for the certificate and for what it issues: the name of the issuer follows
/// from its key.
fn params_of(issuing: &KeyPair) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::new(Vec::new()).map_err(AuthorityError::Issue)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let name = format!("Belljar authority {}", issuing.public_key());
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::PeerIdentity;

    #[test]
    fn authority_survives_the_database() {
        let (clock, keys) = (PlatformClock::default(), ControlKeys::of("k"));
        let made = Authority::generate(&clock).unwrap();
        let sealed = made.seal(&keys).unwrap();
        let opened = Authority::open(made.certificate(), &sealed, &keys).unwrap();
        assert_eq!(opened.verifying_key(), made.verifying_key());
        let other = Authority::generate(&clock).unwrap();
        for (certificate, keys) in
            [(made.certificate(), &ControlKeys::of("l")), (other.certificate(), &keys)]
        {
            let opened = Authority::open(certificate, &sealed, keys);
            assert!(matches!(opened, Err(AuthorityError::Sealed)), "{opened:?}");
        }
    }

    #[test]
    fn issued_certificate_names_its_peer_and_key() {
        let clock = PlatformClock::default();
        let authority = Authority::generate(&clock).unwrap();
        let key = KeyPair::generate().unwrap().public_key();
        let peer = Peer::Node(belljar_domain::NodeNumber::new(3).unwrap());
        let issued = authority.issue(peer, &key, &clock, Duration::from_secs(60)).unwrap();
        assert_eq!(PeerIdentity::of(&issued), Ok(PeerIdentity { peer, public_key: key }));
        assert!(PeerIdentity::of(authority.certificate()).is_err());
    }
}
