//! Against real servers, which are killed.
#![expect(clippy::unwrap_used, reason = "a test; its helpers are no test functions")]

use std::time::{Duration, Instant};

use belljar_domain::{MaxLimits, NodeNumber, SandboxId, Tier};
use belljar_nats::{Doorbell, Heard, OutboxError, Stream, Waiting};
use belljar_peer_proto::encoded::Encoded;
use belljar_peer_proto::member::Load;
use belljar_peer_proto::platform::{Beat, SignedBeat, Told};
use belljar_testkit::Nats;
use futures_util::FutureExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn beat(epoch: u64) -> SignedBeat {
    let load = Load {
        is_warming: false,
        free: 12,
        is_draining: false,
        tiers: vec![Tier::Jail, Tier::GVISOR],
        warm: vec!["base".to_owned()],
        max_limits: Some(MaxLimits::default()),
    };
    let number = NodeNumber::new(9).unwrap();
    let beat = Beat { number, epoch, load, hits: 40, misses: 2, at: 0 };
    let beat = serde_json::to_string(&beat).unwrap();
    SignedBeat { number, beat, signature: Encoded(vec![7; 64]) }
}

fn epoch_of(beat: &SignedBeat) -> u64 {
    serde_json::from_str::<Beat>(&beat.beat).unwrap().epoch
}

fn told(tenant: &str, kind: &str) -> Told {
    Told {
        tenant: tenant.to_owned(),
        sandbox: SandboxId::from_random([5; 16]),
        kind: kind.to_owned(),
        detail: json!({ "reason": "done" }),
        at: 1,
    }
}

fn waiting<'a>(id: &'a str, subject: &'a str, body: &'a Value) -> Waiting<'a> {
    Waiting { id, subject, body }
}

async fn connected(nats: &Nats) -> Doorbell {
    let doorbell = Doorbell::connect(nats.urls()).await.unwrap();
    until(&doorbell, Doorbell::is_connected).await;
    doorbell
}

