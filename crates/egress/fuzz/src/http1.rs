//! Requests, read by us and by hyper: where both accept one, they read the same.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use belljar_domain::network::Host;
use belljar_egress::http1::{Chunked, Framing, Head, Scan, Target, Version};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};

use super::{Outcome, pieces};

/// A request, up to the end of its body.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    method: String,
    /// Host and port, for targets that have them.
    destination: Option<(String, u16)>,
    path: Option<String>,
    is_http_10: bool,
    /// The values of each name, in their order.
    fields: BTreeMap<String, Vec<Vec<u8>>>,
    body: Vec<u8>,
}

/// A head and its body. However it is cut, we read the same, and write what we read again.
pub fn http1(input: &[u8]) -> Outcome {
    let whole = Head::parse(input);
    let mut scan = Scan::default();
    let mut seen = Vec::new();
    let mut grown = Ok(None);
    for piece in pieces(input) {
        seen.extend_from_slice(piece);
        grown = Head::parse_growing(&mut scan, &seen);
        if !matches!(grown, Ok(None)) {
            break;
        }
    }
    assert_eq!(grown, whole, "in pieces");
    let Ok(Some((head, length))) = whole else { return Outcome::Refused };
    let mut written = Vec::new();
    head.write_to(&mut written);
    assert_eq!(Head::parse(&written), Ok(Some((head.clone(), written.len()))), "written again");
    let rest = &input[length..];
    let body = match head.framing() {
        Framing::None => Some(Vec::new()),
        Framing::Length(count) => {
            usize::try_from(count).ok().and_then(|count| rest.get(..count)).map(<[u8]>::to_vec)
        }
        Framing::Chunked => dechunked(rest),
    };
    let Some(body) = body else { return Outcome::Refused };
    let Some(theirs) = by_hyper(input) else { return Outcome::Ours };
    assert_eq!(theirs, ours(&head, body));
    Outcome::Both
}

/// A body in chunks.
pub fn chunked(input: &[u8]) -> Outcome {
    let whole = dechunked(input);
    let mut reader = Chunked::default();
    let mut body = Vec::new();
    let in_pieces =
        pieces(input).into_iter().try_for_each(|piece| take(&mut reader, piece, &mut body));
    let in_pieces = (in_pieces.is_some() && reader.is_done()).then_some(body);
    assert_eq!(in_pieces, whole, "in pieces");
    let Some(body) = whole else { return Outcome::Refused };
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let Some(theirs) = by_hyper(&[head, input].concat()) else { return Outcome::Ours };
    assert_eq!(theirs.body, body);
    Outcome::Both
}

/// None if it is refused, or not whole.
fn dechunked(input: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Chunked::default();
    let mut body = Vec::new();
    take(&mut reader, input, &mut body)?;
    reader.is_done().then_some(body)
}

fn take(reader: &mut Chunked, mut input: &[u8], body: &mut Vec<u8>) -> Option<()> {
    while !input.is_empty() && !reader.is_done() {
        let progress = reader.advance(input).ok()?;
        let end = progress.skip + progress.data;
        assert!(end <= input.len() && end > 0, "{progress:?} of {}", input.len());
        body.extend_from_slice(&input[progress.skip..end]);
        input = &input[end..];
    }
    Some(())
}

fn ours(head: &Head, body: Vec<u8>) -> Seen {
    let mut fields: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, value) in head.fields().iter() {
        fields.entry(name.to_ascii_lowercase()).or_default().push(value.to_vec());
    }
    let destination =
        head.target().destination().map(|to| (to.host.to_string().to_lowercase(), to.port));
    Seen {
        method: head.method().to_owned(),
        destination,
        path: match head.target() {
            Target::Authority(_) => None,
            target => target.path_and_query().map(str::to_owned),
        },
        is_http_10: head.version() == Version::Http10,
        fields,
        body,
    }
}

/// What hyper's server reads first; none if it refuses, or waits for more.
fn by_hyper(input: &[u8]) -> Option<Seen> {
    let seen: Rc<RefCell<Option<Seen>>> = Rc::default();
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (parts, body) = request.into_parts();
            if let Ok(body) = body.collect().await {
                seen.borrow_mut().get_or_insert(by_parts(&parts, body.to_bytes().to_vec()));
            }
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
        }
    });
    let mut builder = Builder::new();
    builder.max_headers(128).max_buf_size(1 << 20);
    let mut connection = pin!(builder.serve_connection(Wire { rest: input }, service));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        let is_over = connection.as_mut().poll(&mut context).is_ready();
        if is_over || seen.borrow().is_some() {
            break;
        }
    }
    seen.take()
}

fn by_parts(parts: &hyper::http::request::Parts, body: Vec<u8>) -> Seen {
    let mut fields: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, value) in &parts.headers {
        fields.entry(name.as_str().to_owned()).or_default().push(value.as_bytes().to_vec());
    }
    let uri = &parts.uri;
    let usual = uri.scheme_str().map_or(0, |_| 80);
    Seen {
        method: parts.method.to_string(),
        destination: uri.host().map(|host| (canonical(host), uri.port_u16().unwrap_or(usual))),
        path: match parts.method.as_str() {
            "CONNECT" => None,
            _ => uri.path_and_query().map(ToString::to_string),
        },
        is_http_10: parts.version == hyper::Version::HTTP_10,
        fields,
        body,
    }
}

/// A host as we write it: one spelling for each.
fn canonical(host: &str) -> String {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match address.and_then(|address| address.parse::<Ipv6Addr>().ok()) {
        Some(address) => Host::Address(IpAddr::from(address).to_canonical()).to_string(),
        None => host.strip_suffix('.').unwrap_or(host).to_lowercase(),
    }
}

/// A connection on which everything has arrived, and on which everything can be said.
struct Wire<'a> {
    rest: &'a [u8],
}

impl Read for Wire<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            // The client has said all, and waits for an answer.
            return Poll::Pending;
        }
        let count = buffer.remaining().min(self.rest.len());
        let (now, later) = self.rest.split_at(count);
        buffer.put_slice(now);
        self.rest = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
