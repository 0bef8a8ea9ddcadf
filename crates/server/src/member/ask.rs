//! Questions to control, whichever replica answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use belljar_bus::behalf::{Unproven, about};
use belljar_bus::member::{CLOCK, REGISTER, Register, Registered, SYNC, Sync, Synced, answer_to};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::PATIENCE;
use crate::behind::Cluster;

/// Why control gave no answer that counts.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no address of control is known")]
    Nobody,
    #[error("cannot write the question")]
    Write(#[source] serde_json::Error),
    #[error("`{0}` is no address")]
    Address(String, #[source] http::Error),
    #[error("cannot reach control at {0}")]
    Reach(String, #[source] hyper_util::client::legacy::Error),
    #[error("control at {0} answered {1}")]
    Refused(String, StatusCode),
    #[error("control at {0} broke off")]
    BrokeOff(String, #[source] Box<dyn std::error::Error + Send + std::marker::Sync>),
    #[error("control at {0} does not answer")]
    Silent(String),
    #[error("what answers at {0} is not control of this platform")]
    Unproven(String, #[source] Unproven),
}

/// An answer is a list of ids at most.
const LONGEST_ANSWER: usize = 8 << 20;

/// Every replica that is known.
#[derive(Debug)]
pub(super) struct Control {
    addresses: Vec<String>,
    /// Who answered last is asked first.
    first: AtomicUsize,
    client: Client<HttpConnector, Full<Bytes>>,
    cluster: Cluster,
}

impl Control {
    pub(super) fn new(addresses: &[String], cluster: Cluster) -> Self {
        let addresses = addresses.iter().map(|address| address.trim_end_matches('/').to_owned());
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(PATIENCE));
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { addresses: addresses.collect(), first: AtomicUsize::new(0), client, cluster }
    }

    pub(super) async fn register(&self, register: &Register) -> Result<Registered, AskError> {
        self.ask(REGISTER, register, |_| false).await
    }

    /// What the first replica says that has the database. That it is away is
    /// believed only when all of them say so: one that has it may give us up.
    pub(super) async fn sync(&self, sync: &Sync) -> Result<Synced, AskError> {
        self.ask(SYNC, sync, |synced| matches!(synced, Synced::Away { .. })).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        question: &impl Serialize,
        is_helpless: impl Fn(&T) -> bool,
    ) -> Result<T, AskError> {
        let what = about(Method::POST.as_str(), path);
        let question = self.cluster.key().sign(&what, question).map_err(AskError::Write)?;
        let first = self.first.load(Ordering::Relaxed);
        let mut failed = None;
        let mut helpless = None;
        for nth in 0..self.addresses.len() {
            let index = (first + nth) % self.addresses.len();
            let asked = self.ask_one(&self.addresses[index], path, &question);
            match tokio::time::timeout(PATIENCE, asked).await {
                Ok(Ok(answer)) if is_helpless(&answer) => helpless = Some(answer),
                Ok(Ok(answer)) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(AskError::Silent(self.addresses[index].clone())),
            }
        }
        match (failed, helpless) {
            (None, Some(answer)) => Ok(answer),
            (failed, _) => Err(failed.unwrap_or(AskError::Nobody)),
        }
    }

    async fn ask_one<T: DeserializeOwned>(
        &self,
        address: &str,
        path: &str,
        question: &str,
    ) -> Result<T, AskError> {
        let at = || address.to_owned();
        let request = Request::post(format!("{address}{path}"))
            .body(Full::new(Bytes::copy_from_slice(question.as_bytes())))
            .map_err(|source| AskError::Address(at(), source))?;
        let response = self.client.request(request).await;
        let response = response.map_err(|source| AskError::Reach(at(), source))?;
        if response.status() != StatusCode::OK {
            let clock = response.headers().get(CLOCK).and_then(|clock| clock.to_str().ok());
            let proven = |clock| self.cluster.key().verify(&answer_to(question), clock).ok();
            if let Some(clock) = clock.and_then(proven) {
                self.cluster.set_clock(clock);
            }
            return Err(AskError::Refused(at(), response.status()));
        }
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|source| AskError::BrokeOff(at(), source))?.to_bytes();
        let unproven = |source| AskError::Unproven(at(), source);
        let text = std::str::from_utf8(&body).map_err(|_| unproven(Unproven::Form))?;
        self.cluster.key().verify(&answer_to(question), text).map_err(unproven)
    }
}

#[cfg(test)]
mod tests {
    use belljar_bus::behalf::ClusterKey;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const LONG_AGO: u64 = 1_000_000;

    /// A node asks once, and hears that it is late; what its clock says then.
    async fn clock_after(clock: impl FnOnce(&str) -> String) -> u64 {
        let cluster = Cluster::new(ClusterKey::of("k"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let control = Control::new(&[address], cluster.clone());
        let register = Register {
            name: "n".to_owned(),
            address: "http://n".to_owned(),
            tiers: Vec::new(),
            slots: 1,
            has: Vec::new(),
            at: 5,
        };
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = String::new();
            while !request.contains("\r\n\r\n") || request.ends_with("\r\n\r\n") {
                let mut piece = [0; 4096];
                let count = stream.read(&mut piece).await.unwrap();
                request.push_str(std::str::from_utf8(&piece[..count]).unwrap());
            }
            let question = request.split_once("\r\n\r\n").unwrap().1;
            let clock = clock(question);
            let answer =
                format!("HTTP/1.1 403 Forbidden\r\n{CLOCK}: {clock}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        let (asked, ()) = tokio::join!(control.register(&register), answer);
        assert!(matches!(asked, Err(AskError::Refused(..))), "{asked:?}");
        cluster.now()
    }

    #[tokio::test]
    async fn nobody_but_control_sets_a_nodes_clock() {
        let key = ClusterKey::of("k");
        let signed = |question: &str| key.sign(&answer_to(question), &LONG_AGO).unwrap();
        let now = clock_after(signed).await;
        assert!(now.abs_diff(LONG_AGO) < 60_000, "control's own word counts: {now}");
        let other = ClusterKey::of("another");
        assert!(clock_after(|_| LONG_AGO.to_string()).await > 1_000_000_000_000);
        let foreign = |question: &str| other.sign(&answer_to(question), &LONG_AGO).unwrap();
        assert!(clock_after(foreign).await > 1_000_000_000_000);
        // What was said to another question.
        let replayed = |_: &str| key.sign(&answer_to("x.y"), &LONG_AGO).unwrap();
        assert!(clock_after(replayed).await > 1_000_000_000_000);
    }
}
