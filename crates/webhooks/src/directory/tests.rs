use super::log::{Line, StoredWebhook};
use super::*;
use crate::event::EventKind;
use crate::shelf::{DISABLED_ERROR, DeliveryState, DisabledReason, MAX_QUEUE};

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

async fn announce(shelf: &Directory, tenant: &str, message: Message) {
    shelf.announce_durably(tenant.to_owned(), message).await;
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
    announce(&shelf, "ann", ended("msg_1")).await;
    announce(&shelf, "ann", ended("msg_1")).await;
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
async fn damaged_lines_are_dropped_and_the_rest_is_there() {
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
    shelf.add(&new("ann", "wh_2")).await.unwrap().unwrap();
    drop(shelf);
    let text = std::fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    std::fs::write(&path, format!("{first}\nno JSON\n{rest}")).unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    assert_eq!(shelf.list("ann").await.unwrap().len(), 2);
}

#[tokio::test]
async fn other_tenants_find_nothing() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    shelf.add(&new("ann", "wh_1")).await.unwrap().unwrap();
    announce(&shelf, "bob", ended("msg_1")).await;
    assert!(shelf.claim(10, &[], LEASE).await.unwrap().is_empty());
    assert!(shelf.list("bob").await.unwrap().is_empty());
    assert!(shelf.deliveries("bob", "wh_1", 10).await.unwrap().is_none());
    let queued = shelf.queue("bob", "wh_1", &ended("msg_2")).await.unwrap();
    assert_eq!(queued, QueueOutcome::NoWebhook);
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
    announce(&shelf, "ann", ended("msg_1")).await;
    let claimed = shelf.claim(10, &[], Duration::ZERO).await.unwrap();
    assert_eq!(claimed[0].secrets, [second.clone(), first.secret]);
    let third = Secret::generate().unwrap();
    shelf.rotate("ann", "wh_1", &third, Duration::ZERO).await.unwrap().unwrap();
    let claimed = shelf.claim(10, &[], LEASE).await.unwrap();
    assert_eq!(claimed[0].secrets, [third]);
}

#[tokio::test]
async fn a_disabled_webhook_is_not_called_until_it_is_enabled() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    shelf.add(&new("ann", "wh_1")).await.unwrap().unwrap();
    announce(&shelf, "ann", ended("msg_1")).await;
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
        announce(&shelf, "ann", ended(&format!("msg_{number}"))).await;
    }
    announce(&shelf, "bob", ended("msg_bob")).await;
    let claimed = shelf.claim(64, &[], LEASE).await.unwrap();
    let of = |tenant: &str| claimed.iter().filter(|it| it.tenant == tenant).count();
    assert_eq!((of("ann"), of("bob")), (crate::CLAIMED_OF_TENANT, 1));
    assert!(shelf.claim(64, &["ann".to_owned()], LEASE).await.unwrap().is_empty());
}

/// Tenants take turns: with one place at a time, none is served twice before the others.
#[tokio::test]
async fn tenants_take_turns() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Directory::open(root.path()).unwrap();
    for (tenant, id) in [("ann", "wh_1"), ("bob", "wh_2"), ("cat", "wh_3")] {
        shelf.add(&new(tenant, id)).await.unwrap().unwrap();
        for number in 0..3 {
            announce(&shelf, tenant, ended(&format!("msg_{number}"))).await;
        }
    }
    let mut served = Vec::new();
    for _ in 0..6 {
        let claimed = shelf.claim(1, &[], LEASE).await.unwrap();
        served.push(claimed[0].tenant.clone());
    }
    assert_eq!(served, ["ann", "bob", "cat", "ann", "bob", "cat"]);
}

/// A full queue refuses tests and disables its webhook at the next event. What waits then ends.
#[tokio::test]
async fn a_full_queue_takes_no_more() {
    let root = tempfile::tempdir().unwrap();
    let hook = StoredWebhook {
        webhook: Webhook {
            id: "wh_1".to_owned(),
            tenant: "ann".to_owned(),
            url: "https://hooks.example.com/".to_owned(),
            kinds: vec![EventKind::RunEnded],
            made_at: OffsetDateTime::now_utc(),
            failing_since: None,
            disabled: None,
        },
        secret: Secret::generate().unwrap(),
        previous: None,
    };
    let mut full = State::default();
    full.apply(Line::Webhook(hook));
    for number in 0..MAX_QUEUE {
        let (lines, ()) = full.announce("ann", &ended(&format!("msg_{number}")));
        lines.into_iter().for_each(|line| full.apply(line));
    }
    drop(Log::write_anew(root.path(), &full.lines()).unwrap());
    let shelf = Directory::open(root.path()).unwrap();
    assert_eq!(shelf.waiting().await.unwrap().0, MAX_QUEUE as u64);
    let test = ended("msg_test");
    assert_eq!(shelf.queue("ann", "wh_1", &test).await.unwrap(), QueueOutcome::Full);
    announce(&shelf, "ann", ended("msg_more")).await;
    let shown = shelf.list("ann").await.unwrap();
    assert_eq!(shown[0].disabled, Some(DisabledReason::QueueFull));
    assert_eq!(shelf.queue("ann", "wh_1", &test).await.unwrap(), QueueOutcome::Disabled);
    shelf.sweep().await.unwrap();
    let of = |all: &[DeliveryRecord]| {
        let ended = all.iter().filter(|it| it.error.as_deref() == Some(DISABLED_ERROR));
        ended.count()
    };
    let all = shelf.deliveries("ann", "wh_1", usize::MAX).await.unwrap().unwrap();
    assert_eq!(of(&all), crate::SWEEP_STEP);
    for _ in 0..MAX_QUEUE.div_ceil(crate::SWEEP_STEP) {
        shelf.sweep().await.unwrap();
    }
    shelf.enable("ann", "wh_1").await.unwrap().unwrap();
    assert_eq!(shelf.waiting().await.unwrap().0, 0);
    assert!(matches!(shelf.queue("ann", "wh_1", &test).await.unwrap(), QueueOutcome::Queued(_)));
}
