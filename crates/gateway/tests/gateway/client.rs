//! Clients, byte by byte.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection, RootCertStore};

use crate::world::{PATIENCE, Sandbox};

/// An answer, taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Sandbox {
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends text as it is, and reads one answer.
    pub(crate) async fn ask(&self, text: &str) -> Answer {
        ask(&mut self.connect().await, text).await
    }

    /// A tunnel, or the answer that refuses it.
    pub(crate) async fn tunnel(&self, to: &str) -> Result<TcpStream, Answer> {
        let mut stream = self.connect().await;
        let text = format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let head = head(&mut stream).await;
        if head.starts_with("HTTP/1.1 200") {
            return Ok(stream);
        }
        Err(rest(&mut stream, head).await)
    }
}

pub(crate) async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), text: &str) -> Answer {
    stream.write_all(text.as_bytes()).await.unwrap();
    answer(stream).await
}

/// Reads one answer.
pub(crate) async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> Answer {
    let head = head(stream).await;
    rest(stream, head).await
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("an answer");
        head.push(byte.unwrap_or_else(|error| {
            panic!("{error} after {:?}", String::from_utf8_lossy(&head));
        }));
    }
    String::from_utf8(head).unwrap()
}

async fn rest(stream: &mut (impl AsyncRead + Unpin), head: String) -> Answer {
    let status = head[9..12].parse().unwrap();
    let mut answer = Answer { status, head, body: String::new() };
    let mut body = Vec::new();
    if let Some(length) = answer.header("content-length") {
        body.resize(length.parse().unwrap(), 0);
        stream.read_exact(&mut body).await.unwrap();
    } else if answer.header("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            while !size.ends_with("\r\n") {
                size.push(char::from(stream.read_u8().await.unwrap()));
            }
            let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await.unwrap();
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    answer.body = String::from_utf8(body).unwrap();
    answer
}

/// Whether the other side says nothing more and closes.
pub(crate) async fn is_closed(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut byte = [0];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await;
    matches!(read.expect("an end"), Ok(0) | Err(_))
}

/// TLS inside a tunnel.
pub(crate) async fn tls(
    stream: TcpStream,
    name: &str,
    roots: &RootCertStore,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut config = config(roots);
    config.enable_sni = !name.is_empty();
    let name = if name.is_empty() { "nobody.test" } else { name };
    let name = rustls_pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    tokio::time::timeout(PATIENCE, connecting).await.expect("an end")
}

fn config(roots: &RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth()
}

/// The first bytes of TLS, for this name.
pub(crate) fn greeting(name: &str, roots: &RootCertStore) -> Vec<u8> {
    let name = rustls_pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config(roots)), name).unwrap();
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// What trusts the authority of a sandbox, and nobody else.
pub(crate) fn trusting(sandbox: &Sandbox) -> RootCertStore {
    use rustls_pki_types::pem::PemObject as _;
    let certificate =
        rustls_pki_types::CertificateDer::from_pem_slice(sandbox.authority.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    roots
}
