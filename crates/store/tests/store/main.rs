//! Every query, against a real server. Each test has a schema of its own.
#![expect(clippy::unwrap_used, reason = "a test; its helpers are no test functions")]

mod answers;
mod books;
mod budgets;
mod figures;
mod identity;
mod nodes;
mod platform;
mod rows;
mod runs;
mod runs_alive;
mod sandboxes;
mod schema;
mod stored;
mod usage;
mod webhooks;
mod who;
mod workflows;

use std::time::Duration;

use belljar_domain::{MaxLimits, NodeNumber, SandboxId, Tier};
use belljar_store::{
    EnrolOutcome, NewSandbox, Quota, Registered, Registration, Requested, SandboxRow, Store,
};
use belljar_testkit::Postgres;
use serde_json::Value;

const LEASE: Duration = Duration::from_secs(30);
const LIFE: Duration = Duration::from_secs(300);
const QUOTA: Quota = Quota { sandboxes: 10, longest_life: Duration::from_secs(3600) };

/// An up-to-date schema with the tenants `ann` and `bob`.
async fn store() -> Store {
    store_at(&Postgres::shared().schema()).await
}

async fn store_at(url: &str) -> Store {
    let store = Store::connect(url, 8).await.unwrap();
    store.migrate().await.unwrap();
    for tenant in ["ann", "bob"] {
        store.put_tenant(tenant, None, QUOTA).await.unwrap();
    }
    store
}

async fn empty() -> Store {
    Store::connect(&Postgres::shared().schema(), 8).await.unwrap()
}

fn id(number: u8) -> SandboxId {
    SandboxId::from_random([number; 16])
}

fn new<'a>(tenant: &'a str, id: &'a SandboxId) -> NewSandbox<'a> {
    NewSandbox {
        id,
        tenant,
        template: "python",
        tier: Some(Tier::Jail),
        facts: &Value::Null,
        request: None,
    }
}

async fn made(store: &Store, tenant: &str, number: u8) -> SandboxRow {
    let id = id(number);
    match store.request(&new(tenant, &id)).await.unwrap() {
        Requested::Made(row) => row,
        other => panic!("{other:?}"),
    }
}

async fn node(store: &Store, name: &str, lease: Duration) -> Registered {
    let (number, key) = enrolled(store, name).await;
    let new = Registration {
        number,
        public_key: &key,
        name,
        address: "https://10.0.0.1:3100",
        tiers: &[Tier::Jail],
        slots: 5,
        max_limits: Some(MaxLimits::default()),
        lease,
    };
    store.register(&new).await.unwrap().expect("it is enrolled")
}

/// The key of a node by this name.
fn key_of(name: &str) -> [u8; 32] {
    let mut key = [7; 32];
    key[..name.len()].copy_from_slice(name.as_bytes());
    key
}

/// A node that has enrolled with its key, and what it is called.
async fn enrolled(store: &Store, name: &str) -> (NodeNumber, [u8; 32]) {
    let (key, added) = (key_of(name), store.add_node(name).await.unwrap());
    if !added.is_enrolled {
        store.add_enrolment_token(added.number, &key, LIFE).await.unwrap();
        let done = store.enrol(&key, name, &key).await.unwrap();
        assert_eq!(done, EnrolOutcome::Enrolled(added.number));
    }
    (added.number, key)
}

/// One that runs; its epoch.
async fn running(store: &Store, tenant: &str, number: u8, node: Registered) -> u64 {
    let row = made(store, tenant, number).await;
    let placed = store.place(tenant, &row.id, row.epoch, &row.id, node.number).await.unwrap();
    let epoch = placed.expect("it is placed");
    assert!(!store.started(tenant, &row.id, epoch, LIFE).await.unwrap().is_stale());
    epoch
}
