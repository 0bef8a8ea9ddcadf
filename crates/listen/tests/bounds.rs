//! Bounds of open ports: connections of a port, of an address, without a request, and without a
//! byte after an upgrade.
#![expect(clippy::unwrap_used, reason = "a test; its helpers are no test functions")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use belljar_listen::{Doors, Listener, PeerAddress, Settings};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// What has not come by then does not come.
const HANG_LIMIT: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_millis(300);

const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn port() -> (Listener, SocketAddr) {
    let listener = Listener::bind(SocketAddr::from((ONE, 0)), None).unwrap();
    let address = listener.address().unwrap();
    (listener, address)
}

fn open(listeners: Vec<Listener>, settings: Settings) -> Doors {
    Doors::open(listeners, settings, async |mut request: Request<Body>| {
        if request.uri().path() == "/upgrade" {
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgraded.await.unwrap());
                let mut seen = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut seen).await {
                    stream.write_all(&seen[..read]).await.unwrap();
                }
            });
            let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            let answer = answer.header("connection", "upgrade").header("upgrade", "echo");
            return answer.body(Body::empty()).unwrap();
        }
        let peer = request.extensions().get::<PeerAddress>().unwrap().0;
        if request.uri().path() == "/slow" {
            // Twice as long as a connection may be idle.
            let pieces = futures_util::stream::unfold(0, async |count| {
                tokio::time::sleep(IDLE / 2).await;
                (count < 4).then(|| (Ok::<_, std::io::Error>(Bytes::from("x")), count + 1))
            });
            return Response::new(Body::from_stream(pieces));
        }
        Response::new(Body::from(peer.to_string()))
    })
}

async fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(to).await.unwrap()
}

/// The answer to a request; none: the port hung up, or kept silent.
async fn ask(stream: &mut TcpStream) -> Option<String> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.ok()?;
    let mut seen = vec![0; 1024];
    let read = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut seen)).await;
    let read = read.ok()?.ok().filter(|read| *read > 0)?;
    Some(String::from_utf8_lossy(&seen[..read]).into_owned())
}

/// A connection that was upgraded to one that says everything again.
async fn upgrade(to: SocketAddr) -> TcpStream {
    let mut stream = connect(ONE, to).await;
    let head = "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        seen.push(stream.read_u8().await.unwrap());
    }
    assert!(seen.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&seen));
    stream
}

async fn is_echoed(stream: &mut TcpStream) -> bool {
    let mut seen = [0; 4];
    let echo = async {
        stream.write_all(b"ping").await.ok()?;
        stream.read_exact(&mut seen).await.ok()
    };
    let echoed = tokio::time::timeout(HANG_LIMIT, echo).await.unwrap();
    echoed.is_some() && seen == *b"ping"
}

async fn is_answered(from: Ipv4Addr, to: SocketAddr) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < HANG_LIMIT {
        let mut stream = connect(from, to).await;
        if let Some(answer) = ask(&mut stream).await {
            assert!(answer.contains(&from.to_string()), "{answer}");
            return true;
        }
        if begin.elapsed() > Duration::from_secs(3) {
            break;
        }
    }
    false
}

async fn http2(to: SocketAddr) -> (SendRequest<Empty<Bytes>>, JoinHandle<()>) {
    let stream = TokioIo::new(connect(ONE, to).await);
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new());
    let (sender, connection) = builder.handshake(stream).await.unwrap();
    (sender, tokio::spawn(async move { drop(connection.await) }))
}

fn get(to: SocketAddr, path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://{to}{path}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn full_port_keeps_nobody_from_another() {
    let ((public, clients), (private, nodes)) = (port(), port());
    let settings = Settings { connections: 3, connections_per_address: 3, ..Settings::default() };
    let _doors = open(vec![public, private], settings);
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(ONE, clients).await;
        assert!(ask(&mut stream).await.is_some());
        held.push(stream);
    }
    assert!(!is_answered(OTHER, clients).await, "the port is full");
    assert!(is_answered(ONE, nodes).await, "the other port has places of its own");
    held.clear();
    assert!(is_answered(OTHER, clients).await, "places are given back");
}

