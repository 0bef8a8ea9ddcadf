use belljar_domain::network::{Bytes, Charge, Decision, Kind, Reason};
use belljar_domain::rows::{AttributedRow, ConnectionRow, RowBody};
use belljar_domain::{Attribution, EndReason, NodeNumber, RunId, SandboxId};
use belljar_journal::{
    Account, LedgerStore as _, RowStore as _, UsageGroup, UsageKey, UsagePage, UsageQuery,
};
use belljar_store::Store;
use time::{Duration, OffsetDateTime};

use super::{id, store};

const DAY: u64 = 86_400_000_000;

fn row(id: &str, sandbox: &SandboxId, connection: ConnectionRow) -> AttributedRow {
    let run = RunId::from_bits([1; 16]);
    AttributedRow {
        id: id.to_owned(),
        tenant: "ann".to_owned(),
        sandbox: sandbox.clone(),
        attribution: Some(Attribution { run, turn: 1, call: None }),
        began: DAY,
        micros: 1,
        body: RowBody::Connection(connection),
    }
}

fn connection(out: u64, charge: Option<Charge>) -> ConnectionRow {
    ConnectionRow {
        sequence: 1,
        kind: if charge.is_some() { Kind::Operation } else { Kind::Connection },
        decision: Decision::Allowed,
        reason: Reason::Open,
        host: None,
        port: None,
        operation: charge.is_some().then(|| "llm".to_owned()),
        method: None,
        path: None,
        status: None,
        bytes: Bytes { out, into: 5 },
        charge,
        is_late: false,
    }
}

fn answer(model: &str, output: u64, nano_dollars: u64) -> Option<Charge> {
    Some(Charge { model: model.to_owned(), output, nano_dollars, ..Charge::default() })
}

fn query(tenant: Option<&str>, by: &[UsageKey]) -> UsageQuery {
    UsageQuery {
        tenant: tenant.map(str::to_owned),
        from: OffsetDateTime::UNIX_EPOCH,
        to: OffsetDateTime::now_utc() + Duration::HOUR,
        run: None,
        by: by.to_vec(),
        limit: 100,
        after: 0,
    }
}

async fn usage(store: &Store, query: UsageQuery) -> UsagePage {
    store.ledger().usage(&query).await.unwrap()
}

fn sum(groups: &[UsageGroup], of: impl Fn(&UsageGroup) -> u64) -> u64 {
    groups.iter().map(of).sum()
}

/// Answers with and without a price, an estimated one, traffic of two calls and two days, and rows
/// that cost nothing.
fn rows() -> Vec<AttributedRow> {
    let (one, two) = (id(1), id(2));
    let later = |row: AttributedRow| AttributedRow { began: 2 * DAY, ..row };
    let of_nobody = |row: AttributedRow| AttributedRow { attribution: None, ..row };
    let mut estimated = answer("large", 0, 40);
    estimated.iter_mut().for_each(|charge| charge.estimated = true);
    let mut refused = connection(99, None);
    refused.decision = Decision::Denied;
    let mut lookup = connection(77, None);
    lookup.kind = Kind::Lookup;
    vec![
        row("a", &one, connection(100, answer("large", 7, 300))),
        row("b", &one, connection(10, answer("free", 9, 0))),
        later(row("c", &one, connection(1, estimated))),
        row("d", &one, connection(1000, None)),
        row("e", &one, connection(2000, None)),
        later(row("f", &one, connection(4000, None))),
        of_nobody(row("g", &two, connection(8000, None))),
        row("h", &two, refused),
        row("i", &two, lookup),
    ]
}

/// O5: a row is charged once, with its quantities, whatever it costs.
#[tokio::test]
async fn rows_are_charged_once_and_sums_of_every_grouping_are_the_total() {
    let store = store().await;
    let (rows, ledger) = (store.rows(), rows());
    assert_eq!(rows.put(&ledger).await.unwrap().charged.models, 340);
    assert_eq!(rows.put(&ledger).await.unwrap().charged.models, 0);
    // In another batch, with a new row between them.
    let mut again = ledger.clone();
    again.push(row("j", &id(1), connection(1, None)));
    again.reverse();
    rows.put(&again).await.unwrap();
    for bits in 0..1_usize << UsageKey::ALL.len() {
        let keys = UsageKey::ALL.iter().enumerate();
        let by: Vec<_> =
            keys.filter(|(at, _)| (bits >> at) & 1 == 1).map(|(_, key)| *key).collect();
        let page = usage(&store, query(None, &by)).await;
        let total = &page.total.amounts;
        assert_eq!((total.nano_dollars, total.estimated_nano_dollars), (340, 40), "{by:?}");
        assert_eq!((total.tokens.output, total.egress_bytes), (16, 15_112), "{by:?}");
        // Three answers; egress of one call and day is one charge a batch.
        assert_eq!(page.total.charges, 3 + 3 + 1, "{by:?}");
        assert_eq!(sum(&page.groups, |it| it.charges), page.total.charges, "{by:?}");
        assert_eq!(sum(&page.groups, |it| it.amounts.nano_dollars), 340, "{by:?}");
        assert_eq!(sum(&page.groups, |it| it.amounts.egress_bytes), 15_112, "{by:?}");
    }
    let page = usage(&store, query(Some("ann"), &[UsageKey::Model])).await;
    let seen: Vec<_> =
        page.groups.iter().map(|it| (it.name.model.as_deref(), it.charges)).collect();
    assert_eq!(seen, [(None, 4), (Some("free"), 1), (Some("large"), 2)]);
    let page = usage(&store, query(Some("ann"), &[UsageKey::Day])).await;
    let days: Vec<_> = page.groups.iter().filter_map(|it| it.name.day.as_deref()).collect();
    assert_eq!(days, ["1970-01-02", "1970-01-03"]);
    // Another tenant has none of it, and a run only what is its own.
    assert_eq!(usage(&store, query(Some("bob"), &[])).await, UsagePage::default());
    let run = Some(RunId::from_bits([1; 16]));
    let of_run = usage(&store, UsageQuery { run, ..query(Some("ann"), &[]) }).await;
    assert_eq!((of_run.total.charges, of_run.total.amounts.egress_bytes), (6, 7112));
    let from = OffsetDateTime::UNIX_EPOCH + Duration::days(2);
    let late = usage(&store, UsageQuery { from, ..query(Some("ann"), &[]) }).await;
    assert_eq!((late.total.charges, late.total.amounts.nano_dollars), (2, 40));
}

