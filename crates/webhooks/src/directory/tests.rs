use super::*;
use crate::event::EventKind;
use crate::shelf::{DeliveryState, DisabledReason};

const LEASE: Duration = Duration::from_secs(60);

fn new(tenant: &str, id: &str) -> NewWebhook {
    NewWebhook {
        id: id.to_owned(),
        tenant: tenant.to_owned(),
        url: "https://hooks.example.com/".to_owned(),
        kinds: vec![EventKind::RunEnded],
        secret: Secret::generate().unwrap(),
    }
}

fn ended(id: &str) -> Message {
    let data = Message::of_run("r", Some("answered"));
    Message::new(id.to_owned(), EventKind::RunEnded, OffsetDateTime::now_utc(), data)
}

fn failed(retry_in: Option<Duration>) -> Outcome {
    Outcome::Failed { status: Some(500), error: "no".to_owned(), retry_in, disable: None }
}

/// An announced message is sent by the next server.
#[tokio::test]
async fn messages_outlive_the_server() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    shelf.add(&new("ann", "wh_1")).await.unwrap().unwrap();
    shelf.announce("ann", &ended("msg_1"));
    shelf.announce("ann", &ended("msg_1"));
    let claimed = shelf.claim(10, &[], LEASE).await.unwrap();
    assert_eq!(claimed.len(), 1);
    // The lease keeps others away, and ends with the process.
    assert!(shelf.claim(10, &[], LEASE).await.unwrap().is_empty());
    drop(shelf);
    let shelf = Directory::open(root.path()).unwrap();
    let claimed = shelf.claim(10, &[], LEASE).await.unwrap();
    assert_eq!(claimed[0].message.id, "msg_1");
    shelf.settle(&claimed[0], &Outcome::Delivered { status: 200 }).await.unwrap();
    drop(shelf);
    let shelf = Directory::open(root.path()).unwrap();
    assert!(shelf.claim(10, &[], LEASE).await.unwrap().is_empty());
    let known = shelf.deliveries("ann", "wh_1", 10).await.unwrap().unwrap();
    assert_eq!((known[0].state, known[0].attempts), (DeliveryState::Delivered, 1));
}

#[tokio::test]
async fn a_torn_line_is_dropped_and_the_rest_is_there() {
    use std::io::Write as _;
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    shelf.add(&new("ann", "wh_1")).await.unwrap().unwrap();
    drop(shelf);
    let path = root.path().join("webhooks.jsonl");
    let mut log = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    log.write_all(b"{\"webhook\":{\"web").unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    assert_eq!(shelf.list("ann").await.unwrap().len(), 1);
    std::fs::write(&path, b"no JSON\n").unwrap();
    assert!(Directory::open(root.path()).is_err());
}

#[tokio::test]
async fn other_tenants_find_nothing() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    shelf.add(&new("ann", "wh_1")).await.unwrap().unwrap();
    shelf.announce("bob", &ended("msg_1"));
    assert!(shelf.claim(10, &[], LEASE).await.unwrap().is_empty());
    assert!(shelf.list("bob").await.unwrap().is_empty());
    assert!(shelf.deliveries("bob", "wh_1", 10).await.unwrap().is_none());
    assert!(shelf.queue("bob", "wh_1", &ended("msg_2")).await.unwrap().is_none());
    assert!(shelf.enable("bob", "wh_1").await.unwrap().is_none());
    let secret = Secret::generate().unwrap();
    assert!(shelf.rotate("bob", "wh_1", &secret, LEASE).await.unwrap().is_none());
    assert!(!shelf.remove("bob", "wh_1").await.unwrap());
    assert!(shelf.remove("ann", "wh_1").await.unwrap());
}

#[tokio::test]
async fn a_rotated_secret_is_valid_beside_the_new_one() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    let first = new("ann", "wh_1");
    shelf.add(&first).await.unwrap().unwrap();
    let second = Secret::generate().unwrap();
    shelf.rotate("ann", "wh_1", &second, LEASE).await.unwrap().unwrap();
    shelf.announce("ann", &ended("msg_1"));
    let claimed = shelf.claim(10, &[], Duration::ZERO).await.unwrap();
    assert_eq!(claimed[0].secrets, [second.clone(), first.secret]);
    let third = Secret::generate().unwrap();
    shelf.rotate("ann", "wh_1", &third, Duration::ZERO).await.unwrap().unwrap();
    let claimed = shelf.claim(10, &[], LEASE).await.unwrap();
    assert_eq!(claimed[0].secrets, [third]);
}

#[tokio::test]
async fn a_webhook_that_is_disabled_keeps_what_waits() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    shelf.add(&new("ann", "wh_1")).await.unwrap().unwrap();
    shelf.announce("ann", &ended("msg_1"));
    let claimed = shelf.claim(10, &[], LEASE).await.unwrap();
    let disable = Some(DisabledReason::Gone);
    let outcome = Outcome::Failed {
        status: Some(410),
        error: "gone".to_owned(),
        retry_in: Some(Duration::ZERO),
        disable,
    };
    shelf.settle(&claimed[0], &outcome).await.unwrap();
    assert_eq!(shelf.list("ann").await.unwrap()[0].disabled, disable);
    assert!(shelf.claim(10, &[], LEASE).await.unwrap().is_empty());
    shelf.enable("ann", "wh_1").await.unwrap().unwrap();
    let claimed = shelf.claim(10, &[], LEASE).await.unwrap();
    assert_eq!(claimed[0].attempt, 2);
    // A result of an earlier claim changes nothing.
    let stale = Claimed { attempt: 1, ..claimed[0].clone() };
    shelf.settle(&stale, &Outcome::Delivered { status: 200 }).await.unwrap();
    shelf.settle(&claimed[0], &failed(None)).await.unwrap();
    let known = shelf.deliveries("ann", "wh_1", 10).await.unwrap().unwrap();
    assert_eq!((known[0].state, known[0].status), (DeliveryState::Failed, Some(500)));
}

#[tokio::test]
async fn one_tenant_does_not_take_every_place() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    for (tenant, id) in [("ann", "wh_1"), ("bob", "wh_2")] {
        shelf.add(&new(tenant, id)).await.unwrap().unwrap();
    }
    for number in 0..20 {
        shelf.announce("ann", &ended(&format!("msg_{number}")));
    }
    shelf.announce("bob", &ended("msg_bob"));
    let claimed = shelf.claim(64, &[], LEASE).await.unwrap();
    let of = |tenant: &str| claimed.iter().filter(|it| it.tenant == tenant).count();
    assert_eq!((of("ann"), of("bob")), (crate::CLAIMED_OF_TENANT, 1));
    assert!(shelf.claim(64, &["ann".to_owned()], LEASE).await.unwrap().is_empty());
}
