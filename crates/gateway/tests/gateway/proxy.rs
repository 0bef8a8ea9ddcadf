//! Requests for others, in plain HTTP.
//!
//! Requirements: N2, N4

use belljar_domain::network::{Decision, Kind, Policy, Reason};
use tokio::io::AsyncWriteExt as _;

use crate::client::{answer, ask, is_closed};
use crate::world::{World, allow};

#[tokio::test]
async fn an_allowed_host_is_reached_and_written_down() {
    let world = World::start().await;
    let port = world.plain().await;
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(allow(&[("good.test", port)]));
    let text = format!(
        "GET http://good.test:{port}/a?secret=1 HTTP/1.1\r\nhost: good.test:{port}\r\n\r\n"
    );
    let mut stream = sandbox.connect().await;
    let first = ask(&mut stream, &text).await;
    assert_eq!((first.status, first.body.as_str()), (200, "GET /a "));
    // The same connection serves the next request.
    assert_eq!(ask(&mut stream, &text).await.body, "GET /a ");

    let exchanges = |rows: &[_]| {
        rows.iter().filter(|row: &&belljar_domain::network::Row| row.kind == Kind::Exchange).count()
    };
    let rows = world.rows(&sandbox, |rows| exchanges(rows) == 2).await;
    assert_eq!(rows.iter().map(|row| row.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    let lookup = &rows[0];
    assert_eq!((lookup.kind, lookup.decision), (Kind::Lookup, Decision::Allowed));
    let exchange = &rows[1];
    assert_eq!((exchange.decision, exchange.reason), (Decision::Allowed, Reason::Rule));
    assert_eq!(exchange.host.as_ref().unwrap().to_string(), "good.test");
    assert_eq!((exchange.port, exchange.status), (Some(port), Some(200)));
    assert_eq!(exchange.address, Some("127.0.0.1".parse().unwrap()));
    assert_eq!(exchange.path.as_deref(), Some("/a"));
    assert!(exchange.bytes.out >= 20 && exchange.bytes.into >= 7);
    assert_eq!(exchange.within, lookup.within);
    assert_eq!(exchange.subject.tenant, "tenant");
    // The second went over the connection that was there already.
    assert_eq!(world.names.asked("good.test"), 1);
}

#[tokio::test]
async fn bodies_pass_both_ways_whatever_their_framing() {
    let world = World::start().await;
    let port = world.plain().await;
    let sandbox = world.sandbox(allow(&[("127.0.0.1", port)]));
    let target = format!("http://127.0.0.1:{port}/echo HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n");
    let large = "y".repeat(300_000);
    let mut stream = sandbox.connect().await;
    let text = format!("POST {target}content-length: {}\r\n\r\n{large}", large.len());
    assert_eq!(ask(&mut stream, &text).await.body, format!("POST /echo {large}"));
    let text = format!(
        "PUT {target}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    );
    assert_eq!(ask(&mut stream, &text).await.body, "PUT /echo abcde");
    let text = format!("POST {target}expect: 100-continue\r\ncontent-length: 2\r\n\r\n");
    assert_eq!(ask(&mut stream, &text).await.status, 100);
    assert_eq!(ask(&mut stream, "ok").await.body, "POST /echo ok");
    let text = format!("HEAD {target}\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let text =
        format!("GET http://127.0.0.1:{port}/large HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tokio::io::AsyncReadExt::read_u8(&mut stream).await.unwrap());
    }
    assert!(String::from_utf8(head).unwrap().contains("content-length: 11"));
    assert_eq!(answer(&mut stream).await.body.len(), 1 << 20);
}

#[tokio::test]
async fn a_denied_name_is_never_looked_up() {
    let world = World::start().await;
    world.names.set("bad.test", &["127.0.0.1"]);
    for policy in [Policy::default(), allow(&[("good.test", 80)])] {
        let wanted =
            if policy == Policy::default() { Reason::NoNetwork } else { Reason::NotAllowed };
        let sandbox = world.sandbox(policy);
        let refused = sandbox.ask("GET http://bad.test/ HTTP/1.1\r\nhost: bad.test\r\n\r\n").await;
        assert_eq!(refused.status, 403);
        let said: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(said["reason"], serde_json::to_value(wanted).unwrap());
        assert_eq!(said["host"], "bad.test");
        assert_eq!(refused.header("x-belljar-reason"), said["reason"].as_str());
        let refused = sandbox.tunnel("bad.test:443").await.unwrap_err();
        assert_eq!(refused.status, 403);
        let rows = world.rows(&sandbox, |rows| rows.len() == 2).await;
        assert!(rows.iter().all(|row| row.decision == Decision::Denied && row.reason == wanted));
    }
    assert_eq!(world.names.asked("bad.test"), 0);
}

#[tokio::test]
async fn a_name_that_leads_to_a_private_place_leads_nowhere() {
    let world = World::start().await;
    world.names.set("inner.test", &["10.0.0.1"]);
    world.names.set("mixed.test", &["127.0.0.1", "169.254.169.254"]);
    let port = world.plain().await;
    let policy = allow(&[("inner.test", port), ("mixed.test", port), ("10.0.0.1", port)]);
    let sandbox = world.sandbox(policy);
    for host in ["inner.test", "mixed.test", "10.0.0.1"] {
        let text = format!("GET http://{host}:{port}/ HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n");
        let refused = sandbox.ask(&text).await;
        assert_eq!((refused.status, refused.header("x-belljar-reason")), (403, Some("private")));
    }
    assert!(world.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_redirect_is_the_clients_to_follow() {
    let world = World::start().await;
    let port = world.plain().await;
    let sandbox = world.sandbox(allow(&[("127.0.0.1", port)]));
    let text =
        format!("GET http://127.0.0.1:{port}/redirect HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    let mut stream = sandbox.connect().await;
    let found = ask(&mut stream, &text).await;
    assert_eq!((found.status, found.header("location")), (302, Some("http://denied.test/")));
    let text = "GET http://denied.test/ HTTP/1.1\r\nhost: denied.test\r\n\r\n";
    assert_eq!(ask(&mut stream, text).await.status, 403);
    assert_eq!(world.names.asked("denied.test"), 0);
}

#[tokio::test]
async fn what_a_client_says_of_itself_does_not_leave() {
    let world = World::start().await;
    let port = world.plain().await;
    let sandbox = world.sandbox(allow(&[("127.0.0.1", port)]));
    let text = format!(
        "GET http://127.0.0.1:{port}/headers HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\
         x-forwarded-for: 1.2.3.4\r\nforwarded: for=1.2.3.4\r\nvia: 1.1 me\r\nx-belljar-engine: me\r\n\
         proxy-authorization: Basic eDp5\r\nconnection: x-private\r\nx-private: 1\r\nx-mine: kept\r\n\r\n"
    );
    let shown = sandbox.ask(&text).await.body;
    for name in ["forwarded", "via", "belljar", "proxy", "x-private", "connection"] {
        assert!(!shown.contains(name), "{name} in {shown}");
    }
    assert!(shown.contains("x-mine") && shown.contains("kept"));
}

#[tokio::test]
async fn after_any_doubt_the_connection_ends() {
    let world = World::start().await;
    let port = world.plain().await;
    let sandbox = world.sandbox(allow(&[("127.0.0.1", port)]));
    let line = format!("POST http://127.0.0.1:{port}/x HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n");
    let smuggled = "GET http://127.0.0.1/smuggled HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
    for head in [
        format!("{line}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{line}content-length: 3\r\ncontent-length: 4\r\n\r\nabc"),
        format!("{line}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n"),
        format!("{line}x: a\r\n b\r\n\r\n"),
        format!("{line}x : a\r\n\r\n"),
        line.replace("\r\n", "\n") + "\n",
        format!("{line}upgrade: websocket\r\nconnection: upgrade\r\n\r\n"),
        format!("GET http://127.0.0.1:{port}/x HTTP/1.1\r\nhost: other.test\r\n\r\n"),
        "GET http://evil.com\0.good.test/ HTTP/1.1\r\nhost: good.test\r\n\r\n".to_owned(),
    ] {
        let mut stream = sandbox.connect().await;
        let refused = ask(&mut stream, &(head.clone() + smuggled)).await;
        assert_eq!(refused.status, 400, "{head:?}");
        assert!(is_closed(&mut stream).await, "{head:?}");
    }
    assert!(world.seen.lock().unwrap().is_empty(), "{:?}", world.seen);
    let rows = world.rows(&sandbox, |rows| rows.len() == 9).await;
    assert!(rows.iter().all(|row| row.reason == Reason::Malformed));
}

#[tokio::test]
async fn an_answer_before_the_body_is_read_ends_the_connection() {
    let world = World::start().await;
    let port = world.plain().await;
    let sandbox = world.sandbox(allow(&[("127.0.0.1", port)]));
    let refused =
        "POST http://denied.test/ HTTP/1.1\r\nhost: denied.test\r\ncontent-length: 80\r\n\r\n";
    let inner =
        format!("GET http://127.0.0.1:{port}/smuggled HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    let mut stream = sandbox.connect().await;
    assert_eq!(ask(&mut stream, &format!("{refused}{inner}")).await.status, 403);
    assert!(is_closed(&mut stream).await);
    assert!(world.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_connection_is_somebodys() {
    let world = World::start().await;
    let sandbox = world.sandbox_of("tenant", Policy::default(), true);
    sandbox.ask("GET http://bad.test/ HTTP/1.1\r\nhost: bad.test\r\n\r\n").await;
    let rows = world.rows(&sandbox, |rows| !rows.is_empty()).await;
    // The name server of this world says 7 for every socket that exists.
    assert_eq!(rows[0].subject.call.as_ref().map(|call| call.number), Some(7));
}

#[tokio::test]
async fn the_gateway_is_no_way_to_itself() {
    let world = World::start().await;
    let sandbox =
        world.sandbox(Policy { reach: belljar_domain::network::Reach::Open, ..Policy::default() });
    for to in ["127.0.0.1:3128", "gateway.belljar.internal:80", "gateway.belljar.internal:443"] {
        assert_eq!(sandbox.tunnel(to).await.unwrap_err().status, 403, "{to}");
    }
    let foreign = sandbox.ask("GET /v1/models HTTP/1.1\r\nhost: rebound.test\r\n\r\n").await;
    assert_eq!(foreign.status, 403);
}
