//! A cache for packages that believes everybody: what ours must not be.
//!
//! It keeps files by their names alone, takes them from whoever brings them,
//! asks whatever host a request names, and checks nothing. What is said here by
//! one client is what the next one gets.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::hostile::head::{self, Head};
use crate::io::Socket;
use crate::listen::{Running, Security};

/// A running cache; dropping it ends it.
#[derive(Debug)]
pub struct Gullible {
    running: Running,
}

#[derive(Debug)]
struct Shared {
    /// Where every host is.
    world: SocketAddr,
    kept: Mutex<HashMap<String, Vec<u8>>>,
}

impl Gullible {
    /// Listens at `address`, and fetches from `world` what it does not have.
    pub async fn start(address: SocketAddr, world: SocketAddr) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared { world, kept: Mutex::default() });
        let serve = move |socket| {
            let shared = shared.clone();
            async move { drop(connection(&shared, socket).await) }
        };
        Ok(Self { running: Running::start(address, Security::Plain, serve).await? })
    }

    pub fn address(&self) -> SocketAddr {
        self.running.address
    }
}

async fn connection(shared: &Shared, mut socket: Socket) -> anyhow::Result<()> {
    let mut buffer = Vec::new();
    while let Some(head) = Head::read(&mut socket, &mut buffer).await? {
        let brought = head.body(&mut socket, &mut buffer).await?;
        let name = head.path().rsplit('/').next().unwrap_or_default().to_owned();
        let kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        let file = match kept {
            Some(file) => file,
            None if !brought.is_empty() => brought,
            None => fetch(shared, &head).await?,
        };
        // A page has no name to be kept by.
        if !name.is_empty() {
            let mut kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.insert(name, file.clone());
        }
        socket.write_all(&head::ok(&file)).await?;
    }
    Ok(())
}

/// The body of whatever is answered, however it is framed.
async fn fetch(shared: &Shared, head: &Head) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(shared.world).await?;
    let asked = String::from_utf8_lossy(head.raw()).into_owned();
    let asked = asked.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    stream.write_all(asked.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.context("an answer without a head")?;
    Ok(answer.split_off(end + 4))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::Hostile;

    async fn ask(cache: &Gullible, request: &str) -> String {
        let mut stream = TcpStream::connect(cache.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn what_one_client_brings_the_next_one_gets() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let hostile = Hostile::start(any, Security::Plain, vec![]).await.unwrap();
        hostile.place("/a/x.whl", "text/plain", b"right");
        hostile.place("/b/x.whl", "text/plain", b"wrong");
        let get = |host: &str| format!("GET http://{host}/x.whl HTTP/1.1\r\nhost: h\r\n\r\n");
        let cache = Gullible::start(any, hostile.address()).await.unwrap();
        assert!(ask(&cache, &get("h/b")).await.ends_with("\r\n\r\nwrong"));
        assert!(ask(&cache, &get("h/a")).await.ends_with("\r\n\r\nwrong"));
        let put = "PUT http://h/a/y.whl HTTP/1.1\r\ncontent-length: 4\r\n\r\nmine";
        ask(&cache, put).await;
        let part = "GET http://h/a/y.whl HTTP/1.1\r\nrange: bytes=0-1\r\n\r\n";
        assert!(ask(&cache, part).await.ends_with("\r\n\r\nmine"));
    }
}
