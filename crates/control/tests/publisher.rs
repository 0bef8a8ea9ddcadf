//! The outbox's way into the stream, with a real database and real servers.
#![expect(clippy::unwrap_used, reason = "a test; its helpers are no test functions")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use belljar_control::publisher;
use belljar_nats::{Doorbell, OutboxError, Stream, Waiting};
use belljar_peer_proto::platform::STREAM;
use belljar_store::{Message, Store};
use belljar_testkit::{Nats, Postgres};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

async fn store() -> Store {
    let store = Store::connect(&Postgres::shared().schema(), 8).await.unwrap();
    store.migrate().await.unwrap();
    store
}

async fn tell(store: &Store, numbers: std::ops::Range<u32>) {
    for number in numbers {
        store.tell("sandbox.ended", &json!({ "number": number })).await.unwrap();
    }
}

fn waiting(message: &Message) -> Waiting<'_> {
    Waiting { id: &message.id, subject: &message.subject, body: &message.body }
}

async fn doorbell(nats: &Nats) -> Doorbell {
    Doorbell::connect(nats.urls()).await.unwrap()
}

async fn running(store: &Store, nats: &Nats) -> JoinHandle<()> {
    tokio::spawn(publisher::run(store.clone(), doorbell(nats).await))
}

/// Asks until NATS answers: a server that is slow counts as away.
async fn answered<T>(mut ask: impl AsyncFnMut() -> Result<T, OutboxError>) -> T {
    let began = Instant::now();
    loop {
        match ask().await {
            Err(OutboxError::Away) if began.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            answer => return answer.unwrap(),
        }
    }
}

