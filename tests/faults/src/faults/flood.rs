//! Wrong keys, as many as the machine gives, against a platform that is at work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_store::{Node, Store};
use belljar_testkit::Flood;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::platform::begin;
use crate::case::Case;
use crate::client::{Client, History};
use crate::rig::cluster::Shape;

/// Sandboxes that live meanwhile, and for how long the flood lasts. A shorter run is
/// `BELLJAR_FLOOD=20,10`.
const SANDBOXES: usize = 200;
const LASTS: Duration = Duration::from_secs(90);

/// The flood of the security review: 30 HTTP/2 connections, 5,000 wrong keys a second.
const CONNECTIONS: u64 = 30;
const PER_SECOND: u64 = 5000;
const AT_ONCE: u64 = 100;

/// A create by a valid key takes no longer, or no longer than this many times what it takes
/// on this machine without a flood.
const CREATE: Duration = Duration::from_secs(1);
const TIMES: u32 = 3;

fn size() -> anyhow::Result<(usize, Duration)> {
    let Ok(text) = std::env::var("BELLJAR_FLOOD") else { return Ok((SANDBOXES, LASTS)) };
    let (sandboxes, seconds) = text.split_once(',').context("BELLJAR_FLOOD=SANDBOXES,SECONDS")?;
    Ok((sandboxes.parse()?, Duration::from_secs(seconds.parse()?)))
}

/// F-67: nobody's sandbox, lease or create suffers.
pub(crate) async fn of_wrong_keys(case: &mut Case) -> anyhow::Result<String> {
    let (count, lasts) = size()?;
    let slots = u32::try_from(count)?;
    let shape = Shape { slots, quota: 2 * slots, ..Shape::default() };
    let clients = begin(case, shape).await?;
    let wish = json!({ "template": "base", "timeout_seconds": 3000 });
    let ids = make_all(&clients, count, &wish).await?;
    let store = Store::connect(&case.cluster()?.postgres.url(), 1).await?;
    let before = epochs(&store.nodes().await?);
    let quiet = creates(&clients[0], Duration::from_secs(10)).await?;
    let watch = Watch::begin(store.clone());
    let flood = Flood {
        to: case.cluster()?.controls[0].address,
        from: case.cluster()?.net.host().address.into(),
        connections: CONNECTIONS,
        at_once: AT_ONCE,
        per_second: PER_SECOND,
    };
    let flooding = flood.start();
    let busy = creates(&clients[0], lasts).await?;
    let flooded = flooding.stop().await?;
    let shortest = watch.end().await?;
    let nodes = store.nodes().await?;
    let figures = format!(
        "{} wrong keys in {:.0} s ({:.0} a second: {:?}, {} broken), {count} sandboxes, lease \
         never below {:.1} s, creates p50 {:.2} s p99 {:.2} s of {} (without: p50 {:.2} s p99 \
         {:.2} s of {})",
        flooded.answers(),
        flooded.took.as_secs_f64(),
        flooded.per_second(),
        flooded.statuses,
        flooded.broken,
        shortest.as_secs_f64(),
        busy.percentile(50).as_secs_f64(),
        busy.percentile(99).as_secs_f64(),
        busy.0.len(),
        quiet.percentile(50).as_secs_f64(),
        quiet.percentile(99).as_secs_f64(),
        quiet.0.len(),
    );
    ensure!(epochs(&nodes) == before, "a node began anew: {figures}");
    ensure!(shortest > Duration::ZERO, "a lease ran out: {figures}");
    for id in &ids {
        let (state, reason) = case.cluster()?.state_of(id)?;
        ensure!(state == "running", "{id} is {state} {reason}: {figures}");
    }
    ensure!(flooded.of_status(200) == 0, "a wrong key opened something: {figures}");
    ensure!(flooded.of_status(401) + flooded.of_status(429) > 1000, "no flood: {figures}");
    let longest = CREATE.max(quiet.percentile(99) * TIMES);
    ensure!(busy.percentile(99) < longest, "creates were slow: {figures}");
    case.heal(&clients[1]).await?;
    Ok(figures)
}

/// Registrations: a node that ended everything has another epoch.
fn epochs(nodes: &[Node]) -> BTreeMap<u16, u64> {
    nodes.iter().map(|node| (node.number, node.epoch)).collect()
}

async fn make_all(clients: &[Client], count: usize, wish: &Value) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let many = (count - ids.len()).min(8);
        let made = (0..many).map(|number| {
            let (client, wish) = (clients[number % 2].clone(), wish.clone());
            tokio::spawn(async move { client.make_with(&wish).await })
        });
        for one in made.collect::<Vec<_>>() {
            ids.push(one.await??);
        }
    }
    Ok(ids)
}

/// How long creates took.
struct Creates(Vec<Duration>);

impl Creates {
    fn percentile(&self, hundredth: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        let place = (sorted.len() * hundredth).div_ceil(100).saturating_sub(1);
        sorted.get(place).copied().unwrap_or_default()
    }
}

/// Makes and ends sandboxes, one after the other. Each must be made.
async fn creates(client: &Client, lasts: Duration) -> anyhow::Result<Creates> {
    let quiet = Client { history: History::default(), ..client.clone() };
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < lasts {
        let asked = Instant::now();
        let id = quiet.make().await?;
        took.push(asked.elapsed());
        quiet.delete(&id).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(Creates(took))
}

/// Looks at every node's lease all the time, by a connection of its own.
struct Watch {
    stop: Arc<AtomicBool>,
    watching: JoinHandle<anyhow::Result<Duration>>,
}

impl Watch {
    fn begin(store: Store) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let watching = tokio::spawn(async move {
            let mut shortest = Duration::MAX;
            while !stopped.load(Ordering::Relaxed) {
                for node in store.nodes().await? {
                    let left = Duration::try_from(node.lease_left).unwrap_or_default();
                    shortest = shortest.min(left);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(shortest)
        });
        Self { stop, watching }
    }

    async fn end(self) -> anyhow::Result<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        self.watching.await?
    }
}
