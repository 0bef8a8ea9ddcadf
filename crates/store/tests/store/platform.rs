//! What control writes: admissions, and what nodes say.

use std::time::{Duration, Instant};

use belljar_domain::{EndReason, NodeNumber, SandboxId, Tier};
use belljar_store::{
    Admitted, Bill, Gone, Heard, NewSandbox, Present, Quota, Registered, Requested, SandboxState,
    Store, Word,
};
use serde_json::Value;

use crate::store;

const LEASE: Duration = Duration::from_secs(60);
const NODE: &str = "node";
/// The node's, as [`crate::key_of`] makes it.
const KEY: [u8; 32] = {
    let mut key = [7; 32];
    key.split_at_mut(NODE.len()).0.copy_from_slice(NODE.as_bytes());
    key
};
/// What everything has run when it is spoken of first.
const RAN: Duration = Duration::from_millis(1500);

async fn world(places: u32) -> (Store, Registered) {
    let store = store().await;
    let quota = Quota { sandboxes: places, longest_life: Duration::from_secs(60) };
    store.put_tenant("one", None, quota).await.unwrap();
    let node = come(&store).await;
    (store, node)
}

async fn come(store: &Store) -> Registered {
    crate::node(store, NODE, LEASE).await
}

fn number(node: Registered) -> NodeNumber {
    NodeNumber::new(node.number).unwrap()
}

fn id(node: Registered, bits: u8) -> SandboxId {
    SandboxId::on_node(number(node), [bits; 16])
}

async fn admit(store: &Store, node: Registered, id: &SandboxId, key: Option<&str>) -> Admitted {
    let new = NewSandbox {
        id,
        tenant: "one",
        template: "base",
        tier: None,
        facts: &Value::Null,
        request: key.map(|key| (key, [7; 32])),
    };
    store.admit(&new, number(node)).await.unwrap()
}

async fn used(store: &Store) -> u32 {
    store.tenant("one").await.unwrap().used
}

fn word<'a>(
    node: Registered,
    sequence: u64,
    present: &'a [Present<'a>],
    ended: &'a [Gone<'a>],
) -> Word<'a> {
    let (number, epoch) = (number(node), node.epoch);
    Word { number, public_key: &KEY, epoch, sequence, lease: LEASE, is_whole: true, present, ended }
}

/// So many have passed, by this process's clock and not the database's.
fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap()
}

fn present(id: &SandboxId) -> Present<'_> {
    Present { id, tier: Tier::Jail, is_paused: false, left: Duration::from_secs(30), ran: RAN }
}

fn gone(id: &SandboxId, reason: EndReason) -> Gone<'_> {
    Gone { id, reason, ran: 2 * RAN }
}

fn renewed(unknown: &[&SandboxId], missing: &[&SandboxId]) -> Heard {
    let all = |ids: &[&SandboxId]| ids.iter().map(|id| (*id).clone()).collect();
    Heard::Renewed { is_draining: false, unknown: all(unknown), missing: all(missing) }
}

#[tokio::test]
async fn a_place_is_taken_with_the_row_and_given_back_with_it() {
    let (store, node) = world(2).await;
    let (one, two, three) = (id(node, 1), id(node, 2), id(node, 3));
    assert_eq!(admit(&store, node, &one, None).await, Admitted::Placed(1));
    assert_eq!(admit(&store, node, &two, None).await, Admitted::Placed(1));
    let full = Admitted::Not(Requested::OverQuota);
    assert_eq!(admit(&store, node, &three, None).await, full);
    store.withdraw("one", &one).await.unwrap();
    store.withdraw("one", &one).await.unwrap();
    assert_eq!(used(&store).await, 1);
    assert!(store.sandbox("one", &one).await.unwrap().is_none());
    assert_eq!(admit(&store, node, &three, None).await, Admitted::Placed(1));
}

#[tokio::test]
async fn nothing_is_put_on_a_node_that_is_not_there_and_no_place_is_lost() {
    let (store, node) = world(2).await;
    store.drain(node).await.unwrap();
    assert_eq!(admit(&store, node, &id(node, 1), None).await, Admitted::NodeGone);
    assert_eq!(used(&store).await, 0);
}

