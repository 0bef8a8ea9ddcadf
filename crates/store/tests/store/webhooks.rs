//! Messages to webhooks are written with the change that they tell of.

use std::time::Duration;

use belljar_journal::Address;
use belljar_model::{EndReason, RunId};
use belljar_store::Store;
use belljar_webhooks::{
    Claimed, DeliveryState, DisabledReason, EventKind, MAX_WEBHOOKS, NewWebhook, Outcome, Secret,
    Shelf as _,
};

use super::{LEASE, LIFE, id, node, running, runs::begun, store};

const SANDBOXES: [EventKind; 4] = [
    EventKind::SandboxCreated,
    EventKind::SandboxPaused,
    EventKind::SandboxResumed,
    EventKind::SandboxEnded,
];

fn new(tenant: &str, number: u8, kinds: &[EventKind]) -> NewWebhook {
    NewWebhook {
        id: format!("wh_{number:032x}"),
        tenant: tenant.to_owned(),
        url: "https://hooks.example.com/".to_owned(),
        kinds: kinds.to_vec(),
        secret: Secret::generate().unwrap(),
    }
}

async fn claim(store: &Store, lease: Duration) -> Vec<Claimed> {
    let mut claimed = store.webhooks().claim(64, &[], lease).await.unwrap();
    claimed.sort_by_key(|it| it.number);
    claimed
}

/// Everything that waits, claimed and settled as delivered.
async fn drain(store: &Store) -> Vec<Claimed> {
    let mut all = Vec::new();
    loop {
        let claimed = claim(store, LEASE).await;
        if claimed.is_empty() {
            return all;
        }
        for it in &claimed {
            let done = Outcome::Delivered { status: 200 };
            store.webhooks().settle(it, &done).await.unwrap();
        }
        all.extend(claimed);
    }
}

/// Each lifecycle event of a sandbox is one message to its tenant's webhooks, and to no other.
#[tokio::test]
async fn sandbox_events_are_messages_of_their_tenant() {
    let store = store().await;
    let hooks = store.webhooks();
    hooks.add(&new("ann", 1, &SANDBOXES)).await.unwrap().unwrap();
    hooks.add(&new("bob", 2, &SANDBOXES)).await.unwrap().unwrap();
    hooks.add(&new("ann", 3, &[EventKind::RunEnded])).await.unwrap().unwrap();
    let node = node(&store, "one", LEASE).await;
    let epoch = running(&store, "ann", 1, node).await;
    let sandbox = id(1);
    store.paused("ann", &sandbox, epoch).await.unwrap();
    store.resumed("ann", &sandbox, epoch, LIFE).await.unwrap();
    // A change that was made already is not announced again.
    store.resumed("ann", &sandbox, epoch, LIFE).await.unwrap();
    store.end("ann", &sandbox, None, EndReason::Killed).await.unwrap();
    store.end("ann", &sandbox, None, EndReason::Killed).await.unwrap();
    let all = drain(&store).await;
    let kinds: Vec<_> = all.iter().map(|it| it.message.kind).collect();
    assert_eq!(kinds, SANDBOXES);
    assert!(all.iter().all(|it| it.tenant == "ann" && it.message.body.contains(sandbox.as_str())));
    assert!(all[3].message.body.contains("\"reason\" : \"killed\""), "{}", all[3].message.body);
    let value: serde_json::Value = serde_json::from_str(&all[0].message.body).unwrap();
    assert_eq!(value["type"], "sandbox.created");
}

#[tokio::test]
async fn a_new_run_is_a_message() {
    let store = store().await;
    let kinds = [EventKind::RunCreated];
    store.webhooks().add(&new("ann", 1, &kinds)).await.unwrap().unwrap();
    let address = Address { tenant: "ann".to_owned(), run: RunId::from_bits([1; 16]) };
    begun(&store, &address).await;
    let all = drain(&store).await;
    assert_eq!(all.len(), 1);
    assert!(all[0].message.body.contains(address.run.as_str()));
    assert!(!all[0].message.body.contains("why?"), "a message has no question");
}

