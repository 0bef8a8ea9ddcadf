use std::time::Duration;

use belljar_domain::{EndReason, MaxLimits};
use belljar_store::{Change, NodeState, SandboxState};

use super::{LEASE, LIFE, id, made, node, running, store};

#[tokio::test]
async fn a_node_that_comes_again_is_another() {
    let store = store().await;
    let first = node(&store, "n1", LEASE).await;
    let other = node(&store, "n2", LEASE).await;
    let again = node(&store, "n1", LEASE).await;
    assert_eq!(again.number, first.number);
    assert!(again.epoch > first.epoch && other.number != first.number);
    assert_eq!(store.renew(first, LEASE).await.unwrap(), Change::Stale, "a ghost");
    assert_eq!(store.renew(again, LEASE).await.unwrap(), Change::Done);
    assert_eq!(store.drain(first).await.unwrap(), Change::Stale);
    assert_eq!(store.drain(again).await.unwrap(), Change::Done);
    assert_eq!(store.drain(again).await.unwrap(), Change::Already);
    let nodes = store.nodes().await.unwrap();
    let states: Vec<_> = nodes.iter().map(|node| node.state).collect();
    assert_eq!(states, [NodeState::Draining, NodeState::Up]);
    assert!(nodes.iter().all(|node| node.max_limits == Some(MaxLimits::default())));
}