#[tokio::test]
async fn one_address_does_not_take_every_place() {
    let (public, clients) = port();
    let settings = Settings { connections: 16, connections_per_address: 3, ..Settings::default() };
    let _doors = open(vec![public], settings);
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(ONE, clients).await;
        assert!(ask(&mut stream).await.is_some());
        held.push(stream);
    }
    let mut fourth = connect(ONE, clients).await;
    assert_eq!(ask(&mut fourth).await, None, "the fourth of one address");
    assert!(is_answered(OTHER, clients).await, "another address is served");
    held.pop();
    assert!(is_answered(ONE, clients).await, "places are given back");
}

#[tokio::test]
async fn idle_http2_connection_is_closed() {
    let (public, clients) = port();
    let _doors = open(vec![public], Settings { idle: IDLE, ..Settings::default() });
    let (mut sender, connection) = http2(clients).await;
    let answer = sender.send_request(get(clients, "/")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "127.0.0.1");
    let closed = tokio::time::timeout(HANG_LIMIT, connection).await;
    assert!(closed.is_ok(), "it is open after {HANG_LIMIT:?}");
    // One that never asked for anything.
    let (_sender, connection) = http2(clients).await;
    let closed = tokio::time::timeout(HANG_LIMIT, connection).await;
    assert!(closed.is_ok(), "it is open after {HANG_LIMIT:?}");
}

#[tokio::test]
async fn connection_with_a_request_is_not_idle() {
    let (public, clients) = port();
    let _doors = open(vec![public], Settings { idle: IDLE, ..Settings::default() });
    let (mut sender, connection) = http2(clients).await;
    let answer = sender.send_request(get(clients, "/slow")).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "xxxx");
    // As often as it asks in time, it stays.
    for _ in 0..4 {
        tokio::time::sleep(IDLE / 3).await;
        let answer = sender.send_request(get(clients, "/")).await.unwrap();
        answer.into_body().collect().await.unwrap();
    }
    assert!(!connection.is_finished());
    assert!(tokio::time::timeout(HANG_LIMIT, connection).await.is_ok());
}

#[tokio::test]
async fn upgraded_connection_keeps_its_place() {
    let (public, clients) = port();
    let settings = Settings { connections: 16, connections_per_address: 2, ..Settings::default() };
    let _doors = open(vec![public], settings);
    let mut held = vec![upgrade(clients).await, upgrade(clients).await];
    for stream in &mut held {
        assert!(is_echoed(stream).await);
    }
    let mut third = connect(ONE, clients).await;
    assert_eq!(ask(&mut third).await, None, "the third of one address");
    assert!(is_answered(OTHER, clients).await, "another address is served");
    for stream in &mut held {
        assert!(is_echoed(stream).await);
    }
    held.pop();
    assert!(is_answered(ONE, clients).await, "places are given back");
}

#[tokio::test]
async fn silent_upgraded_connection_is_closed() {
    let (public, clients) = port();
    let _doors = open(vec![public], Settings { upgraded_idle: IDLE, ..Settings::default() });
    let mut stream = upgrade(clients).await;
    let read = tokio::time::timeout(HANG_LIMIT, stream.read(&mut [0; 4])).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "it is open after {HANG_LIMIT:?}");
}

#[tokio::test]
async fn upgraded_connection_may_be_idle_for_longer_than_others() {
    let (public, clients) = port();
    let _doors = open(vec![public], Settings { idle: IDLE, ..Settings::default() });
    let mut stream = upgrade(clients).await;
    tokio::time::sleep(IDLE * 3).await;
    assert!(is_echoed(&mut stream).await);
}

#[tokio::test]
async fn proxy_may_have_every_place_of_a_port_for_proxies() {
    let (private, address) = port();
    let settings = Settings { connections: 16, connections_per_address: 1, ..Settings::default() };
    let _doors = open(vec![private.for_proxies()], settings);
    let mut held = Vec::new();
    for _ in 0..16 {
        let mut stream = connect(ONE, address).await;
        assert!(ask(&mut stream).await.is_some());
        held.push(stream);
    }
}

#[test]
fn addresses_of_one_client_are_one() {
    let network = |text: &str| PeerAddress(text.parse::<IpAddr>().unwrap()).network();
    assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
    assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
    assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
}
