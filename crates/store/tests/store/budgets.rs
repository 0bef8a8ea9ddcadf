use std::time::Duration;

use belljar_domain::NodeNumber;
use belljar_domain::budget::{
    AskSlice, BudgetAmount, BudgetAnswer, BudgetKey, BudgetLimit, BudgetRequest, ReturnSlices,
    Slice, UnusedSlice,
};
use belljar_store::Store;
use belljar_testkit::Postgres;

use super::{LEASE, id, made, node, store, store_at};

const LIMIT: u64 = 10_000;

fn dollars(nano_dollars: u64) -> BudgetAmount {
    BudgetAmount { nano_dollars, ..BudgetAmount::default() }
}

fn key(tenant: Option<&str>, every_seconds: u64) -> BudgetKey {
    BudgetKey { operation: "llm".to_owned(), tenant: tenant.map(str::to_owned), every_seconds }
}

fn asked(gateway: &str, key: &BudgetKey, at_least: u64) -> BudgetRequest {
    BudgetRequest::Lease(AskSlice {
        gateway: gateway.to_owned(),
        key: key.clone(),
        limit: BudgetLimit { nano_dollars: Some(LIMIT), ..BudgetLimit::default() },
        at_least: dollars(at_least),
    })
}

fn back(gateway: &str, key: &BudgetKey, id: i64, unused: u64) -> BudgetRequest {
    let slices = vec![UnusedSlice { id, unused: dollars(unused) }];
    BudgetRequest::Return(ReturnSlices { gateway: gateway.to_owned(), key: key.clone(), slices })
}

async fn answer(store: &Store, node: Option<NodeNumber>, request: &BudgetRequest) -> Option<Slice> {
    match store.answer_budget(node, request).await.unwrap() {
        BudgetAnswer::Granted(slice) => Some(slice),
        BudgetAnswer::Exhausted { .. } => None,
        other => panic!("{other:?}"),
    }
}

