//! How much of the world.
//!
//! Requirements: N3

use belljar_domain::network::{Policy, Reason, Throttle};

use crate::client::{ask, is_closed};
use crate::world::{World, allow};

#[tokio::test]
async fn too_many_connections_are_told_so() {
    let world = World::start().await;
    let throttle = Throttle { connections: 2, ..Throttle::default() };
    let sandbox = world.sandbox(Policy { throttle, ..Policy::default() });
    let get = "GET http://bad.test/ HTTP/1.1\r\nhost: bad.test\r\n\r\n";
    let mut first = sandbox.connect().await;
    assert_eq!(ask(&mut first, get).await.status, 403);
    let mut second = sandbox.connect().await;
    assert_eq!(ask(&mut second, get).await.status, 403);
    let refused = sandbox.ask(get).await;
    assert_eq!((refused.status, refused.header("x-belljar-reason")), (429, Some("too_many")));
    let is_it = |row: &belljar_domain::network::Row| row.reason == Reason::TooMany;
    world.rows(&sandbox, |rows| rows.iter().any(is_it)).await;
}

#[tokio::test]
async fn bytes_that_are_spent_are_spent() {
    let world = World::start().await;
    let port = world.plain().await;
    let throttle = Throttle { bytes_out: 4096, ..Throttle::default() };
    let sandbox = world.sandbox(Policy { throttle, ..allow(&[("127.0.0.1", port)]) });
    let target = format!("http://127.0.0.1:{port}/x HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n");
    let small = format!("POST {target}content-length: 5\r\n\r\nhello");
    assert_eq!(sandbox.ask(&small).await.status, 200);
    // Data in headers counts like data in bodies.
    let large = format!("GET {target}x: {}\r\n\r\n", "z".repeat(5000));
    let refused = sandbox.ask(&large).await;
    assert_eq!((refused.status, refused.header("x-belljar-reason")), (429, Some("bytes_spent")));
    assert_eq!(sandbox.ask(&small).await.status, 429);
    assert_eq!(world.seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_answer_without_end_has_one() {
    let world = World::start().await;
    let port = world.plain().await;
    let throttle = Throttle { bytes_in: 100_000, ..Throttle::default() };
    let sandbox = world.sandbox(Policy { throttle, ..allow(&[("127.0.0.1", port)]) });
    let mut stream = sandbox.connect().await;
    let text =
        format!("GET http://127.0.0.1:{port}/large HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut stream, text.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut read).await;
    assert!(read.len() < 200_000, "{} bytes of 1 MiB", read.len());
    assert!(is_closed(&mut stream).await);
}