#[tokio::test]
async fn a_repetition_finds_the_first() {
    let (store, node) = world(9).await;
    let one = id(node, 1);
    assert_eq!(admit(&store, node, &one, Some("k")).await, Admitted::Placed(1));
    let again = admit(&store, node, &id(node, 2), Some("k")).await;
    let Admitted::Not(Requested::Repeated(row)) = again else { panic!("{again:?}") };
    assert_eq!((row.id, row.state), (one, SandboxState::Starting));
    assert_eq!(used(&store).await, 1);
}

#[tokio::test]
async fn copies_are_all_admitted_or_none() {
    let (store, node) = world(3).await;
    let ids: Vec<_> = (1..=2).map(|bits| id(node, bits)).collect();
    assert!(store.admit_copies("one", "base", &ids, number(node)).await.unwrap());
    let more: Vec<_> = (3..=4).map(|bits| id(node, bits)).collect();
    assert!(!store.admit_copies("one", "base", &more, number(node)).await.unwrap());
    assert_eq!(used(&store).await, 2);
}

#[tokio::test]
async fn what_a_node_has_runs_and_what_it_has_not_is_lost() {
    let (store, node) = world(9).await;
    let (one, two, stray) = (id(node, 1), id(node, 2), id(node, 3));
    admit(&store, node, &one, None).await;
    admit(&store, node, &two, None).await;
    // The second is still on its way; the third is on no book.
    let said = [present(&one), present(&stray)];
    let heard = store.hear(&word(node, 1, &said, &[])).await.unwrap();
    assert_eq!(heard, renewed(&[&stray], &[]));
    let row = store.sandbox("one", &one).await.unwrap().unwrap();
    assert_eq!((row.state, row.tier), (SandboxState::Running, Some(Tier::Jail)));
    assert!(row.deadline_at.is_some());
    // Then the first is not there any more, and nobody said how it ended.
    let heard = store.hear(&word(node, 2, &[present(&two)], &[])).await.unwrap();
    assert_eq!(heard, renewed(&[], &[&one]));
    let row = store.sandbox("one", &one).await.unwrap().unwrap();
    assert_eq!((row.state, row.reason), (SandboxState::Ended, Some(EndReason::Lost)));
    assert_eq!(used(&store).await, 1);
}

#[tokio::test]
async fn an_end_counts_once_however_often_it_is_said() {
    let (store, node) = world(9).await;
    let one = id(node, 1);
    admit(&store, node, &one, None).await;
    store.hear(&word(node, 1, &[present(&one)], &[])).await.unwrap();
    store.hear(&word(node, 2, &[], &[gone(&one, EndReason::Oom)])).await.unwrap();
    store.hear(&word(node, 3, &[], &[gone(&one, EndReason::Killed)])).await.unwrap();
    let row = store.sandbox("one", &one).await.unwrap().unwrap();
    assert_eq!(row.reason, Some(EndReason::Oom));
    assert_eq!(used(&store).await, 0);
}

#[tokio::test]
async fn what_comes_late_is_not_believed() {
    let (store, node) = world(9).await;
    let one = id(node, 1);
    admit(&store, node, &one, None).await;
    store.hear(&word(node, 5, &[present(&one)], &[])).await.unwrap();
    // An older roster, without it: its node has said more since.
    assert_eq!(store.hear(&word(node, 4, &[], &[])).await.unwrap(), Heard::Late);
    let row = store.sandbox("one", &one).await.unwrap().unwrap();
    assert_eq!(row.state, SandboxState::Running);
}

