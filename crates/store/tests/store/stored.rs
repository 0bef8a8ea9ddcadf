use std::time::Duration;

use belljar_domain::StoredKind::{self, Checkpoints, Datasets, Templates, Volumes};
use belljar_domain::{NodeNumber, RunId, StoredBytes};
use belljar_journal::{LedgerStore as _, UsageKey, UsagePage, UsageQuery};
use belljar_store::StoredPart::{self, Tables};
use belljar_store::{ChargedStorage, MAX_STORED_BYTES, Store};
use belljar_testkit::Postgres;
use time::OffsetDateTime;

use super::{LEASE, node, running, store, store_at};

const HOUR_LEASE: Duration = Duration::from_secs(900);

fn bytes(tenant: &str, kind: StoredKind, bytes: u64) -> StoredBytes {
    StoredBytes { tenant: tenant.to_owned(), kind, bytes }
}

async fn usage(store: &Store, tenant: &str) -> UsagePage {
    let query = UsageQuery {
        tenant: Some(tenant.to_owned()),
        from: OffsetDateTime::UNIX_EPOCH,
        to: OffsetDateTime::now_utc() + time::Duration::HOUR,
        run: None,
        by: vec![UsageKey::Operation],
        limit: 100,
        after: 0,
    };
    store.ledger().usage(&query).await.unwrap()
}

fn seen(page: &UsagePage) -> Vec<(&str, u64)> {
    let groups = page.groups.iter();
    groups
        .map(|it| {
            let name = it.name.operation.as_deref().unwrap_or_default();
            (name, it.amounts.stored_byte_hours)
        })
        .collect()
}

/// Two nodes with a sandbox of `ann` each; `bob` has nothing anywhere.
async fn nodes(store: &Store) -> [NodeNumber; 2] {
    let mut numbers = Vec::new();
    for (name, sandbox) in [("one", 1), ("two", 2)] {
        let registered = node(store, name, LEASE).await;
        numbers.push(NodeNumber::new(registered.number).unwrap());
        running(store, "ann", sandbox, registered).await;
    }
    [numbers[0], numbers[1]]
}

#[tokio::test]
async fn an_hour_is_charged_once_with_what_all_nodes_keep() {
    let store = store().await;
    let [one, two] = nodes(&store).await;
    assert!(store.set_price("stored_gigabyte_hour", 2_000_000_000).await.unwrap());
    let run = belljar_journal::Address { tenant: "ann".to_owned(), run: RunId::from_bits([1; 16]) };
    super::runs::begun(&store, &run).await;
    let sent = [bytes("ann", Volumes, 500), bytes("ann", Checkpoints, 70)];
    assert_eq!(store.put_stored(one, &sent).await.unwrap(), 2);
    // The newer word of a node replaces the older one; kinds that it leaves out are gone.
    assert_eq!(store.put_stored(one, &[bytes("ann", Volumes, 1_000_000)]).await.unwrap(), 1);
    assert_eq!(store.put_stored(two, &[bytes("ann", Volumes, 500_000)]).await.unwrap(), 1);
    let hour = store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap().unwrap();
    assert_eq!(store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap(), None, "another replica");
    let more = [bytes("ann", Datasets, 9), bytes("zoe", Datasets, 9)];
    let charged = store.charge_stored(hour, &more).await.unwrap();
    // Volumes cost $2 for 10^9 bytes, so 1.5 MB cost $0.003; the rest costs next to nothing.
    assert_eq!(charged.charges, 3);
    assert!((3_000_000..3_100_000).contains(&charged.nano_dollars), "{charged:?}");
    assert_eq!(store.charge_stored(hour, &more).await.unwrap(), ChargedStorage::default());
    assert_eq!(
        store.lease_stored_hour(Tables, Duration::ZERO).await.unwrap(),
        None,
        "it is charged"
    );
    let page = usage(&store, "ann").await;
    let groups = seen(&page);
    assert_eq!(groups[..1], [("storage:datasets", 9)]);
    assert_eq!(groups[2..], [("storage:volumes", 1_500_000)]);
    assert!(groups[1].0 == "storage:runs" && groups[1].1 > 0, "{groups:?}");
    assert_eq!(usage(&store, "bob").await, UsagePage::default());
}