#[tokio::test]
async fn groups_come_in_pages() {
    let store = store().await;
    let batch: Vec<_> = (0..5)
        .map(|n| row(&format!("r{n}"), &id(1), connection(0, answer(&format!("m{n}"), 1, 1))))
        .collect();
    store.rows().put(&batch).await.unwrap();
    let page = |after| UsageQuery { limit: 2, after, ..query(Some("ann"), &[UsageKey::Model]) };
    let mut seen = Vec::new();
    for after in [0, 2, 4] {
        let page = usage(&store, page(after)).await;
        assert_eq!((page.total.charges, page.is_cut), (5, after < 4));
        seen.extend(page.groups.into_iter().filter_map(|it| it.name.model));
    }
    assert_eq!(seen, ["m0", "m1", "m2", "m3", "m4"]);
}

/// Egress has a price when the operator sets one.
#[tokio::test]
async fn egress_costs_what_the_operator_says() {
    let store = store().await;
    assert!(store.set_price("egress_gigabyte", 2_000_000_000).await.unwrap());
    let stored = store.rows().put(&[row("a", &id(1), connection(500_000, None))]).await.unwrap();
    assert_eq!(stored.charged.egress, 1_000_000);
    let page = usage(&store, query(Some("ann"), &[UsageKey::Account])).await;
    assert_eq!(page.groups[0].name.account.as_deref(), Some(Account::Egress.as_str()));
    assert_eq!(page.total.amounts.nano_dollars, 1_000_000);
}

/// The sandbox of a run is made under a key that names it.
#[tokio::test]
async fn time_of_a_runs_sandbox_is_charged_to_the_run() {
    let store = store().await;
    let run = belljar_journal::Address { tenant: "ann".to_owned(), run: RunId::from_bits([1; 16]) };
    super::runs::begun(&store, &run).await;
    let node = super::node(&store, "one", super::LEASE).await.number;
    let unknown = RunId::from_bits([9; 16]);
    let keys = [format!("run-{}-1", run.run), format!("run-{unknown}-1"), "other".to_owned()];
    let mut ending = OffsetDateTime::UNIX_EPOCH;
    for (number, key) in (1_u8..).zip(&keys) {
        let id = id(number);
        let new = belljar_store::NewSandbox {
            request: Some((key.as_str(), [number; 32])),
            ..super::new("ann", &id)
        };
        let made = store.request(&new).await.unwrap();
        let belljar_store::Requested::Made(made) = made else { panic!("{made:?}") };
        let epoch = store.place("ann", &id, made.epoch, &id, node).await.unwrap().unwrap();
        store.started("ann", &id, epoch, super::LIFE).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        ending = OffsetDateTime::now_utc();
        store.end("ann", &id, None, EndReason::Killed).await.unwrap();
    }
    let page = usage(&store, query(Some("ann"), &[UsageKey::Run])).await;
    let seen: Vec<_> = page.groups.iter().map(|it| (it.name.run.clone(), it.charges)).collect();
    assert_eq!(seen, [(None, 2), (Some(run.run.to_string()), 1)]);
    assert!(page.groups.iter().all(|it| it.amounts.sandbox_ms > 0));
    // Each counts at its end.
    let last = usage(&store, UsageQuery { from: ending, ..query(Some("ann"), &[]) }).await;
    assert_eq!(last.total.charges, 1);
}

/// The clock of a node is believed within a day, so its charges count in no other period.
#[tokio::test]
async fn charges_of_a_node_count_within_a_day_of_now() {
    let store = store().await;
    let node = super::node(&store, "one", super::LEASE).await;
    let number = NodeNumber::new(node.number).unwrap();
    super::running(&store, "ann", 1, node).await;
    let at = |began, row| AttributedRow { began, ..row };
    let rows = [
        at(DAY, row("a", &id(1), connection(0, answer("m", 1, 5)))),
        at(40_000 * DAY, row("b", &id(1), connection(0, answer("m", 1, 5)))),
        at(DAY, row("c", &id(1), connection(100, None))),
    ];
    assert_eq!(store.rows().put_of_node(number, &rows).await.unwrap().charged.models, 10);
    let now = OffsetDateTime::now_utc();
    let (from, to) = (now - Duration::hours(25), now + Duration::hours(25));
    let near = usage(&store, UsageQuery { from, to, ..query(Some("ann"), &[]) }).await;
    assert_eq!((near.total.charges, near.total.amounts.egress_bytes), (3, 100));
}