#[tokio::test]
async fn a_ghost_is_told_that_it_is_one() {
    let (store, node) = world(9).await;
    let one = id(node, 1);
    admit(&store, node, &one, None).await;
    let again = come(&store).await;
    assert_eq!(store.hear(&word(node, 9, &[present(&one)], &[])).await.unwrap(), Heard::Stale);
    // The one that came again does not have it under its epoch until it takes it over.
    let said = [present(&one)];
    assert_eq!(store.hear(&word(again, 1, &said, &[])).await.unwrap(), renewed(&[&one], &[]));
    store.adopt(&one, again).await.unwrap().unwrap();
    assert_eq!(store.hear(&word(again, 2, &said, &[])).await.unwrap(), renewed(&[], &[]));
}

#[tokio::test]
async fn a_home_is_chosen_once_and_names_are_found() {
    let (store, node) = world(1).await;
    assert_eq!(store.home("one", None).await.unwrap(), None);
    let home = Some(number(node));
    assert_eq!(store.home("one", home).await.unwrap(), home);
    assert_eq!(store.home("one", None).await.unwrap(), home);
    assert_eq!(store.whereabouts("one", "snapshot", "s").await.unwrap(), None);
    store.is_at("one", "snapshot", "s", number(node)).await.unwrap();
    assert_eq!(store.whereabouts("one", "snapshot", "s").await.unwrap(), home);
    assert_eq!(store.whereabouts("two", "snapshot", "s").await.unwrap(), None);
}

#[tokio::test]
async fn coming_again_takes_no_number_from_others() {
    let (store, node) = world(1).await;
    for _ in 0..5 {
        assert_eq!(come(&store).await.number, node.number);
    }
    assert_eq!(crate::node(&store, "other", LEASE).await.number, node.number + 1);
}

/// Whoever locks in another order than everybody else is found out here: the
/// database ends one of two that wait for each other, and that is an error.
#[tokio::test]
async fn creates_ends_and_words_of_a_node_never_wait_for_each_other_in_a_circle() {
    let (store, node) = world(1000).await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let mut busy = tokio::task::JoinSet::new();
    for task in 0..6u8 {
        let (store, told) = (store.clone(), told.clone());
        busy.spawn(async move {
            for turn in 0..25u8 {
                let mut bits = [task; 16];
                bits[15] = turn;
                let id = SandboxId::on_node(number(node), bits);
                admit(&store, node, &id, None).await;
                told.send(id.clone()).unwrap();
                store.end("one", &id, None, EndReason::Killed).await.unwrap();
            }
        });
    }
    drop(told);
    let mut known: Vec<SandboxId> = Vec::new();
    let mut sequence = 0;
    while let Some(id) = heard.recv().await {
        known.push(id);
        while let Ok(id) = heard.try_recv() {
            known.push(id);
        }
        sequence += 1;
        // Of the last ones the younger half runs, the older half has ended.
        let last = &known[known.len().saturating_sub(12)..];
        let (old, young) = last.split_at(last.len() / 2);
        let has: Vec<_> = young.iter().map(present).collect();
        let ends: Vec<_> = old.iter().map(|id| gone(id, EndReason::Killed)).collect();
        store.hear(&word(node, sequence, &has, &ends)).await.unwrap();
    }
    while let Some(done) = busy.join_next().await {
        done.unwrap();
    }
    assert_eq!(used(&store).await, 0);
}

/// How long a sandbox ran and what was charged for it, of each charge.
async fn charges(store: &Store) -> Vec<(u64, u64)> {
    let entries = store.entries("one", 0, 100).await.unwrap();
    let read = |entry: belljar_store::Entry| {
        (entry.detail["ran_ms"].as_u64().unwrap(), entry.nano_dollars)
    };
    entries.into_iter().map(read).collect()
}

