//! Who a node is: enrolment, revocation, and what a node can say in another's name.

use std::time::Duration;

use belljar_domain::{EndReason, NodeNumber, SandboxId, Tier};
use belljar_store::{
    EnrolOutcome, Gone, Heard, NewSandbox, NodeEnrolment, NodeState, Present, Registered,
    Registration, SandboxState, Store, Word,
};
use serde_json::Value;

use crate::{enrolled, key_of, node, store};

const LEASE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn registration<'a>(number: NodeNumber, name: &'a str, key: &'a [u8; 32]) -> Registration<'a> {
    Registration {
        number,
        public_key: key,
        name,
        address: "https://10.0.0.9:3100",
        tiers: &[Tier::Jail],
        slots: 5,
        max_limits: None,
        lease: LEASE,
    }
}

fn word<'a>(node: Registered, key: &'a [u8; 32], ended: &'a [Gone<'a>]) -> Word<'a> {
    Word {
        number: NodeNumber::new(node.number).unwrap(),
        public_key: key,
        epoch: node.epoch,
        sequence: 1,
        lease: LEASE,
        is_whole: false,
        present: &[],
        ended,
    }
}

/// A sandbox of ann's on this node.
async fn sandbox(store: &Store, node: Registered) -> SandboxId {
    let number = NodeNumber::new(node.number).unwrap();
    let id = SandboxId::on_node(number, [node.number.to_be_bytes()[1]; 16]);
    let new = NewSandbox {
        id: &id,
        tenant: "ann",
        template: "base",
        tier: None,
        facts: &Value::Null,
        request: None,
    };
    store.admit(&new, number).await.unwrap();
    id
}

async fn state(store: &Store, id: &SandboxId) -> SandboxState {
    store.sandbox("ann", id).await.unwrap().unwrap().state
}

#[tokio::test]
async fn token_enrols_one_key_once_under_its_name() {
    let store = store().await;
    let number = store.add_node("one").await.unwrap().number;
    store.add_enrolment_token(number, &[1; 32], HOUR).await.unwrap();
    let enrol = |token: u8, name: &'static str, key: u8| {
        let store = store.clone();
        async move { store.enrol(&[token; 32], name, &[key; 32]).await.unwrap() }
    };
    assert_eq!(enrol(2, "one", 5).await, EnrolOutcome::UnknownToken);
    assert_eq!(enrol(1, "two", 5).await, EnrolOutcome::OtherName);
    assert_eq!(enrol(1, "one", 5).await, EnrolOutcome::Enrolled(number));
    assert_eq!(enrol(1, "one", 6).await, EnrolOutcome::UsedToken, "another key");
    // Whoever did not hear the answer asks again.
    assert_eq!(enrol(1, "one", 5).await, EnrolOutcome::Enrolled(number));
    store.add_enrolment_token(number, &[3; 32], Duration::ZERO).await.unwrap();
    assert_eq!(enrol(3, "one", 7).await, EnrolOutcome::ExpiredToken);
    let added = store.add_node("one").await.unwrap();
    assert!(added.is_enrolled && added.number == number);
}

#[tokio::test]
async fn many_who_redeem_one_token_at_once_enrol_one_key() {
    let store = store().await;
    let number = store.add_node("one").await.unwrap().number;
    store.add_enrolment_token(number, &[1; 32], HOUR).await.unwrap();
    let mut all = tokio::task::JoinSet::new();
    for key in 0..8u8 {
        let store = store.clone();
        all.spawn(async move { store.enrol(&[1; 32], "one", &[key; 32]).await.unwrap() });
    }
    let outcomes = all.join_all().await;
    let enrolled = outcomes.iter().filter(|one| **one == EnrolOutcome::Enrolled(number));
    assert_eq!(enrolled.count(), 1, "{outcomes:?}");
}

#[tokio::test]
async fn newer_token_replaces_those_that_were_not_used() {
    let store = store().await;
    let number = store.add_node("one").await.unwrap().number;
    for token in 1..=2 {
        store.add_enrolment_token(number, &[token; 32], HOUR).await.unwrap();
    }
    let first = store.enrol(&[1; 32], "one", &[5; 32]).await.unwrap();
    assert_eq!(first, EnrolOutcome::UnknownToken);
    let second = store.enrol(&[2; 32], "one", &[5; 32]).await.unwrap();
    assert_eq!(second, EnrolOutcome::Enrolled(number));
}

#[tokio::test]
async fn node_registers_only_as_itself() {
    let store = store().await;
    let (one, one_key) = enrolled(&store, "one").await;
    let (two, two_key) = enrolled(&store, "two").await;
    for wrong in [
        registration(two, "two", &one_key),
        registration(one, "two", &one_key),
        registration(two, "one", &two_key),
        registration(one, "one", &[9; 32]),
    ] {
        assert_eq!(store.register(&wrong).await.unwrap(), None, "{wrong:?}");
    }
    let right = store.register(&registration(one, "one", &one_key)).await.unwrap().unwrap();
    assert_eq!(right.number, one.get());
    let nodes = store.nodes().await.unwrap();
    assert!(nodes.iter().all(|node| node.name == "one" || node.state == NodeState::Lost));
}

