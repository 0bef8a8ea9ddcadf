//! A server that does one thing: it counts what was done.
//!
//! `GET /effect/<op>` is the effect. It is the only judge of whether an operation
//! happened, and how often.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    serving: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<BTreeMap<String, u32>>,
    manner: Mutex<Manner>,
}

/// How it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Well,
    /// It counts, and hangs up without a word.
    LosesReplies,
    After(Duration),
}

impl Oracle {
    pub(crate) async fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let serving = tokio::spawn({
            let shared = shared.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, shared.clone()));
                }
            }
        });
        Ok(Self { address, shared, serving: serving.abort_handle() })
    }

    pub(crate) fn seen(&self) -> BTreeMap<String, u32> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) -> Option<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        let count = stream.read(&mut chunk).await.ok().filter(|&count| count > 0)?;
        head.extend_from_slice(&chunk[..count]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    if let Some((_, op)) = path.split_once("/effect/") {
        let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(op.to_owned()).or_default() += 1;
    }
    let manner = *shared.manner.lock().unwrap_or_else(PoisonError::into_inner);
    match manner {
        Manner::Well => {}
        Manner::LosesReplies => return None,
        Manner::After(time) => tokio::time::sleep(time).await,
    }
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n";
    stream.write_all(answer.as_bytes()).await.ok()
}
