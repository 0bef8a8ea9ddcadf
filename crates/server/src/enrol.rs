//! Enrolment: a one-time token becomes an identity.

use std::path::Path;
use std::time::Duration;

use belljar_identity::{
    Connector, EnrolmentToken, KeyError, NodeIdentity, NodeIdentityError, Peer, PlatformClock,
    Purpose, Route, TlsConfigError, pending_key, pinned_client, sign_bytes,
};
use belljar_peer_proto::encoded::Encoded;
use belljar_peer_proto::enrolment::{Certificate, ENROL, Enrol};
use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

/// The reason a node is not enrolled.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    #[error("no address of control is configured")]
    NoControl,
    #[error("`{0}` is not an address like https://host:3001")]
    Address(String),
    #[error("cannot reach control at {0}")]
    Reach(String, #[source] hyper_util::client::legacy::Error),
    #[error("control at {0} does not respond")]
    Silent(String),
    #[error("control refused the enrolment: {0}")]
    Refused(String),
    #[error("cannot parse the response of control at {0}")]
    Unreadable(String),
    #[error(transparent)]
    Identity(#[from] NodeIdentityError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
}

impl EnrolError {
    /// Returns true if the same may work later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Reach(..) | Self::Silent(_))
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_ANSWER: usize = 256 << 10;

/// What control says when it refuses.
#[derive(Debug, Deserialize)]
struct Refusal {
    message: String,
}

/// Makes a key in `directory`, unless there is one, and has control bind it to `name`.
/// Control is whoever has the authority that the token names.
pub async fn enrol(
    control: &[String],
    directory: &Path,
    name: &str,
    token: &EnrolmentToken,
) -> Result<NodeIdentity, EnrolError> {
    let key = pending_key(directory)?;
    let proof = sign_bytes(&key, Purpose::Enrolment, name.as_bytes(), token.secret())?;
    let enrol = Enrol {
        name: name.to_owned(),
        token: (*token.secret()).into(),
        public_key: key.public_key().encoded(),
        proof: Encoded(proof),
    };
    let body = serde_json::to_vec(&enrol).unwrap_or_default();
    let mut failed = EnrolError::NoControl;
    for address in control {
        let asked = ask(address, token, Bytes::from(body.clone()));
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(certificate)) => {
                return Ok(NodeIdentity::enrolled(directory, name, token, key, certificate)?);
            }
            Ok(Err(error)) if !error.is_passing() => return Err(error),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = EnrolError::Silent(address.clone()),
        }
    }
    Err(failed)
}

async fn ask(
    address: &str,
    token: &EnrolmentToken,
    body: Bytes,
) -> Result<Certificate, EnrolError> {
    let wrong = || EnrolError::Address(address.to_owned());
    let base: Uri = address.trim_end_matches('/').parse().map_err(|_| wrong())?;
    if base.scheme_str() != Some("https") {
        return Err(wrong());
    }
    let (endpoint, config) = pinned_client(PlatformClock::default(), token.authority())?;
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    let connector = Connector::new(tcp, endpoint, config, move |uri| {
        Some(Route { address: uri.clone(), peer: Peer::Control, key: None })
    });
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let request = Request::post(format!("{}{ENROL}", address.trim_end_matches('/')));
    let request = request.body(Full::new(body)).map_err(|_| wrong())?;
    let response = client.request(request).await;
    let response = response.map_err(|source| EnrolError::Reach(address.to_owned(), source))?;
    let status = response.status();
    let unreadable = || EnrolError::Unreadable(address.to_owned());
    let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
    let body = body.map_err(|_| unreadable())?.to_bytes();
    if status != StatusCode::OK {
        let said = serde_json::from_slice::<Refusal>(&body).map(|refusal| refusal.message);
        return Err(EnrolError::Refused(said.unwrap_or_else(|_| status.to_string())));
    }
    serde_json::from_slice(&body).map_err(|_| unreadable())
}
