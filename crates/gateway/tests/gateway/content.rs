//! TLS that ends at the gateway, because a rule is about what is inside.
//!
//! Requirements: N2

use belljar_domain::network::{Decision, Kind, Policy, Reach, Reason, Rule};

use crate::client::{ask, is_closed, tls, trusting};
use crate::world::{World, allow};

fn reading(host: &str, port: u16) -> Policy {
    let rule = Rule {
        ports: vec![port],
        methods: vec!["GET".to_owned()],
        paths: vec!["/public".to_owned(), "/version".to_owned()],
        ..Rule::of(host.parse().unwrap())
    };
    Policy { reach: Reach::Allow(vec![rule]), ..Policy::default() }
}

#[tokio::test]
async fn requests_inside_are_judged_one_by_one() {
    let world = World::start().await;
    let port = world.secure("good.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(reading("good.test", port));
    let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    let mut stream = tls(stream, "good.test", &trusting(&sandbox)).await.unwrap();
    let get = |method: &str, path: &str| {
        format!("{method} {path} HTTP/1.1\r\nhost: good.test:{port}\r\n\r\n")
    };
    assert_eq!(ask(&mut stream, &get("GET", "/public/a")).await.body, "GET /public/a ");
    let refused = ask(&mut stream, &get("GET", "/private")).await;
    assert_eq!((refused.status, refused.header("x-belljar-reason")), (403, Some("path")));
    let refused = ask(&mut stream, &get("DELETE", "/public/a")).await;
    assert_eq!((refused.status, refused.header("x-belljar-reason")), (403, Some("method")));
    // HTTP/2 towards the world, HTTP/1 inside.
    assert_eq!(ask(&mut stream, &get("GET", "/version")).await.body, "HTTP/2.0");
    let other = "GET /public HTTP/1.1\r\nhost: other.test\r\n\r\n";
    assert_eq!(ask(&mut stream, other).await.status, 403);
    assert!(is_closed(&mut stream).await);
    assert_eq!(*world.seen.lock().unwrap(), ["/public/a", "/version"]);
    let is_done = |row: &belljar_domain::network::Row| row.kind == Kind::Connection;
    let rows = world.rows(&sandbox, |rows| rows.iter().any(is_done)).await;
    let exchanges: Vec<_> = rows
        .iter()
        .filter(|row| row.kind == Kind::Exchange)
        .map(|row| (row.decision, row.reason))
        .collect();
    let (yes, no) = (Decision::Allowed, Decision::Denied);
    assert_eq!(
        exchanges,
        [
            (yes, Reason::Rule),
            (no, Reason::Path),
            (no, Reason::Method),
            (yes, Reason::Rule),
            (no, Reason::NameMismatch)
        ]
    );
}

#[tokio::test]
async fn a_server_that_is_not_whom_it_says_is_not_believed() {
    let world = World::start().await;
    let port = world.secure("other.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(reading("good.test", port));
    let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    let mut stream = tls(stream, "good.test", &trusting(&sandbox)).await.unwrap();
    let text = format!("GET /public HTTP/1.1\r\nhost: good.test:{port}\r\n\r\n");
    assert_eq!(ask(&mut stream, &text).await.status, 502);
    assert!(world.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_sandboxs_authority_is_its_own() {
    let world = World::start().await;
    let port = world.secure("good.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let sandbox = world.sandbox(reading("good.test", port));
    let other = world.sandbox(allow(&[]));
    let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    assert!(tls(stream, "good.test", &trusting(&other)).await.is_err());
    let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    assert!(tls(stream, "other.test", &trusting(&sandbox)).await.is_err());
}