#[tokio::test]
async fn a_node_cannot_make_up_times_that_no_charge_can_hold() {
    let (store, node) = world(9).await;
    store.set_price("sandbox_second", u64::MAX >> 2).await.unwrap();
    let (one, two) = (id(node, 1), id(node, 2));
    admit(&store, node, &one, None).await;
    admit(&store, node, &two, None).await;
    let made_up = Duration::from_millis(u64::MAX);
    let has = [&one, &two].map(|id| Present { left: made_up, ran: made_up, ..present(id) });
    store.hear(&word(node, 1, &has, &[])).await.unwrap();
    let ends = [Gone { ran: made_up, ..gone(&one, EndReason::Killed) }];
    let heard = store.hear(&word(node, 2, &has[1..], &ends)).await.unwrap();
    assert_eq!(heard, renewed(&[], &[]));
    store.end("one", &two, None, EndReason::Killed).await.unwrap();
    for (ran, cost) in charges(&store).await {
        // No longer than it was there, and a little for clocks that differ.
        assert!(ran < 120_000, "{ran} ms were charged");
        assert_eq!(cost, i64::MAX.unsigned_abs());
    }
    assert_eq!(charges(&store).await.len(), 2);
}

#[tokio::test]
async fn what_ran_is_charged_once_by_its_nodes_clock() {
    let (store, node) = world(9).await;
    let (one, two) = (id(node, 1), id(node, 2));
    admit(&store, node, &one, None).await;
    admit(&store, node, &two, None).await;
    store.hear(&word(node, 1, &[present(&one)], &[])).await.unwrap();
    let ends = [gone(&one, EndReason::Killed)];
    for sequence in 2..5 {
        store.hear(&word(node, sequence, &[], &ends)).await.unwrap();
    }
    store.end("one", &one, None, EndReason::Lost).await.unwrap();
    assert_eq!(charges(&store).await, [(3000, 42_000)]);
    // One that never ran is not charged; one that was free is, with its time. What its owner ended
    // was there, whether or not its node has said so.
    store.end("one", &two, None, EndReason::Lost).await.unwrap();
    assert_eq!(charges(&store).await.len(), 1);
    let four = id(node, 4);
    let outside = Instant::now();
    admit(&store, node, &four, None).await;
    let inside = Instant::now();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let least = milliseconds(inside);
    store.end("one", &four, None, EndReason::Killed).await.unwrap();
    let most = milliseconds(outside);
    let (ran, cost) = charges(&store).await[1];
    let is_so = (least - 1..=most + 1).contains(&ran) && cost == ran * 14;
    assert!(is_so, "{ran} ms, not {least} to {most}, for {cost}");
    assert!(store.set_price("sandbox_second", 0).await.unwrap());
    let three = id(node, 3);
    admit(&store, node, &three, None).await;
    store.hear(&word(node, 6, &[], &[gone(&three, EndReason::Killed)])).await.unwrap();
    let all = i128::from(42_000 + cost);
    let bill = Bill { account: "sandboxes".to_owned(), charges: 3, nano_dollars: all };
    let since = time::OffsetDateTime::UNIX_EPOCH;
    assert_eq!(store.bill("one", since).await.unwrap(), [bill]);
    assert!(!store.set_price("no_such", 1).await.unwrap());
}

#[tokio::test]
async fn what_is_lost_is_charged_no_longer_than_its_node_was_there() {
    let store = store().await;
    let quota = Quota { sandboxes: 9, longest_life: LEASE };
    store.put_tenant("one", None, quota).await.unwrap();
    let node = come(&store).await;
    let (one, two) = (id(node, 1), id(node, 2));
    admit(&store, node, &one, None).await;
    admit(&store, node, &two, None).await;
    let paused = Present { is_paused: true, ..present(&two) };
    let there = [present(&one), paused];
    let outside = Instant::now();
    store.hear(&word(node, 1, &there, &[])).await.unwrap();
    let inside = Instant::now();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let least = milliseconds(inside);
    // From here on the node is not there, and nobody is charged.
    store.renew(node, Duration::ZERO).await.unwrap();
    let most = milliseconds(outside);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(store.give_up(Duration::ZERO).await.unwrap()[0].sandboxes.len(), 2);
    let mut ran: Vec<_> = charges(&store).await.into_iter().map(|(ran, _)| ran).collect();
    ran.sort_unstable();
    // The second stood still.
    assert_eq!(ran.len(), 2);
    assert_eq!(ran[0], 1500);
    assert!((1499 + least..=1501 + most).contains(&ran[1]), "{ran:?}, {least} to {most} more");
}
