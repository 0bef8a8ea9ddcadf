//! Control's keys: the authorities that all replicas share, and this replica's own
//! certificate.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use belljar_domain::NodeNumber;
use belljar_identity::{
    Authority, AuthorityError, Clients, ControlKeys, Endpoint, KeyError, KeyPair, Peer,
    PlatformClock, PublicKey, Purpose, TlsConfigError, sign,
};
use belljar_listen::{ListenError, Listener};
use belljar_peer_proto::behalf::{Behalf, about};
use belljar_peer_proto::encoded::Encoded;
use belljar_peer_proto::enrolment::{Certificate, Trust, TrustedAuthority};
use belljar_store::{AuthorityRow, Store, StoreError};
use http::Extensions;
use time::OffsetDateTime;

/// The reason control has no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("cannot read the platform's authorities")]
    Store(#[from] StoreError),
    #[error("cannot open generation {generation} of the platform's authority")]
    Open { generation: u32, source: AuthorityError },
    #[error("cannot create the platform's authority, or a certificate of it")]
    Make(#[from] AuthorityError),
    #[error("no authority of the platform is active")]
    NoneActive,
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// A handle on control's keys; cheap to clone.
#[derive(Debug, Clone)]
pub struct Keyring(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: PlatformClock,
    secret: ControlKeys,
    /// How long a certificate is valid.
    life: Duration,
    /// This replica's own key, which is on no disk.
    own: KeyPair,
    endpoint: Endpoint,
    authorities: RwLock<Authorities>,
}

#[derive(Debug, Clone, Default)]
struct Authorities {
    opened: BTreeMap<u32, Arc<Authority>>,
    trust: Arc<Trust>,
    /// Of this replica's own certificate.
    generation: u32,
    expires_at: u64,
}

impl Keyring {
    /// Certificates are valid for this long unless an operator says otherwise.
    pub const CERTIFICATE_LIFE: Duration = Duration::from_secs(72 * 3600);
    /// They are valid for this long at most: an authority that was replaced is trusted
    /// for a day longer.
    pub const LONGEST_CERTIFICATE_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Opens the platform's authorities, and makes the first one if there is none.
    pub async fn open(
        store: &Store,
        secret: ControlKeys,
        life: Duration,
    ) -> Result<Self, KeyringError> {
        let clock = PlatformClock::default();
        clock.set(store.clock().await?);
        if store.authorities().await?.0.is_empty() {
            let first = Authority::generate(&clock)?;
            store.add_first_authority(first.certificate(), &first.seal(&secret)?).await?;
        }
        let endpoint = Endpoint::new(clock.clone());
        let life = life.min(Self::LONGEST_CERTIFICATE_LIFE);
        let (own, authorities) = (KeyPair::generate()?, RwLock::default());
        let keyring = Self(Arc::new(Inner { clock, secret, life, own, endpoint, authorities }));
        let (rows, _) = store.authorities().await?;
        keyring.take(&rows, true)?;
        Ok(keyring)
    }

    /// Looks for authorities that were added, activated or dropped since, and renews this
    /// replica's certificate in time.
    pub(crate) async fn refresh(&self, store: &Store) -> Result<(), KeyringError> {
        let (rows, now) = store.authorities().await?;
        self.0.clock.set(now);
        self.take(&rows, false)
    }

    /// Only what control's secret opens is trusted: a row that was put into the database
    /// without it opens nothing.
    fn take(&self, rows: &[AuthorityRow], must_open: bool) -> Result<(), KeyringError> {
        let before = self.authorities();
        let mut opened = BTreeMap::new();
        for AuthorityRow { generation, certificate, sealed, is_current, .. } in rows {
            let known = before.opened.get(generation);
            let known = known.filter(|known| known.certificate().as_ref() == certificate);
            let authority = match known {
                Some(known) => known.clone(),
                None => match Authority::open(certificate, sealed, &self.0.secret) {
                    Ok(authority) => Arc::new(authority),
                    Err(source) if must_open && *is_current => {
                        return Err(KeyringError::Open { generation: *generation, source });
                    }
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::error!(error, generation, "cannot open authority");
                        continue;
                    }
                },
            };
            opened.insert(*generation, authority);
        }
        let active = |row: &&AuthorityRow| row.is_current && opened.contains_key(&row.generation);
        let current = rows.iter().find(active).map(|row| row.generation);
        let current = current
            .or(Some(before.trust.current).filter(|current| opened.contains_key(current)))
            .ok_or(KeyringError::NoneActive)?;
        let trusted = opened.iter().map(|(&generation, authority)| TrustedAuthority {
            generation,
            certificate: Encoded(authority.certificate().to_vec()),
            verifying_key: authority.verifying_key().encoded(),
        });
        let trust = Trust { current, authorities: trusted.collect() };
        if trust != *before.trust {
            self.0.endpoint.set_trust(opened.values().map(|authority| authority.certificate()))?;
        }
        let now = self.0.clock.now();
        let Authorities { mut generation, mut expires_at, .. } = before;
        if generation != current || expires_at.saturating_sub(now) < millis(self.0.life) / 2 {
            let issuer = opened.get(&current).ok_or(KeyringError::NoneActive)?;
            let own = self.0.own.public_key();
            let leaf = issuer.issue(Peer::Control, &own, &self.0.clock, self.0.life)?;
            // The authority goes along: a node that enrols knows only its digest.
            let chain = vec![leaf, issuer.certificate().clone()];
            self.0.endpoint.set_certificate(chain, &self.0.own)?;
            (generation, expires_at) = (current, now + millis(self.0.life));
        }
        let authorities = Authorities { opened, trust: Arc::new(trust), generation, expires_at };
        *self.0.authorities.write().unwrap_or_else(PoisonError::into_inner) = authorities;
        Ok(())
    }

    /// A port that nodes connect to.
    pub fn listen(&self, address: SocketAddr) -> Result<Listener, KeyringError> {
        let clients = Clients::NodesOrEnrolling;
        let config = self.0.endpoint.server_config(clients)?;
        let endpoint = self.0.endpoint.clone();
        Ok(Listener::bind_identified(
            address,
            config,
            move |connection| {
                let mut extensions = Extensions::new();
                if let Some(identity) = endpoint.client_of(connection, clients)? {
                    extensions.insert(identity);
                }
                Ok(extensions)
            },
            |error| {
                belljar_telemetry::metrics().rejected_node_request("bad_certificate");
                tracing::warn!(error, "rejected node connection");
            },
        )?)
    }

    /// Signs that a request to `node` comes in a tenant's name.
    pub fn sign_request(
        &self,
        method: &str,
        path: &str,
        behalf: &Behalf,
    ) -> Result<String, KeyringError> {
        let context = about(method, path);
        let current = self.current()?;
        Ok(sign(current.signing_key(), Purpose::Request, context.as_bytes(), behalf)?)
    }

    /// The time, signed for whoever asked with `nonce`.
    pub(crate) fn sign_clock(&self, nonce: &[u8]) -> Result<String, KeyringError> {
        let current = self.current()?;
        Ok(sign(current.signing_key(), Purpose::Clock, nonce, &self.now())?)
    }

    /// Issues a certificate to a node.
    pub(crate) fn issue(
        &self,
        number: NodeNumber,
        key: &PublicKey,
    ) -> Result<Certificate, KeyringError> {
        let authorities = self.authorities();
        let generation = authorities.trust.current;
        let issuer = authorities.opened.get(&generation).ok_or(KeyringError::NoneActive)?;
        let now = self.now();
        let issued = issuer.issue(Peer::Node(number), key, &self.0.clock, self.0.life)?;
        Ok(Certificate {
            number,
            certificate: Encoded(issued.to_vec()),
            generation,
            issued_at: now,
            expires_at: now + millis(self.0.life),
            trust: (*authorities.trust).clone(),
            now,
        })
    }

    pub(crate) fn trust(&self) -> Arc<Trust> {
        self.authorities().trust
    }

    /// Until this replica's certificate expires.
    pub(crate) fn certificate_left(&self) -> Duration {
        Duration::from_millis(self.authorities().expires_at.saturating_sub(self.now()))
    }

    /// The platform's clock: the database's, in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.0.clock.now()
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    fn current(&self) -> Result<Arc<Authority>, KeyringError> {
        let authorities = self.authorities();
        let current = authorities.opened.get(&authorities.trust.current);
        current.cloned().ok_or(KeyringError::NoneActive)
    }

    fn authorities(&self) -> Authorities {
        self.0.authorities.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A moment in milliseconds since 1970, as the database takes it.
pub(crate) fn moment(millis: u64) -> OffsetDateTime {
    let nanos = i128::from(millis) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
