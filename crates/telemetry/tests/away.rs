//! Nobody takes traces: whoever makes spans does not notice.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use belljar_telemetry::{Role, Settings, start};
use tokio::time::Instant;

/// A number of a metric, by the beginning of its line.
fn number(address: SocketAddr, line: &str) -> f64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let found = text.lines().find(|found| found.starts_with(line));
    found.map_or(0.0, |found| found.rsplit(' ').next().unwrap().parse().unwrap())
}

/// One thread, so what waited for the receiver while it makes spans would wait for
/// ever; and a clock that goes on only while everybody waits for it.
#[tokio::test(start_paused = true)]
async fn spans_that_nobody_takes_cost_no_time() {
    // Takes connections and never answers: the worst kind of receiver.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let otlp = Some(format!("http://{}", silent.local_addr().unwrap()));
    let metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let settings = Settings { otlp, metrics, ..Settings::default() };
    let telemetry = start(Role::Serve, &settings).unwrap();
    // The first is sent, and is on its way from here on.
    drop(tracing::info_span!("create", sandbox = "first"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    for _ in 0..20_000 {
        let outer = tracing::info_span!("create", sandbox = "abc");
        let _inner = outer.in_scope(|| tracing::info_span!("call", call = 7));
    }
    let address = telemetry.address().unwrap();
    let full = r#"belljar_spans_dropped_total{role="serve",reason="queue_full"}"#;
    let late = r#"belljar_spans_dropped_total{role="serve",reason="not_taken"}"#;
    let dropped = tokio::task::spawn_blocking(move || number(address, full)).await.unwrap();
    // What waits is bounded.
    assert_eq!(dropped, 40_000.0 - 4096.0);
    let begun = Instant::now();
    while tokio::task::spawn_blocking(move || number(address, late)).await.unwrap() < 512.0 {
        assert!(begun.elapsed() < Duration::from_secs(90), "a batch is tried for ever");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let begun = Instant::now();
    telemetry.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}
