//! Requests that say twice which host they are for, as no client library sends them.

use std::net::SocketAddr;

use anyhow::Context as _;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::HANG_LIMIT;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Http1,
    Http2,
}

/// A request with a host in its target (`:authority`), in its header fields, or in both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hosts<'a> {
    pub(crate) target: Option<&'a str>,
    pub(crate) fields: &'a [&'a str],
}

/// Sends a request and answers its status; the rest of the answer is not read.
pub(crate) async fn status(
    address: SocketAddr,
    wire: Wire,
    hosts: Hosts<'_>,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> anyhow::Result<u16> {
    let asked = async {
        match wire {
            Wire::Http1 => first(address, hosts, (method, path), headers, body).await,
            Wire::Http2 => second(address, hosts, (method, path), headers, body).await,
        }
    };
    let status = tokio::time::timeout(HANG_LIMIT, asked).await;
    status.with_context(|| format!("no answer to {method} {path} by {wire:?}, {hosts:?}"))?
}

/// Written by hand: a library would not send two `Host` fields, nor user information.
async fn first(
    address: SocketAddr,
    hosts: Hosts<'_>,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> anyhow::Result<u16> {
    let target =
        hosts.target.map_or_else(|| path.to_owned(), |host| format!("http://{host}{path}"));
    let mut head = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
    let hosts = hosts.fields.iter().map(|host| ("host", *host));
    for (name, value) in hosts.chain(headers.iter().copied()) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        ));
    }
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await?);
    }
    let line = String::from_utf8(line)?;
    let status = line.split(' ').nth(1).with_context(|| format!("no status: {line}"))?;
    Ok(status.parse()?)
}

async fn second(
    address: SocketAddr,
    hosts: Hosts<'_>,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> anyhow::Result<u16> {
    let io = TokioIo::new(TcpStream::connect(address).await?);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(connection);
    // The library demands an `:authority`: a host that is said once is said there.
    let once = (hosts.target.is_none() && hosts.fields.len() == 1).then_some(&[] as &[&str]);
    let authority = hosts.target.or(hosts.fields.first().copied()).context("no host")?;
    let target = format!("http://{authority}{path}");
    let mut request = Request::builder().method(method).uri(target).version(http::Version::HTTP_2);
    let hosts = once.unwrap_or(hosts.fields).iter().map(|host| ("host", *host));
    for (name, value) in hosts.chain(headers.iter().copied()) {
        request = request.header(name, value);
    }
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    let body = Bytes::copy_from_slice(body.as_bytes());
    Ok(sender.send_request(request.body(Full::new(body))?).await?.status().as_u16())
}