/// A node that fetched a template of another one has its layers, too.
#[tokio::test]
async fn templates_on_several_nodes_are_charged_once() {
    let store = store().await;
    let [one, two] = nodes(&store).await;
    let sent = [bytes("ann", Templates, 300), bytes("ann", Volumes, 10)];
    assert_eq!(store.put_stored(one, &sent).await.unwrap(), 2);
    let sent = [bytes("ann", Templates, 500), bytes("ann", Volumes, 20)];
    assert_eq!(store.put_stored(two, &sent).await.unwrap(), 2);
    let hour = store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap().unwrap();
    assert_eq!(store.charge_stored(hour, &[]).await.unwrap().charges, 2);
    let page = usage(&store, "ann").await;
    assert_eq!(seen(&page), [("storage:templates", 500), ("storage:volumes", 30)]);
}

/// A node is believed about tenants that have something on it.
#[tokio::test]
async fn a_node_cannot_charge_a_tenant_that_has_nothing_on_it() {
    let store = store().await;
    let [one, _] = nodes(&store).await;
    let volumes = |tenant| bytes(tenant, Volumes, 10);
    let sent = [volumes("ann"), volumes("bob"), volumes("zoe"), bytes("ann", StoredKind::Runs, 5)];
    assert_eq!(store.put_stored(one, &sent).await.unwrap(), 1);
}

/// Figures that a node makes up cost a tenant no more than a bound.
#[tokio::test]
async fn figures_of_a_node_are_clamped() {
    let store = store().await;
    let [one, _] = nodes(&store).await;
    let volumes = |figure| bytes("ann", Volumes, figure);
    // Also in a sum.
    for sent in [vec![volumes(u64::MAX)], vec![volumes(MAX_STORED_BYTES), volumes(10)]] {
        assert_eq!(store.put_stored(one, &sent).await.unwrap(), 1);
    }
    let hour = store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap().unwrap();
    assert_eq!(store.charge_stored(hour, &[]).await.unwrap().charges, 1);
    let page = usage(&store, "ann").await;
    assert_eq!(seen(&page), [("storage:volumes", 1 << 50)]);
}

/// A replica that died is no reason to leave an hour out.
#[tokio::test]
async fn an_hour_that_was_leased_and_not_charged_is_leased_again() {
    let url = Postgres::shared().schema();
    let store = store_at(&url).await;
    let first = store.lease_stored_hour(Tables, Duration::ZERO).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let again = store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap();
    assert_eq!(again, Some(first));
    // An old word of a node does not count.
    let [one, _] = nodes(&store).await;
    store.put_stored(one, &[bytes("ann", Volumes, 10)]).await.unwrap();
    let schema = url.rsplit('=').next().unwrap();
    let old = format!("update {schema}.stored_sample set sampled_at = now() - interval '2 hours'");
    Postgres::shared().run(&old).unwrap();
    assert_eq!(store.charge_stored(first, &[]).await.unwrap(), ChargedStorage::default());
}

#[tokio::test]
async fn a_lease_that_is_given_back_is_free_at_once() {
    let store = store().await;
    let hour = store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap().unwrap();
    assert_eq!(store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap(), None);
    store.release_stored_hour(hour).await.unwrap();
    assert_eq!(store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap(), Some(hour));
    store.charge_stored(hour, &[]).await.unwrap();
    store.release_stored_hour(hour).await.unwrap();
    assert_eq!(store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap(), None, "it is charged");
}

/// A replica that has no bucket may be first in an hour.
#[tokio::test]
async fn datasets_are_charged_apart_from_tables() {
    let store = store().await;
    let [one, _] = nodes(&store).await;
    store.put_stored(one, &[bytes("ann", Volumes, 10)]).await.unwrap();
    let tables = store.lease_stored_hour(Tables, HOUR_LEASE).await.unwrap().unwrap();
    assert_eq!(store.charge_stored(tables, &[]).await.unwrap().charges, 1);
    let leased = store.lease_stored_hour(StoredPart::Datasets, HOUR_LEASE).await.unwrap();
    let more = [bytes("ann", Datasets, 9)];
    assert_eq!(store.charge_stored(leased.unwrap(), &more).await.unwrap().charges, 1);
    let page = usage(&store, "ann").await;
    assert_eq!(seen(&page), [("storage:datasets", 9), ("storage:volumes", 10)]);
    let again = store.lease_stored_hour(StoredPart::Datasets, Duration::ZERO).await.unwrap();
    assert_eq!(again, None, "it is charged");
}
