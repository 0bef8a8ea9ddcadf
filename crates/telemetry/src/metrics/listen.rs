//! `GET /metrics`, on a plain port of its own: whoever may reach it may read it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::scrape::Scrape;

/// Connections at once; a Prometheus needs one.
const CONNECTIONS: usize = 32;
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn listen(
    address: SocketAddr,
    scrape: Arc<Scrape>,
) -> io::Result<(SocketAddr, AbortHandle)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept(listener, scrape));
    Ok((address, task.abort_handle()))
}

async fn accept(listener: TcpListener, scrape: Arc<Scrape>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let scrape = scrape.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &scrape);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

fn answer(request: &Request<Incoming>, scrape: &Scrape) -> Response<Full<Bytes>> {
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, TYPE, scrape.text()),
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", String::new()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
