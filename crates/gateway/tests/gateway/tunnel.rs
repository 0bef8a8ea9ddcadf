//! CONNECT and SOCKS.
//!
//! Requirements: N2

use belljar_domain::network::{Decision, Kind, Policy, Reason};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{ask, greeting, is_closed, tls};
use crate::world::{World, allow};

const GET: &str = "GET /inside HTTP/1.1\r\nhost: good.test\r\n\r\n";

#[tokio::test]
async fn a_tunnel_leads_to_the_name_that_was_asked_for() {
    let world = World::start().await;
    let port = world.secure("good.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(allow(&[("good.test", port)]));
    let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    // The server's own certificate is seen: nothing was read on the way.
    let mut stream = tls(stream, "good.test", &world.roots).await.unwrap();
    assert_eq!(ask(&mut stream, GET).await.body, "GET /inside ");
    drop(stream);
    let rows = world.rows(&sandbox, |rows| rows.len() == 2).await;
    let tunnel = &rows[1];
    assert_eq!((tunnel.kind, tunnel.decision), (Kind::Connection, Decision::Allowed));
    assert_eq!(tunnel.address, Some("127.0.0.1".parse().unwrap()));
    assert!(tunnel.bytes.out > 200 && tunnel.bytes.into > 500, "{:?}", tunnel.bytes);
}

#[tokio::test]
async fn another_name_inside_is_cut() {
    let world = World::start().await;
    let port = world.secure("other.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(allow(&[("good.test", port)]));
    for (name, reason) in [("other.test", Reason::NameMismatch), ("", Reason::NoName)] {
        let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
        assert!(tls(stream, name, &world.roots).await.is_err());
        let is_it = |row: &belljar_domain::network::Row| row.reason == reason;
        let rows = world.rows(&sandbox, |rows| rows.iter().any(is_it)).await;
        let row = rows.iter().find(|row| is_it(row)).unwrap();
        assert_eq!((row.kind, row.decision), (Kind::Connection, Decision::Denied));
    }
    assert!(world.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn another_name_in_a_second_greeting_is_cut() {
    let world = World::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        heard
    });
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(allow(&[("good.test", port)]));
    let mut stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    let [first, second] = ["good.test", "other.test"].map(|name| greeting(name, &world.roots));
    stream.write_all(&[&first[..], &second].concat()).await.unwrap();
    // It may be cut already.
    let _ = stream.shutdown().await;
    assert!(is_closed(&mut stream).await);
    assert!(heard.await.unwrap() == first, "more than the first greeting was passed on");
    let is_it = |row: &belljar_domain::network::Row| row.reason == Reason::NameMismatch;
    world.rows(&sandbox, |rows| rows.iter().any(is_it)).await;
}

#[tokio::test]
async fn another_host_in_a_plain_request_is_refused() {
    let world = World::start().await;
    // The port is for those who may; no other reason lets this pass.
    if let Err(error) = world.plain_at("127.83.7.1:80".parse().unwrap()).await {
        return assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    }
    world.names.set("good.test", &["127.83.7.1"]);
    let sandbox = world.sandbox(allow(&[("good.test", 80)]));
    let mut stream = sandbox.tunnel("good.test:80").await.unwrap();
    let refused = ask(&mut stream, &GET.replace("good.test", "other.test")).await;
    assert!(matches!(refused.status, 400 | 403), "{refused:?}");
    assert!(world.seen.lock().unwrap().is_empty());
    let mut stream = sandbox.tunnel("good.test:80").await.unwrap();
    assert_eq!(ask(&mut stream, GET).await.body, "GET /inside ");
}

#[tokio::test]
async fn where_tls_is_the_rule_nothing_else_passes() {
    let world = World::start().await;
    let address = "127.83.7.1:443".parse().unwrap();
    // The port is for those who may; no other reason lets this pass.
    if let Err(error) = world.secure_at("good.test", address).await {
        return assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    }
    world.names.set("good.test", &["127.83.7.1"]);
    let sandbox = world.sandbox(allow(&[("good.test", 443)]));
    let mut stream = sandbox.tunnel("good.test:443").await.unwrap();
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(is_closed(&mut stream).await);
    // A greeting in many pieces is still a greeting.
    let stream = sandbox.tunnel("good.test:443").await.unwrap();
    let mut stream = tls(stream, "good.test", &world.roots).await.unwrap();
    assert_eq!(ask(&mut stream, GET).await.body, "GET /inside ");
}

#[tokio::test]
async fn other_protocols_pass_where_a_rule_allows_their_port() {
    let world = World::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The server speaks first, and half-closes last.
        stream.write_all(b"hello ").await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        stream.write_all(said.to_uppercase().as_bytes()).await.unwrap();
    });
    let sandbox = world.sandbox(allow(&[("127.0.0.1", port)]));
    let mut stream = sandbox.tunnel(&format!("127.0.0.1:{port}")).await.unwrap();
    let mut greeting = [0; 6];
    stream.read_exact(&mut greeting).await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!((&greeting, said.as_str()), (b"hello ", "ABC"));
}

#[tokio::test]
async fn what_a_new_policy_forbids_is_cut() {
    let world = World::start().await;
    let port = world.secure("good.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let policy = allow(&[("good.test", port)]);
    let sandbox = world.sandbox(policy.clone());
    let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    let mut stream = tls(stream, "good.test", &world.roots).await.unwrap();
    // A change that still allows it leaves it alone.
    world.gateway.change(&sandbox.id, policy).unwrap();
    assert_eq!(ask(&mut stream, GET).await.status, 200);
    world.gateway.change(&sandbox.id, Policy::default()).unwrap();
    assert!(is_closed(&mut stream).await);
    let is_cut = |row: &belljar_domain::network::Row| row.reason == Reason::PolicyChanged;
    world.rows(&sandbox, |rows| rows.iter().any(is_cut)).await;
    let refused = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap_err();
    assert_eq!(refused.status, 403);
}

#[tokio::test]
async fn nothing_outlives_its_sandbox() {
    let world = World::start().await;
    let port = world.secure("good.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(allow(&[("good.test", port)]));
    let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    let mut stream = tls(stream, "good.test", &world.roots).await.unwrap();
    world.gateway.close(&sandbox.id).unwrap();
    assert!(is_closed(&mut stream).await);
    let refused = tokio::net::TcpStream::connect(sandbox.address).await;
    assert!(refused.is_err(), "the listener is closed");
}

#[tokio::test]
async fn socks_leads_to_the_same_places() {
    let world = World::start().await;
    let port = world.plain().await;
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(allow(&[("good.test", port)]));
    let request = |name: &str, port: u16| {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 3, length], name.as_bytes(), &port.to_be_bytes()].concat()
    };
    let mut stream = sandbox.connect().await;
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).await.unwrap();
    assert_eq!(method, [5, 0]);
    stream.write_all(&request("good.test", port)).await.unwrap();
    let mut connected = [0; 10];
    stream.read_exact(&mut connected).await.unwrap();
    assert_eq!(connected[..2], [5, 0]);
    assert_eq!(ask(&mut stream, GET).await.body, "GET /inside ");

    for name in ["bad.test", "evil.com\0.good.test"] {
        let mut stream = sandbox.connect().await;
        stream.write_all(&[&[5, 1, 0][..], &request(name, port)].concat()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_ne!(answer[3], 0, "{name}");
        assert!(is_closed(&mut stream).await);
    }
    assert_eq!(world.names.asked("bad.test"), 0);
}
