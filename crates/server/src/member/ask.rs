//! Questions to control, whichever replica answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar_domain::budget::BudgetAnswer;
use belljar_identity::{
    ConnectError, Connector, Endpoint, NodeIdentityError, Peer, Purpose, Route, SignatureError,
    TlsConfigError, random, unverified_client, verify,
};
use belljar_peer_proto::enrolment::{AskClock, CLOCK, Certificate, RENEW};
use belljar_peer_proto::member::{
    AskBudget, BUDGETS, REGISTER, ROWS, Register, Registered, RowsStored, STORED, SYNC, SendRows,
    SendStored, StoredTaken, Sync, Synced,
};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error as TlsError};

use super::PATIENCE;
use crate::behind::Cluster;

/// The reason control gave no answer that counts.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no address of control is configured")]
    NoControl,
    #[error("cannot write the request")]
    Write(#[source] serde_json::Error),
    #[error("`{0}` is not an address like https://host:3001")]
    Address(String, #[source] http::Error),
    #[error("cannot reach control at {0}")]
    Reach(String, #[source] hyper_util::client::legacy::Error),
    #[error("control at {0} answered {1}: {2}")]
    Refused(String, StatusCode, String),
    #[error("lost the connection to control at {0}")]
    BrokeOff(String, #[source] Box<dyn std::error::Error + Send + std::marker::Sync>),
    #[error("control at {0} does not respond")]
    Silent(String),
    #[error("cannot parse the response of control at {0}")]
    Unreadable(String, #[source] serde_json::Error),
    #[error("the time from {0} is not signed by control")]
    Clock(String, #[source] SignatureError),
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    #[error(transparent)]
    Identity(#[from] NodeIdentityError),
}

/// An answer is a list of ids at most.
const LONGEST_ANSWER: usize = 8 << 20;
/// Longest wait of rows for one replica. No lease waits for them.
const ROWS_TIMEOUT: Duration = Duration::from_secs(10);
/// What is shown of a refusal.
const LONGEST_REFUSAL: usize = 500;

type HttpsClient = Client<Connector, Full<Bytes>>;

/// Every replica that is known.
#[derive(Debug)]
pub(super) struct Control {
    addresses: Vec<String>,
    /// Who answered last is asked first.
    first: AtomicUsize,
    client: HttpsClient,
    /// Verifies no certificate; its answers are signed.
    clock_client: HttpsClient,
    cluster: Cluster,
}

fn client(endpoint: &Endpoint, config: Arc<ClientConfig>) -> HttpsClient {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(PATIENCE));
    let connector = Connector::new(tcp, endpoint.clone(), config, |uri| {
        Some(Route { address: uri.clone(), peer: Peer::Control, key: None })
    });
    Client::builder(TokioExecutor::new()).build(connector)
}

impl Control {
    pub(super) fn new(addresses: &[String], cluster: Cluster) -> Result<Self, TlsConfigError> {
        let addresses = addresses.iter().map(|address| address.trim_end_matches('/').to_owned());
        let identity = cluster.identity();
        let endpoint = identity.endpoint();
        let (anyone, unverified) = unverified_client(identity.clock().clone())?;
        Ok(Self {
            addresses: addresses.collect(),
            first: AtomicUsize::new(0),
            client: client(endpoint, endpoint.client_config()?),
            clock_client: client(&anyone, unverified),
            cluster,
        })
    }

    pub(super) async fn register(&self, register: &Register) -> Result<Registered, AskError> {
        self.ask(REGISTER, register, |_| false).await
    }

    /// What the first replica says that has the database. That it is away is
    /// believed only when all of them say so: one that has it may give us up.
    pub(super) async fn sync(&self, sync: &Sync) -> Result<Synced, AskError> {
        self.ask(SYNC, sync, |synced| matches!(synced, Synced::Away { .. })).await
    }

    /// Has rows stored.
    pub(super) async fn rows(&self, rows: &SendRows) -> Result<RowsStored, AskError> {
        self.ask_within(ROWS_TIMEOUT, ROWS, rows, |_| false).await
    }

    /// Leases slices of budgets, or gives them back. A replica that does not answer in
    /// time takes back what it hands out; an answer that is lost on its way stays spent.
    pub(super) async fn budget(&self, asked: &AskBudget) -> Result<BudgetAnswer, AskError> {
        let is_away = |answer: &BudgetAnswer| matches!(answer, BudgetAnswer::Away { .. });
        self.ask(BUDGETS, asked, is_away).await
    }

    /// Has the bytes noted that this node keeps.
    pub(super) async fn stored(&self, sent: &SendStored) -> Result<StoredTaken, AskError> {
        self.ask_within(ROWS_TIMEOUT, STORED, sent, |_| false).await
    }

    /// A newer certificate for this node's key.
    pub(super) async fn renew(&self) -> Result<Certificate, AskError> {
        self.ask(RENEW, &(), |_| false).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        question: &impl Serialize,
        is_helpless: impl Fn(&T) -> bool,
    ) -> Result<T, AskError> {
        self.ask_within(PATIENCE, path, question, is_helpless).await
    }

    /// Asks each replica for so long.
    async fn ask_within<T: DeserializeOwned>(
        &self,
        patience: Duration,
        path: &str,
        question: &impl Serialize,
        is_helpless: impl Fn(&T) -> bool,
    ) -> Result<T, AskError> {
        let question = Bytes::from(serde_json::to_vec(question).map_err(AskError::Write)?);
        let first = self.first.load(Ordering::Relaxed);
        let mut failed = None;
        let mut helpless = None;
        for nth in 0..self.addresses.len() {
            let index = (first + nth) % self.addresses.len();
            let Some(address) = self.addresses.get(index) else { break };
            let asked = self.ask_timely(address, path, &question);
            match tokio::time::timeout(patience, asked).await {
                Ok(Ok(answer)) if is_helpless(&answer) => helpless = Some(answer),
                Ok(Ok(answer)) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(AskError::Silent(address.clone())),
            }
        }
        match (failed, helpless) {
            (None, Some(answer)) => Ok(answer),
            (failed, _) => Err(failed.unwrap_or(AskError::NoControl)),
        }
    }

    /// Asks; and if control's certificate is not valid by this host's clock, asks what
    /// time it is, and asks again.
    async fn ask_timely<T: DeserializeOwned>(
        &self,
        address: &str,
        path: &str,
        question: &Bytes,
    ) -> Result<T, AskError> {
        match self.ask_one(address, path, question).await {
            Err(AskError::Reach(_, error)) if is_untimely(&error) => {
                self.set_clock(address).await?;
                self.ask_one(address, path, question).await
            }
            answer => answer,
        }
    }

    async fn ask_one<T: DeserializeOwned>(
        &self,
        address: &str,
        path: &str,
        question: &Bytes,
    ) -> Result<T, AskError> {
        let body = post(&self.client, address, path, question).await?;
        serde_json::from_slice(&body)
            .map_err(|source| AskError::Unreadable(address.to_owned(), source))
    }

    /// Sets this node's clock by control's, which is signed for this question.
    async fn set_clock(&self, address: &str) -> Result<(), AskError> {
        let nonce = random::<16>().map_err(TlsConfigError::from)?;
        let question = serde_json::to_vec(&AskClock { nonce: nonce.into() });
        let question = Bytes::from(question.map_err(AskError::Write)?);
        let body = post(&self.clock_client, address, CLOCK, &question).await?;
        let identity = self.cluster.identity();
        let trusted = identity.verifying_keys();
        let signed = std::str::from_utf8(&body).map_err(|_| SignatureError::Form);
        let now = signed.and_then(|signed| verify(&trusted, Purpose::Clock, &nonce, signed));
        let now = now.map_err(|source| AskError::Clock(address.to_owned(), source))?;
        tracing::warn!(now, "host clock is wrong; using control's clock");
        identity.clock().set(now);
        Ok(())
    }
}

async fn post(
    client: &HttpsClient,
    address: &str,
    path: &str,
    body: &Bytes,
) -> Result<Bytes, AskError> {
    let at = || address.to_owned();
    let request = Request::post(format!("{address}{path}"))
        .body(Full::new(body.clone()))
        .map_err(|source| AskError::Address(at(), source))?;
    let response = client.request(request).await;
    let response = response.map_err(|source| AskError::Reach(at(), source))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
    let body = body.map_err(|source| AskError::BrokeOff(at(), source))?.to_bytes();
    if status != StatusCode::OK {
        let said = String::from_utf8_lossy(&body).chars().take(LONGEST_REFUSAL).collect();
        return Err(AskError::Refused(at(), status, said));
    }
    Ok(body)
}

/// Returns true if a handshake failed because a certificate is not valid at this time.
fn is_untimely(error: &hyper_util::client::legacy::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(ConnectError::Handshake(_, error)) = error.downcast_ref() {
            let tls = error.get_ref().and_then(|error| error.downcast_ref::<TlsError>());
            return matches!(
                tls,
                Some(TlsError::InvalidCertificate(
                    CertificateError::Expired
                        | CertificateError::ExpiredContext { .. }
                        | CertificateError::NotValidYet
                        | CertificateError::NotValidYetContext { .. }
                ))
            );
        }
        cause = error.source();
    }
    false
}