/// A message whose worker died is claimed again, and the result of the dead one is refused.
#[tokio::test]
async fn a_claim_ends_with_its_lease() {
    let store = store().await;
    let hooks = store.webhooks();
    hooks.add(&new("ann", 1, &SANDBOXES)).await.unwrap().unwrap();
    let node = node(&store, "one", LEASE).await;
    running(&store, "ann", 1, node).await;
    let first = claim(&store, Duration::ZERO).await;
    let second = claim(&store, LEASE).await;
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!((first[0].attempt, second[0].attempt), (1, 2));
    assert!(claim(&store, LEASE).await.is_empty());
    let failed = Outcome::Failed {
        status: Some(500),
        error: "no".to_owned(),
        retry_in: None,
        disable: Some(DisabledReason::Gone),
    };
    hooks.settle(&first[0], &failed).await.unwrap();
    hooks.settle(&second[0], &Outcome::Delivered { status: 200 }).await.unwrap();
    let known = hooks.deliveries("ann", &new("ann", 1, &[]).id, 9).await.unwrap().unwrap();
    assert_eq!((known[0].state, known[0].attempts), (DeliveryState::Delivered, 2));
    assert_eq!(hooks.list("ann").await.unwrap()[0].disabled, None);
    assert_eq!(hooks.waiting().await.unwrap().0, 0);
}

#[tokio::test]
async fn a_disabled_webhook_keeps_what_waits() {
    let store = store().await;
    let hooks = store.webhooks();
    let hook = new("ann", 1, &SANDBOXES);
    hooks.add(&hook).await.unwrap().unwrap();
    let node = node(&store, "one", LEASE).await;
    running(&store, "ann", 1, node).await;
    let claimed = claim(&store, LEASE).await;
    let failed = Outcome::Failed {
        status: Some(410),
        error: "gone".to_owned(),
        retry_in: Some(Duration::ZERO),
        disable: Some(DisabledReason::Gone),
    };
    hooks.settle(&claimed[0], &failed).await.unwrap();
    let shown = hooks.list("ann").await.unwrap();
    assert_eq!(shown[0].disabled, Some(DisabledReason::Gone));
    assert!(shown[0].failing_since.is_some());
    assert!(claim(&store, LEASE).await.is_empty());
    assert!(hooks.enable("bob", &hook.id).await.unwrap().is_none());
    assert_eq!(hooks.enable("ann", &hook.id).await.unwrap().unwrap().disabled, None);
    assert_eq!(claim(&store, LEASE).await.len(), 1);
    // Rotated: both secrets sign.
    let fresh = Secret::generate().unwrap();
    assert!(hooks.rotate("bob", &hook.id, &fresh, LEASE).await.unwrap().is_none());
    hooks.rotate("ann", &hook.id, &fresh, LEASE).await.unwrap().unwrap();
    store.end("ann", &id(1), None, EndReason::Killed).await.unwrap();
    assert_eq!(claim(&store, LEASE).await[0].secrets, [fresh, hook.secret.clone()]);
    assert!(!hooks.remove("bob", &hook.id).await.unwrap());
    assert!(hooks.remove("ann", &hook.id).await.unwrap());
}

#[tokio::test]
async fn a_tenant_has_only_so_many_webhooks() {
    let store = store().await;
    for number in 0..MAX_WEBHOOKS {
        let number = u8::try_from(number).unwrap();
        assert!(store.webhooks().add(&new("ann", number, &SANDBOXES)).await.unwrap().is_some());
    }
    assert!(store.webhooks().add(&new("ann", 99, &SANDBOXES)).await.unwrap().is_none());
    assert!(store.webhooks().add(&new("bob", 100, &SANDBOXES)).await.unwrap().is_some());
}