async fn drained(store: &Store) {
    let began = Instant::now();
    loop {
        let (waiting, oldest) = store.waiting().await.unwrap();
        if waiting == 0 {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{waiting} wait, for {oldest:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn streams(nats: &Nats) -> jetstream::Context {
    let servers: Vec<async_nats::ServerAddr> =
        nats.urls().iter().map(|url| url.parse().unwrap()).collect();
    let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
    let client = options.request_timeout(Some(PATIENCE)).connect(servers).await.unwrap();
    jetstream::context::ContextBuilder::new().timeout(PATIENCE).build(client)
}

/// What the stream has, as somebody reads it: ids and numbers, in order.
async fn kept(nats: &Nats) -> Vec<(String, u64)> {
    let stream = streams(nats).await.get_stream(STREAM).await.unwrap();
    let most = usize::try_from(stream.cached_info().state.messages).unwrap();
    let config = pull::Config { ack_policy: AckPolicy::None, ..pull::Config::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut messages = consumer.fetch().max_messages(most).messages().await.unwrap();
    let mut read = Vec::new();
    while let Some(message) = messages.next().await {
        let message = message.unwrap();
        assert_eq!(message.subject.as_str(), "belljar.outbox.sandbox.ended");
        let id = message.headers.as_ref().unwrap().get("Nats-Msg-Id").unwrap().to_string();
        let body: Value = serde_json::from_slice(&message.payload).unwrap();
        read.push((id, body["number"].as_u64().unwrap()));
    }
    assert_eq!(read.len(), most);
    read
}

/// Each number once, under an id of its own.
#[track_caller]
fn assert_once(kept: &[(String, u64)], numbers: std::ops::Range<u64>) {
    let mut found: Vec<_> = kept.iter().map(|(_, number)| *number).collect();
    found.sort_unstable();
    assert_eq!(found, numbers.collect::<Vec<_>>());
    let ids: BTreeSet<_> = kept.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), kept.len());
}

#[tokio::test]
async fn what_is_written_is_published_once_and_in_order() {
    let (nats, store) = (Nats::start().unwrap(), store().await);
    tell(&store, 0..250).await;
    let publisher = running(&store, &nats).await;
    drained(&store).await;
    let found = kept(&nats).await;
    assert_once(&found, 0..250);
    assert!(found.is_sorted_by_key(|(_, number)| *number), "{found:?}");
    // And what is written later, by itself.
    tell(&store, 250..251).await;
    drained(&store).await;
    assert_once(&kept(&nats).await, 0..251);
    publisher.abort();
}

#[tokio::test]
async fn two_publishers_share_the_work() {
    let (nats, store) = (Nats::start().unwrap(), store().await);
    let publishers = [running(&store, &nats).await, running(&store, &nats).await];
    tell(&store, 0..500).await;
    drained(&store).await;
    assert_once(&kept(&nats).await, 0..500);
    publishers.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn a_publisher_that_dies_before_it_says_so_publishes_nothing_twice() {
    let (nats, store) = (Nats::start().unwrap(), store().await);
    tell(&store, 0..150).await;
    let doorbell = doorbell(&nats).await;
    answered(async || doorbell.look().await).await;
    answered(async || doorbell.make_stream().await).await;
    for _ in 0..3 {
        let outgoing = store.outgoing(100).await.unwrap();
        let messages: Vec<_> = outgoing.messages.iter().map(waiting).collect();
        let stream = answered(async || doorbell.publish_outbox(&messages).await).await;
        assert_eq!(stream, Stream::Whole);
        // All are acknowledged, and it dies.
        drop(outgoing);
        assert_eq!(store.waiting().await.unwrap().0, 150);
    }
    // Others die wherever they are.
    for turn in 0..20 {
        let publisher = running(&store, &nats).await;
        tokio::time::sleep(Duration::from_millis(3 * turn)).await;
        publisher.abort();
        let _ = publisher.await;
        let first = 150 + 10 * u32::try_from(turn).unwrap();
        tell(&store, first..first + 10).await;
    }
    let publisher = running(&store, &nats).await;
    drained(&store).await;
    assert_once(&kept(&nats).await, 0..350);
    publisher.abort();
}

#[tokio::test]
async fn one_of_three_servers_dies_and_nothing_stops() {
    let (mut nats, store) = (Nats::cluster().unwrap(), store().await);
    let publisher = running(&store, &nats).await;
    tell(&store, 0..50).await;
    drained(&store).await;
    let stream = streams(&nats).await.get_stream(STREAM).await.unwrap();
    assert_eq!(stream.cached_info().config.num_replicas, 3);
    for n in 0..3 {
        nats.kill(n);
        let first = 50 + 50 * u32::try_from(n).unwrap();
        tell(&store, first..first + 50).await;
        drained(&store).await;
        nats.restart(n).unwrap();
        nats.settle().unwrap();
    }
    // Its disk is new, and it learns from the others.
    nats.wipe(0).unwrap();
    tell(&store, 200..250).await;
    drained(&store).await;
    nats.restart(0).unwrap();
    nats.settle().unwrap();
    assert_once(&kept(&nats).await, 0..250);
    publisher.abort();
}

#[tokio::test]
async fn while_all_servers_are_away_rows_wait_and_nobody_else_does() {
    let (mut nats, store) = (Nats::cluster().unwrap(), store().await);
    let publisher = running(&store, &nats).await;
    let present = time_of_one(&store, 0..200).await;
    drained(&store).await;
    (0..3).for_each(|n| nats.kill(n));
    let away = time_of_one(&store, 200..380).await;
    assert!(away < 5 * present, "{away:?} to write a row, and {present:?} with NATS");
    assert_eq!(store.waiting().await.unwrap().0, 180);
    // Nobody holds the rows while there is nobody to take them.
    let began = Instant::now();
    loop {
        let outgoing = store.outgoing(500).await.unwrap();
        if outgoing.messages.len() == 180 {
            break;
        }
        drop(outgoing);
        assert!(began.elapsed() < PATIENCE, "rows are held");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (0..3).for_each(|n| nats.restart(n).unwrap());
    drained(&store).await;
    assert_once(&kept(&nats).await, 0..380);
    publisher.abort();
}

/// Writes rows; returns the median of what each took, which hardly changes when the
/// machine stands still now and then.
async fn time_of_one(store: &Store, numbers: std::ops::Range<u32>) -> Duration {
    let mut times = Vec::new();
    for number in numbers {
        let began = Instant::now();
        tell(store, number..number + 1).await;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test]
async fn a_stream_that_is_gone_is_filled_again() {
    let (mut nats, store) = (Nats::start().unwrap(), store().await);
    let publisher = running(&store, &nats).await;
    tell(&store, 0..120).await;
    drained(&store).await;
    let first: BTreeMap<_, _> = by_number(kept(&nats).await);
    // Somebody deletes it while rows come.
    streams(&nats).await.delete_stream(STREAM).await.unwrap();
    tell(&store, 120..150).await;
    filled(&nats, 150).await;
    drained(&store).await;
    let second = kept(&nats).await;
    assert_once(&second, 0..150);
    // Sent again on purpose, so under other ids: a reader that still has the old
    // ones in mind must not take these for repetitions.
    assert!(by_number(second).iter().all(|(number, id)| first.get(number) != Some(id)));
    // While nobody writes anything.
    streams(&nats).await.delete_stream(STREAM).await.unwrap();
    filled(&nats, 150).await;
    assert_once(&kept(&nats).await, 0..150);
    // The server comes back with an empty disk.
    nats.wipe(0).unwrap();
    nats.restart(0).unwrap();
    filled(&nats, 150).await;
    assert_once(&kept(&nats).await, 0..150);
    publisher.abort();
}

fn by_number(kept: Vec<(String, u64)>) -> BTreeMap<u64, String> {
    kept.into_iter().map(|(id, number)| (number, id)).collect()
}

async fn filled(nats: &Nats, count: u64) {
    let began = Instant::now();
    let streams = streams(nats).await;
    loop {
        if let Ok(stream) = streams.get_stream(STREAM).await
            && stream.cached_info().state.messages >= count
        {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the stream stays empty");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_stream_that_went_back_is_filled_again() {
    let (nats, store) = (Nats::start().unwrap(), store().await);
    let publisher = running(&store, &nats).await;
    tell(&store, 0..50).await;
    drained(&store).await;
    // Made anew behind the publisher's back.
    let streams = streams(&nats).await;
    let config = streams.get_stream(STREAM).await.unwrap().cached_info().config.clone();
    streams.delete_stream(STREAM).await.unwrap();
    streams.create_stream(config).await.unwrap();
    tell(&store, 50..60).await;
    filled(&nats, 60).await;
    drained(&store).await;
    let found: BTreeSet<_> = kept(&nats).await.into_iter().map(|(_, number)| number).collect();
    assert_eq!(found, (0..60).collect());
    publisher.abort();
}