#[tokio::test]
async fn a_node_is_drained_by_name_whoever_it_is_now() {
    let store = store().await;
    node(&store, "n1", LEASE).await;
    let again = node(&store, "n1", LEASE).await;
    let late = node(&store, "n2", Duration::ZERO).await;
    assert_eq!(store.drain_named("n3").await.unwrap(), None, "there is none");
    assert_eq!(store.drain_named("n1").await.unwrap(), Some(Change::Done));
    assert_eq!(store.drain_named("n1").await.unwrap(), Some(Change::Already));
    assert_eq!(store.drain(again).await.unwrap(), Change::Already, "its own epoch");
    store.give_up(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(store.drain_named("n2").await.unwrap(), Some(Change::Stale), "it is lost");
    let nodes = store.nodes().await.unwrap();
    assert_eq!(nodes[1].number, late.number);
    let left: Vec<_> = nodes.iter().map(|node| node.lease_left).collect();
    assert!(left[0].is_positive() && left[0] <= LEASE && !left[1].is_positive(), "{left:?}");
}

#[tokio::test]
async fn a_drained_node_takes_sandboxes_again() {
    let store = store().await;
    let up = node(&store, "n1", LEASE).await;
    node(&store, "n2", Duration::ZERO).await;
    store.give_up(std::time::Duration::ZERO).await.unwrap();
    store.drain(up).await.unwrap();
    assert_eq!(store.undrain_named("n1").await.unwrap(), Some(Change::Done));
    assert_eq!(store.undrain_named("n1").await.unwrap(), Some(Change::Already));
    assert_eq!(store.undrain_named("n2").await.unwrap(), Some(Change::Stale), "it is lost");
    assert_eq!(store.undrain_named("n3").await.unwrap(), None);
    let row = made(&store, "ann", 1).await;
    assert!(store.place("ann", &row.id, 0, &row.id, up.number).await.unwrap().is_some());
    let nodes = store.nodes().await.unwrap();
    let states: Vec<_> = nodes.iter().map(|node| node.state).collect();
    assert_eq!(states, [NodeState::Up, NodeState::Lost]);
}

#[tokio::test]
async fn a_lost_node_is_forgotten_and_keeps_its_number() {
    let store = store().await;
    let up = node(&store, "n1", LEASE).await;
    let lost = node(&store, "n2", LEASE).await;
    running(&store, "ann", 1, lost).await;
    running(&store, "bob", 2, up).await;
    running(&store, "ann", 3, up).await;
    let on = async |node: Option<&str>, tenant: Option<&str>| {
        let rows = store.all_sandboxes(node, tenant, 10).await.unwrap();
        let mut ids: Vec<_> = rows.into_iter().map(|row| row.id).collect();
        ids.sort();
        ids
    };
    let sorted = |numbers: &[u8]| {
        let mut ids: Vec<_> = numbers.iter().map(|&number| id(number)).collect();
        ids.sort();
        ids
    };
    assert_eq!(on(None, None).await, sorted(&[1, 2, 3]));
    assert_eq!(on(Some("n1"), None).await, sorted(&[2, 3]));
    assert_eq!(on(Some("n1"), Some("ann")).await, sorted(&[3]));
    assert_eq!(on(Some("nowhere"), None).await, sorted(&[]));
    assert_eq!(store.forget_node("n1").await.unwrap(), Some(false), "it is connected");
    assert_eq!(store.forget_node("n3").await.unwrap(), None);
    store.renew(lost, Duration::ZERO).await.unwrap();
    store.give_up(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(store.forget_node("n2").await.unwrap(), Some(true));
    let names = async || {
        let nodes = store.nodes().await.unwrap();
        nodes.into_iter().map(|node| node.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["n1"]);
    // How its sandboxes ended is still known, and its number is nobody else's.
    assert_eq!(store.ended("ann", 10).await.unwrap()[0].node, Some(lost.number));
    let again = store.add_node("n2").await.unwrap();
    assert_eq!((again.number.get(), again.is_enrolled), (lost.number, false));
    assert_eq!(names().await, ["n1", "n2"]);
}

#[tokio::test]
async fn nothing_is_placed_where_nothing_is_taken() {
    let store = store().await;
    let draining = node(&store, "n1", LEASE).await;
    let late = node(&store, "n2", Duration::ZERO).await;
    store.drain(draining).await.unwrap();
    let row = made(&store, "ann", 1).await;
    for node in [draining, late] {
        assert_eq!(store.place("ann", &row.id, 0, &row.id, node.number).await.unwrap(), None);
    }
    assert_eq!(store.place("ann", &row.id, 0, &row.id, 999).await.unwrap(), None, "no such node");
}

#[tokio::test]
async fn what_was_on_a_lost_node_is_lost_and_nothing_else() {
    let store = store().await;
    let (dead, alive) = (node(&store, "n1", LEASE).await, node(&store, "n2", LEASE).await);
    for number in 0..4 {
        running(&store, if number < 2 { "ann" } else { "bob" }, number, dead).await;
    }
    running(&store, "ann", 10, alive).await;
    store.end("ann", &id(0), None, EndReason::Killed).await.unwrap();
    assert!(store.give_up(std::time::Duration::ZERO).await.unwrap().is_empty(), "leases are kept");
    store.renew(dead, Duration::ZERO).await.unwrap();
    // Whoever gives up, one of them does.
    let (one, two) = tokio::join!(
        store.give_up(std::time::Duration::ZERO),
        store.give_up(std::time::Duration::ZERO)
    );
    let nodes = [one.unwrap(), two.unwrap()].concat();
    let names: Vec<_> = nodes.iter().map(|node| (node.number, node.name.as_str())).collect();
    assert_eq!(names, [(dead.number, "n1")]);
    let mut lost: Vec<_> = nodes.into_iter().flat_map(|node| node.sandboxes).collect();
    lost.sort();
    let mut expected = [1, 2, 3].map(id);
    expected.sort();
    assert_eq!(lost, expected);
    for (tenant, number, reason) in [("ann", 0, EndReason::Killed), ("bob", 3, EndReason::Lost)] {
        let row = store.sandbox(tenant, &id(number)).await.unwrap().unwrap();
        assert_eq!(row.reason, Some(reason));
    }
    let untouched = store.sandbox("ann", &id(10)).await.unwrap().unwrap();
    assert_eq!(untouched.state, SandboxState::Running);
    assert_eq!(store.tenant("ann").await.unwrap().used, 1);
    assert_eq!(store.tenant("bob").await.unwrap().used, 0);
    assert_eq!(store.renew(dead, LEASE).await.unwrap(), Change::Stale, "it must come again");
    // Everybody hears of each.
    let told = store.outgoing(100).await.unwrap();
    let ended = told.messages.iter().filter(|message| message.body["reason"] == "lost");
    assert_eq!(ended.count(), 3);
}

#[tokio::test]
async fn a_node_takes_over_or_ends_what_it_had() {
    let store = store().await;
    let before = node(&store, "n1", LEASE).await;
    let epoch = running(&store, "ann", 1, before).await;
    running(&store, "ann", 2, before).await;
    let after = node(&store, "n1", LEASE).await;
    let left = store.left_on(after).await.unwrap();
    assert_eq!(left.len(), 2);
    let adopted = store.adopt(&id(1), after).await.unwrap().unwrap();
    assert_eq!(store.adopt(&id(1), after).await.unwrap(), None, "once");
    assert_eq!(store.adopt(&id(2), before).await.unwrap(), None, "not by a ghost");
    // What the node's earlier life still says is not heard.
    let ghost = store.end("ann", &id(1), Some(epoch), EndReason::Exit).await.unwrap();
    assert_eq!(ghost, Change::Stale);
    assert_eq!(store.extend("ann", &id(1), adopted, LIFE).await.unwrap(), Change::Done);
    // Nor does another node end it, nor this one in an earlier life.
    let other = node(&store, "n2", LEASE).await;
    assert_eq!(store.end_left(&id(2), other).await.unwrap(), Change::Stale);
    assert_eq!(store.end_left(&id(2), before).await.unwrap(), Change::Stale);
    assert_eq!(store.end_left(&id(1), after).await.unwrap(), Change::Stale, "it is taken over");
    assert_eq!(store.end_left(&id(2), after).await.unwrap(), Change::Done);
    assert!(store.left_on(after).await.unwrap().is_empty());
    assert_eq!(store.nodes().await.unwrap()[0].taken, 1);
}
