//! A name server that changes its mind, and keeps every question.
//!
//! Each name has a sequence of answers; each question of a type takes the next
//! one, and the last stays. A first answer that is public and a second that is
//! private is a rebinding attack. What has no entry does not exist, and is kept
//! all the same: that is how a test shows that a denied name was never asked for.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinHandle, JoinSet};

mod wire;

/// What is known of each name, in lower case and without a final dot.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Zone(pub HashMap<String, Vec<Reply>>);

/// One answer of a sequence.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Addresses; those of the type that was asked for are given.
    Addresses(Vec<IpAddr>),
    /// Another name, and its addresses.
    Alias(String, Vec<IpAddr>),
    /// There is no such name.
    Missing,
    /// The server fails.
    Failure,
    /// No answer at all.
    Silence,
    /// Over UDP an answer that says it was cut, over TCP the addresses.
    OverTcp(Vec<IpAddr>),
    /// An answer to another question than the one that was asked.
    Mismatch(Vec<IpAddr>),
}

/// A question that came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Query {
    pub name: String,
    /// The type, as a number: 1 for A, 28 for AAAA.
    pub kind: u16,
    pub transport: Transport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Udp,
    Tcp,
}

/// A running name server; dropping it ends it.
#[derive(Debug)]
pub struct Names {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    zone: Zone,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: Vec<Query>,
    turns: HashMap<(String, u16), usize>,
}

impl Names {
    /// Listens at `address`, UDP and TCP; port 0 for any one that both have free.
    pub async fn start(address: SocketAddr, zone: Zone) -> anyhow::Result<Self> {
        let (udp, tcp) = bind(address).await?;
        let address = udp.local_addr()?;
        let shared = Arc::new(Shared { zone, state: Mutex::default() });
        let serving = shared.clone();
        let task = tokio::spawn(async move {
            tokio::join!(over_udp(&serving, &udp), over_tcp(&serving, &tcp));
        });
        Ok(Self { address, shared, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every question so far.
    pub fn queries(&self) -> Vec<Query> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).asked.clone()
    }

    /// Whether anybody asked for this name, or for one below it.
    pub fn was_asked(&self, name: &str) -> bool {
        let below = format!(".{name}");
        self.queries().iter().any(|query| query.name == name || query.name.ends_with(&below))
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// The answer to a message; nothing if the script is silent or it is no question.
    fn answer(&self, message: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let question = wire::Question::read(message)?;
        let query = Query { name: question.name.clone(), kind: question.kind, transport };
        let turn = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.asked.push(query);
            // A question that is repeated over TCP is still the same one.
            let turn = state.turns.entry((question.name.clone(), question.kind)).or_default();
            let now = *turn;
            let cut = |replies: &Vec<Reply>| matches!(replies.get(now), Some(Reply::OverTcp(_)));
            let stays =
                transport == Transport::Udp && self.zone.0.get(&question.name).is_some_and(cut);
            *turn += usize::from(!stays);
            now
        };
        let Some(replies) = self.zone.0.get(&question.name) else {
            return Some(question.failed(wire::Code::Missing));
        };
        Some(match replies.get(turn).or(replies.last())? {
            Reply::Addresses(addresses) => question.answered(None, addresses),
            Reply::Alias(other, addresses) => question.answered(Some(other), addresses),
            Reply::Missing => question.failed(wire::Code::Missing),
            Reply::Failure => question.failed(wire::Code::Failure),
            Reply::Silence => return None,
            Reply::OverTcp(_) if transport == Transport::Udp => question.cut(),
            Reply::OverTcp(addresses) => question.answered(None, addresses),
            Reply::Mismatch(addresses) => question.renamed("elsewhere").answered(None, addresses),
        })
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<(UdpSocket, TcpListener)> {
    // The port that UDP gets may be taken for TCP: another try gets another.
    let mut last = None;
    for _ in 0..16 {
        let udp = UdpSocket::bind(address).await.context("cannot listen for names")?;
        match TcpListener::bind(udp.local_addr()?).await {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| anyhow::anyhow!("no port"), anyhow::Error::from))
}

async fn over_udp(shared: &Shared, socket: &UdpSocket) {
    let mut buffer = vec![0; 4096];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        if let Some(answer) = shared.answer(&buffer[..length], Transport::Udp) {
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

async fn over_tcp(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let shared = shared.clone();
        connections.spawn(async move { drop(conversation(&shared, stream).await) });
    }
}

async fn conversation(shared: &Shared, mut stream: TcpStream) -> anyhow::Result<()> {
    loop {
        let length = stream.read_u16().await?;
        let mut message = vec![0; length.into()];
        stream.read_exact(&mut message).await?;
        if let Some(answer) = shared.answer(&message, Transport::Tcp) {
            stream.write_u16(u16::try_from(answer.len())?).await?;
            stream.write_all(&answer).await?;
        }
    }
}

#[cfg(test)]
mod tests;
