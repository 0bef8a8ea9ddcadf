//! Accepting connections until the owner goes away.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::io::Socket;

/// How clients reach a server.
#[derive(Debug, Clone, Default)]
pub enum Security {
    #[default]
    Plain,
    /// Made by an [`Authority`](crate::Authority); HTTP/2 for who asks for it.
    Tls(Arc<ServerConfig>),
}

/// A server that ends, with all of its connections, when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Running {
    /// Listens at `address` and runs `serve` for each connection.
    pub(crate) async fn start<S, F>(
        address: SocketAddr,
        security: Security,
        serve: S,
    ) -> anyhow::Result<Self>
    where
        S: Fn(Socket) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, security, serve));
        Ok(Self { address, task })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<S, F>(listener: TcpListener, security: Security, serve: S)
where
    S: Fn(Socket) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    // Connections are in the set so that they end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A client that is gone already, or too many of them: the next
                // one may fare better.
                let Ok((stream, _)) = accepted else { tokio::task::yield_now().await; continue };
                let (security, serve) = (security.clone(), serve.clone());
                connections.spawn(async move {
                    if let Some(socket) = greet(stream, security).await {
                        serve(socket).await;
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn greet(stream: TcpStream, security: Security) -> Option<Socket> {
    stream.set_nodelay(true).ok()?;
    match security {
        Security::Plain => Some(Socket::Plain(stream)),
        Security::Tls(config) => {
            let stream = TlsAcceptor::from(config).accept(stream).await.ok()?;
            Some(Socket::Tls(Box::new(stream)))
        }
    }
}