async fn accepted(store: &Store, node: Option<NodeNumber>, request: &BudgetRequest) -> u64 {
    match store.answer_budget(node, request).await.unwrap() {
        BudgetAnswer::Returned { accepted } => accepted,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn slices_are_as_the_gateways_compute_them() {
    let (store, key) = (store().await, key(None, 0));
    let limit = BudgetLimit { nano_dollars: Some(LIMIT), ..BudgetLimit::default() };
    let mut leased = dollars(0);
    for at_least in [1, 700, 1, 3000, 5, 9000, 1] {
        let expected = limit.slice(leased, dollars(at_least));
        let slice = answer(&store, None, &asked("g", &key, at_least)).await;
        assert_eq!(slice.map(|slice| slice.amount), expected, "{at_least} of {leased:?}");
        assert_eq!(slice.and_then(|slice| slice.ends_in_ms), None);
        leased = leased.plus(expected.unwrap_or_default());
    }
    assert_eq!(answer(&store, None, &asked("g", &key, LIMIT + 1)).await, None);
}

#[tokio::test]
async fn many_gateways_at_once_never_lease_more_than_the_limit() {
    let store = store().await;
    let key = key(Some("ann"), 3600);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (store, key) = (store.clone(), key.clone());
        tasks.spawn(async move {
            let gateway = format!("g{number}");
            let mut spent = 0;
            for round in 0..60 {
                let Some(slice) = answer(&store, None, &asked(&gateway, &key, 37)).await else {
                    continue;
                };
                let amount = slice.amount.nano_dollars;
                // Some give half of it back, and try to do so twice.
                let unused = if round % 3 == 0 { amount / 2 } else { 0 };
                if round % 3 < 2 {
                    let request = back(&gateway, &key, slice.id, unused);
                    assert_eq!(accepted(&store, None, &request).await, 1);
                    assert_eq!(accepted(&store, None, &request).await, 0);
                }
                spent += amount - unused;
            }
            spent
        });
    }
    let spent: u64 = tasks.join_all().await.into_iter().sum();
    assert!(spent <= LIMIT && spent > LIMIT - 37, "{spent}");
}

#[tokio::test]
async fn a_slice_comes_back_from_its_own_gateway_and_node_alone() {
    let store = store().await;
    let one = NodeNumber::new(node(&store, "one", LEASE).await.number).unwrap();
    let two = NodeNumber::new(node(&store, "two", LEASE).await.number).unwrap();
    let key = key(None, 86_400);
    let slice = answer(&store, Some(one), &asked("g", &key, LIMIT)).await.unwrap();
    assert!(slice.ends_in_ms.unwrap() <= 86_400_000);
    let all = back("g", &key, slice.id, LIMIT * 5);
    assert_eq!(accepted(&store, Some(two), &all).await, 0);
    assert_eq!(accepted(&store, None, &all).await, 0);
    assert_eq!(accepted(&store, Some(one), &back("h", &key, slice.id, LIMIT)).await, 0);
    let held = store.answer_budget(Some(two), &asked("h", &key, 1)).await.unwrap();
    assert_eq!(held, BudgetAnswer::Exhausted { is_held: true });
    assert_eq!(accepted(&store, Some(one), &all).await, 1);
    // No more came back than was handed out.
    assert!(answer(&store, Some(two), &asked("h", &key, LIMIT)).await.is_some());
    assert_eq!(answer(&store, Some(two), &asked("h", &key, 1)).await, None);
}

#[tokio::test]
async fn a_node_leases_for_tenants_that_it_has_sandboxes_of() {
    let store = store().await;
    let number = node(&store, "one", LEASE).await.number;
    let one = NodeNumber::new(number).unwrap();
    let (ann, bob) = (key(Some("ann"), 0), key(Some("bob"), 0));
    assert_eq!(answer(&store, Some(one), &asked("g", &ann, 1)).await, None);
    let row = made(&store, "ann", 1).await;
    store.place("ann", &row.id, row.epoch, &id(9), number).await.unwrap().unwrap();
    assert!(answer(&store, Some(one), &asked("g", &ann, 1)).await.is_some());
    assert_eq!(answer(&store, Some(one), &asked("g", &bob, 1)).await, None);
    // The control: this process may, for its runs.
    assert!(answer(&store, None, &asked("g", &bob, 1)).await.is_some());
}

#[tokio::test]
async fn a_window_that_ends_frees_what_was_forfeited() {
    let (store, key) = (store().await, key(None, 1));
    let slice = answer(&store, None, &asked("dead", &key, LIMIT)).await.unwrap();
    assert!(slice.ends_in_ms.unwrap() <= 1000);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(answer(&store, None, &asked("g", &key, LIMIT)).await.is_some());
    // A slice of the window that was frees nothing in this one.
    assert_eq!(accepted(&store, None, &back("dead", &key, slice.id, LIMIT)).await, 0);
}

/// The caller asks another replica then: what this one grants must not be lost.
#[tokio::test]
async fn a_slice_that_is_granted_too_late_is_taken_back() {
    let url = Postgres::shared().schema();
    let (store, key) = (store_at(&url).await, key(None, 0));
    let first = answer(&store, None, &asked("g", &key, 1)).await.unwrap();
    let schema = url.rsplit('=').next().unwrap().to_owned();
    let slow =
        format!("set search_path = {schema}; begin; lock table budget; select pg_sleep(2); commit");
    let locking = tokio::task::spawn_blocking(move || Postgres::shared().run(&slow));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let patience = Duration::from_millis(200);
    let late = store.answer_budget_within(patience, None, asked("g", &key, 1), ()).await;
    assert!(late.is_none(), "{late:?}");
    locking.await.unwrap().unwrap();
    let rest = LIMIT - first.amount.nano_dollars;
    for _ in 0..50 {
        if let Some(slice) = answer(&store, None, &asked("h", &key, rest)).await {
            return assert_eq!(slice.amount, dollars(rest));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the slice did not come back");
}

#[tokio::test]
async fn numbers_that_no_budget_has_are_refused() {
    let store = store().await;
    let asked = |every_seconds, at_least| asked("g", &key(None, every_seconds), at_least);
    for request in [asked(0, u64::MAX), asked(u64::MAX, 1)] {
        let answer = store.answer_budget(None, &request).await.unwrap();
        assert!(matches!(answer, BudgetAnswer::Away { .. }), "{answer:?}");
    }
    assert_eq!(answer(&store, None, &asked(0, LIMIT + 1)).await, None);
    assert!(answer(&store, None, &asked(0, LIMIT)).await.is_some());
}

/// Else the budget would be used up until the time that the clock once showed.
#[tokio::test]
async fn a_window_that_was_ahead_begins_now_and_frees_nothing() {
    let url = Postgres::shared().schema();
    let (store, key) = (store_at(&url).await, key(None, 86_400));
    let schema = url.rsplit('=').next().unwrap();
    let move_by = |days: u32| {
        let ahead = format!("set window_start = window_start + interval '{days} days'");
        Postgres::shared().run(&format!("update {schema}.budget_slice {ahead}")).unwrap();
        Postgres::shared().run(&format!("update {schema}.budget {ahead}")).unwrap();
    };
    let slice = answer(&store, None, &asked("g", &key, 6000)).await.unwrap();
    move_by(1000);
    // With something left: the slice is of the window of now.
    let next = answer(&store, None, &asked("h", &key, 3000)).await.unwrap();
    assert!(next.ends_in_ms.unwrap() <= 86_400_000, "{next:?}");
    // With nothing left: nothing is freed, and the window of now has begun all the same.
    move_by(1000);
    assert_eq!(answer(&store, None, &asked("h", &key, 2000)).await, None);
    let is_of_now = "select 1 / count(*) from budget where window_start <= now()";
    let is_of_now = format!("set search_path to {schema}; {is_of_now}");
    Postgres::shared().run(&is_of_now).unwrap();
    // A slice of it still comes back.
    assert_eq!(accepted(&store, None, &back("g", &key, slice.id, 6000)).await, 1);
    assert!(answer(&store, None, &asked("h", &key, 6000)).await.is_some());
    // The control: a window that is not over yet stays as it is.
    move_by(1);
    let held = answer(&store, None, &asked("h", &key, 1)).await.unwrap();
    assert!(held.ends_in_ms.unwrap() > 86_400_000, "{held:?}");
}