async fn until(doorbell: &Doorbell, is_so: impl Fn(&Doorbell) -> bool) {
    let began = Instant::now();
    while !is_so(doorbell) {
        assert!(began.elapsed() < PATIENCE, "{:?}", doorbell.figures());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Beats with rising epochs until one of them arrives, and answers it: what is rung
/// before somebody listens is lost, and so is what is rung during an outage.
async fn arrives(from: &Doorbell, at: &mut Heard<SignedBeat>, first: u64) -> SignedBeat {
    let began = Instant::now();
    let mut epoch = first;
    loop {
        from.beat(&beat(epoch));
        // A later round begins higher.
        epoch = (epoch + 1).min(first + 4999);
        let soon = Instant::now() + Duration::from_millis(20);
        while let Ok(heard) = tokio::time::timeout_at(soon.into(), at.next()).await {
            if let Some(heard) = heard.filter(|heard| epoch_of(heard) >= first) {
                return heard;
            }
        }
        assert!(began.elapsed() < PATIENCE, "no beat arrives: {:?}", from.figures());
    }
}

/// Counts how often this thread has given its core away to wait for something.
fn waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Asks until there is an answer: a server that is slow to write counts as away, and
/// says nothing about what is asked here. Also says how often it was asked.
async fn answered<T>(
    mut ask: impl AsyncFnMut(u64) -> Result<T, OutboxError>,
) -> (Result<T, OutboxError>, u64) {
    let began = Instant::now();
    let mut times = 1;
    loop {
        match ask(times).await {
            Err(OutboxError::Away) if began.elapsed() < PATIENCE => times += 1,
            answer => return (answer, times),
        }
    }
}

async fn next<T: DeserializeOwned>(heard: &mut Heard<T>) -> T {
    tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn everybody_who_listens_hears_every_beat() {
    let nats = Nats::start().unwrap();
    let node = connected(&nats).await;
    let (one, two) = (connected(&nats).await, connected(&nats).await);
    let (mut first, mut second) = (one.beats(), two.beats());
    // From here on both are known to listen.
    let mut seen = [
        epoch_of(&arrives(&node, &mut first, 0).await),
        epoch_of(&arrives(&node, &mut second, 5000).await),
    ];
    for epoch in 10_000..10_100 {
        node.beat(&beat(epoch));
    }
    for (heard, seen) in [&mut first, &mut second].into_iter().zip(&mut seen) {
        while *seen < 10_000 {
            *seen = epoch_of(&next(heard).await);
        }
        assert_eq!(*seen, 10_000);
        for epoch in 10_001..10_100 {
            assert_eq!(next(heard).await, beat(epoch));
        }
    }
    assert_eq!(node.figures().dropped, 0);
    assert!(node.figures().published >= 102);
}

#[tokio::test]
async fn tenants_hear_their_own_and_nothing_else() {
    let nats = Nats::start().unwrap();
    let (control, node) = (connected(&nats).await, connected(&nats).await);
    let (mut ann, mut bob) = (control.told("ann"), control.told("bob > *"));
    // The subscriptions precede this on their connection, so whoever hears it
    // knows that the server has them.
    arrives(&node, &mut control.beats(), 0).await;
    for (tenant, kind) in [("eve", "a"), ("ann", "b"), ("bob > *", "c"), ("ann", "d")] {
        node.tell(&told(tenant, kind));
    }
    assert_eq!(next(&mut ann).await, told("ann", "b"));
    assert_eq!(next(&mut ann).await, told("ann", "d"));
    assert_eq!(next(&mut bob).await, told("bob > *", "c"));
    node.tell(&told("bob > *", "e"));
    assert_eq!(next(&mut bob).await, told("bob > *", "e"));
    assert_eq!(control.figures().unread, 0);
}

#[tokio::test]
async fn what_cannot_be_read_is_skipped_and_counted() {
    let nats = Nats::start().unwrap();
    let (control, node) = (connected(&nats).await, connected(&nats).await);
    let mut beats = control.beats();
    arrives(&node, &mut beats, 0).await;
    let stranger = async_nats::connect(nats.urls()[0].as_str()).await.unwrap();
    stranger.publish(belljar_peer_proto::platform::BEATS, "{\"number\":0}".into()).await.unwrap();
    stranger.flush().await.unwrap();
    let began = Instant::now();
    while control.figures().unread == 0 && began.elapsed() < PATIENCE {
        arrives(&node, &mut beats, 5000).await;
    }
    assert_eq!(control.figures().unread, 1);
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again() {
    let mut nats = Nats::start().unwrap();
    let (control, node) = (connected(&nats).await, connected(&nats).await);
    let mut beats = control.beats();
    arrives(&node, &mut beats, 0).await;
    nats.kill(0);
    until(&node, |node| !node.is_connected()).await;
    let (dropped, before) = (node.figures().dropped, waits());
    for epoch in 100_000..200_000 {
        node.beat(&beat(epoch));
    }
    assert_eq!(node.figures().dropped, dropped + 100_000);
    let waited = waits() - before;
    assert!(waited < 100, "100,000 beats waited {waited} times");
    nats.restart(0).unwrap();
    let began = Instant::now();
    // Nothing that was rung during the outage comes late.
    let heard = loop {
        node.beat(&beat(500_000));
        let soon = Duration::from_millis(20);
        let heard = tokio::time::timeout(soon, beats.next()).await.ok().flatten();
        if let Some(heard) = heard.filter(|heard| epoch_of(heard) >= 100_000) {
            break heard;
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", node.figures());
    };
    assert_eq!(epoch_of(&heard), 500_000);
    assert!(node.figures().reconnects >= 1 && control.figures().reconnects >= 1);
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_never_was() {
    // A port that is bound and never accepts; another that nobody has. Each call is
    // over when it is polled once: there is nothing that it could wait for.
    let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("nats://{}", bound.local_addr().unwrap());
    let doorbell = Doorbell::connect([silent.as_str(), "nats://127.0.0.1:1"]);
    let doorbell = doorbell.now_or_never().expect("connecting waits").unwrap();
    let mut beats: Vec<_> = (0..3000).map(|_| doorbell.beats()).collect();
    doorbell.beat(&beat(1));
    doorbell.tell(&told("ann", "created"));
    let body = Value::Null;
    let published = doorbell.publish_outbox(&[waiting("1", "a", &body)]).now_or_never();
    assert!(matches!(published, Some(Err(OutboxError::Away))), "{published:?}");
    assert!(matches!(doorbell.look().now_or_never(), Some(Err(OutboxError::Away))));
    let silence = tokio::time::timeout(Duration::from_millis(300), beats[2999].next()).await;
    assert!(silence.is_err(), "{silence:?}");
    assert_eq!(doorbell.figures().dropped, 2);
    assert_eq!(doorbell.figures().published, 0);
}

#[tokio::test]
async fn a_server_that_hangs_is_left_for_another() {
    let nats = Nats::cluster().unwrap();
    let (control, node) = (connected(&nats).await, connected(&nats).await);
    let mut beats = control.beats();
    arrives(&node, &mut beats, 0).await;
    for n in 0..3 {
        nats.freeze(n);
        arrives(&node, &mut beats, 10_000 * (n as u64 + 1)).await;
        nats.thaw(n);
    }
}

#[tokio::test]
async fn one_of_three_servers_may_die() {
    let mut nats = Nats::cluster().unwrap();
    let (control, node) = (connected(&nats).await, connected(&nats).await);
    let mut beats = control.beats();
    let mut epoch = 0;
    for n in 0..3 {
        epoch += 10_000;
        arrives(&node, &mut beats, epoch).await;
        nats.kill(n);
        epoch += 10_000;
        arrives(&node, &mut beats, epoch).await;
        nats.restart(n).unwrap();
        nats.settle().unwrap();
    }
    assert!(node.figures().reconnects >= 1);
}

#[tokio::test]
async fn the_outbox_is_kept_once_for_each_id() {
    let nats = Nats::start().unwrap();
    let doorbell = connected(&nats).await;
    let look = async || answered(async |_| doorbell.look().await).await.0.unwrap();
    let body = json!({ "sandbox": "x" });
    let first = [waiting("1:0", "sandbox.ended", &body)];
    let (first, _) = answered(async |_| doorbell.publish_outbox(&first).await).await;
    assert!(matches!(first, Err(OutboxError::NoStream)), "{first:?}");
    assert_eq!(look().await, Stream::Missing);
    for _ in 0..2 {
        answered(async |_| doorbell.make_stream().await).await.0.unwrap();
    }
    assert_eq!(look().await, Stream::Whole);
    let long = json!("a".repeat(2 << 20));
    let mut refused = 0;
    for _ in 0..2 {
        let four = [
            waiting("1:0", "sandbox.ended", &body),
            waiting("2:0", "not a subject", &body),
            waiting("3:0", "sandbox.ended", &long),
            waiting("4:0", "sandbox.ended", &body),
        ];
        let (found, times) = answered(async |_| doorbell.publish_outbox(&four).await).await;
        assert_eq!(found.unwrap(), Stream::Whole);
        refused += 2 * times;
    }
    assert_eq!(doorbell.figures().refused, refused);
    let client = async_nats::connect(nats.urls()[0].as_str()).await.unwrap();
    let streams = async_nats::jetstream::new(client);
    let stream = streams.get_stream(belljar_peer_proto::platform::STREAM).await.unwrap();
    let kept = stream.cached_info();
    assert_eq!((kept.state.messages, kept.config.num_replicas), (2, 1));
    assert!(kept.config.max_bytes > 0 && !kept.config.max_age.is_zero());
    for n in 0..20 {
        let id = format!("5:{n}");
        let next = [waiting(&id, "sandbox.ended", &body)];
        answered(async |_| doorbell.publish_outbox(&next).await).await.0.unwrap();
    }
    // Somebody makes it anew behind our back: its places begin again.
    streams.delete_stream(belljar_peer_proto::platform::STREAM).await.unwrap();
    streams.create_stream(kept.config.clone()).await.unwrap();
    let (found, _) = answered(async |times| {
        // One that was kept and not answered for has its place already.
        let id = format!("6:{times}");
        doorbell.publish_outbox(&[waiting(&id, "sandbox.ended", &body)]).await
    })
    .await;
    assert_eq!(found.unwrap(), Stream::Lessened);
    assert_eq!(look().await, Stream::Whole);
}