#[tokio::test]
async fn stolen_key_ends_and_charges_nothing_of_another_node() {
    let store = store().await;
    let (one, two) = (node(&store, "one", LEASE).await, node(&store, "two", LEASE).await);
    let (own, foreign) = (sandbox(&store, one).await, sandbox(&store, two).await);
    let ends = [&own, &foreign].map(|id| Gone { id, reason: EndReason::Killed, ran: HOUR });
    // In the other's name, by the key of this one: nothing is believed.
    let heard = store.hear(&word(two, &key_of("one"), &ends)).await.unwrap();
    assert_eq!(heard, Heard::Stale);
    // In its own name: only what is its own ends.
    let heard = store.hear(&word(one, &key_of("one"), &ends)).await.unwrap();
    assert!(matches!(heard, Heard::Renewed { .. }), "{heard:?}");
    assert_eq!(state(&store, &own).await, SandboxState::Ended);
    assert_eq!(state(&store, &foreign).await, SandboxState::Starting);
    let entries = store.entries("ann", 0, 10).await.unwrap();
    assert_eq!(entries.len(), 1);
}

#[tokio::test]
async fn sandbox_is_not_charged_for_longer_than_its_row_has_been_there() {
    let store = store().await;
    let one = node(&store, "one", LEASE).await;
    let key = key_of("one");
    for (sequence, ran) in [(1, HOUR), (2, Duration::MAX)] {
        let id = SandboxId::on_node(NodeNumber::new(one.number).unwrap(), [sequence; 16]);
        let new = NewSandbox {
            id: &id,
            tenant: "ann",
            template: "base",
            tier: None,
            facts: &Value::Null,
            request: None,
        };
        store.admit(&new, NodeNumber::new(one.number).unwrap()).await.unwrap();
        let present = [Present { id: &id, tier: Tier::Jail, is_paused: false, left: ran, ran }];
        let there =
            Word { present: &present, sequence: u64::from(sequence) * 2, ..word(one, &key, &[]) };
        store.hear(&there).await.unwrap();
        let ends = [Gone { id: &id, reason: EndReason::Killed, ran }];
        let gone = Word { sequence: u64::from(sequence) * 2 + 1, ..word(one, &key, &ends) };
        store.hear(&gone).await.unwrap();
    }
    let entries = store.entries("ann", 0, 10).await.unwrap();
    assert_eq!(entries.len(), 2, "both are charged");
    for entry in entries {
        let ran = entry.detail["ran_ms"].as_u64().unwrap();
        assert!(ran < 60_000, "{ran} ms of a sandbox that is seconds old");
    }
}

#[tokio::test]
async fn revoked_node_is_nobody_until_it_is_added_again() {
    let store = store().await;
    let (one, two) = (node(&store, "one", LEASE).await, node(&store, "two", LEASE).await);
    let (own, foreign) = (sandbox(&store, one).await, sandbox(&store, two).await);
    let (number, key) = enrolled(&store, "one").await;
    store.add_enrolment_token(number, &[3; 32], HOUR).await.unwrap();
    assert_eq!(store.revoke_node("nobody").await.unwrap(), None);
    assert_eq!(store.revoke_node("one").await.unwrap(), Some(vec![own.clone()]));
    assert_eq!(state(&store, &own).await, SandboxState::Ended);
    assert_eq!(state(&store, &foreign).await, SandboxState::Starting);
    assert_eq!(store.hear(&word(one, &key, &[])).await.unwrap(), Heard::Stale);
    assert_eq!(store.register(&registration(number, "one", &key)).await.unwrap(), None);
    let until = time::OffsetDateTime::now_utc();
    assert!(!store.certify(number, &key, until).await.unwrap(), "no certificate either");
    let outcome = store.enrol(&[3; 32], "one", &key).await.unwrap();
    assert_eq!(outcome, EnrolOutcome::UnknownToken, "tokens go with it");
    let nodes = store.nodes().await.unwrap();
    let enrolments: Vec<_> = nodes.iter().map(|node| &node.enrolment).collect();
    let [NodeEnrolment::Revoked, NodeEnrolment::Enrolled { .. }] = enrolments[..] else {
        panic!("{enrolments:?}");
    };
    // An operator lets it in again, with another key.
    store.add_enrolment_token(number, &[4; 32], HOUR).await.unwrap();
    store.enrol(&[4; 32], "one", &[8; 32]).await.unwrap();
    assert_eq!(store.register(&registration(number, "one", &key)).await.unwrap(), None);
    let again = store.register(&registration(number, "one", &[8; 32])).await.unwrap();
    assert_eq!(again.unwrap().number, one.number);
    assert!(store.certify(number, &[8; 32], until).await.unwrap());
}

#[tokio::test]
async fn replicas_agree_on_the_first_authority_and_rotate_in_turn() {
    let store = store().await;
    let mut first = tokio::task::JoinSet::new();
    for number in 0..4u8 {
        let store = store.clone();
        first.spawn(async move { store.add_first_authority(&[number], &[number]).await.unwrap() });
    }
    first.join_all().await;
    let generations = async || {
        let (rows, _) = store.authorities().await.unwrap();
        rows.iter().map(|row| (row.generation, row.is_current)).collect::<Vec<_>>()
    };
    let [(one, true)] = generations().await[..] else { panic!("{:?}", generations().await) };
    let two = store.add_authority(&[9], &[9], HOUR).await.unwrap();
    assert_eq!(generations().await, [(one, true), (two, false)], "trusted before it signs");
    assert!(!store.drop_authority(one).await.unwrap(), "it signs");
    let three = store.add_authority(&[10], &[10], Duration::ZERO).await.unwrap();
    assert_eq!(generations().await, [(one, false), (two, false), (three, true)]);
    assert!(store.drop_authority(one).await.unwrap());
    assert!(!store.drop_authority(one).await.unwrap());
    assert_eq!(generations().await, [(two, false), (three, true)]);
}
