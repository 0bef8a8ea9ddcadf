//! Requirements: G5

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

fn dollars(nano_dollars: u64) -> Amount {
    Amount { requests: 1, tokens: nano_dollars / 10, nano_dollars }
}

fn limit(nano_dollars: u64) -> Limit {
    Limit { nano_dollars: Some(nano_dollars), ..Limit::default() }
}

#[test]
fn a_thousand_at_once_never_spend_more_than_there_is() {
    const BUDGET: u64 = 1_000_003;
    let ledger = Ledger::new();
    let token = ledger.open(Scope::Token, limit(BUDGET));
    let tenant = ledger.open(Scope::Tenant, limit(BUDGET * 2));
    let settled = AtomicU64::new(0);
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..1000u64 {
            let (ledger, token, tenant) = (&ledger, &token, &tenant);
            let (settled, refused) = (&settled, &refused);
            scope.spawn(move || {
                for round in 0..10 {
                    let most = 1000 + (number * 7 + round * 13) % 500;
                    let accounts = vec![Arc::clone(token), Arc::clone(tenant)];
                    let Ok(mut reservation) = ledger.reserve(accounts, dollars(most)) else {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    reservation.dispatch();
                    let sum = token.spent().plus(token.reserved());
                    assert!(sum.nano_dollars <= BUDGET);
                    let actual = most - number % 300;
                    if round == 9 {
                        settled.fetch_add(most, Ordering::Relaxed);
                        drop(reservation);
                    } else {
                        settled.fetch_add(actual, Ordering::Relaxed);
                        reservation.settle(dollars(actual));
                    }
                }
            });
        }
    });
    let spent = token.spent().nano_dollars;
    assert_eq!(spent, settled.load(Ordering::Relaxed));
    assert_eq!(spent, tenant.spent().nano_dollars);
    assert!(spent <= BUDGET, "{spent}");
    assert!(spent > BUDGET - 1500, "{spent}: nothing that fits was refused at the end");
    assert!(refused.load(Ordering::Relaxed) > 0);
    assert_eq!(token.reserved(), Amount::default());
}

#[test]
fn what_one_account_refuses_no_other_is_charged_for() {
    let ledger = Ledger::new();
    let rich = ledger.open(Scope::Token, limit(1_000_000));
    let poor = ledger.open(Scope::Tenant, limit(10));
    let both = vec![Arc::clone(&rich), poor];
    let refused = ledger.reserve(both, dollars(11)).unwrap_err();
    assert_eq!(refused, Exhausted { scope: Scope::Tenant, what: What::Dollars, retry: None });
    assert_eq!(rich.reserved(), Amount::default());
}

#[test]
fn what_was_never_sent_costs_nothing_and_what_was_costs_all() {
    let ledger = Ledger::new();
    let account = ledger.open(Scope::Token, limit(100));
    drop(ledger.reserve(vec![Arc::clone(&account)], dollars(100)).unwrap());
    assert_eq!(account.spent(), Amount::default());
    let mut sent = ledger.reserve(vec![Arc::clone(&account)], dollars(100)).unwrap();
    sent.dispatch();
    drop(sent);
    assert_eq!(account.spent(), dollars(100));
}

#[test]
fn an_upstream_that_charges_more_ends_the_budget() {
    let ledger = Ledger::new();
    let account = ledger.open(Scope::Token, limit(100));
    let reservation = ledger.reserve(vec![Arc::clone(&account)], dollars(20)).unwrap();
    reservation.settle(dollars(130));
    assert_eq!(account.spent().nano_dollars, 130);
    assert!(ledger.reserve(vec![Arc::clone(&account)], Amount::default()).is_err());
}

#[test]
fn asking_again_helps_only_while_others_are_under_way() {
    let ledger = Ledger::new();
    let account = ledger.open(Scope::Token, limit(100));
    let first = ledger.reserve(vec![Arc::clone(&account)], dollars(80)).unwrap();
    let second = ledger.reserve(vec![Arc::clone(&account)], dollars(50)).unwrap_err();
    assert!(second.retry.is_some());
    first.settle(dollars(80));
    let third = ledger.reserve(vec![Arc::clone(&account)], dollars(50)).unwrap_err();
    assert_eq!(third.retry, None);
}

#[test]
fn numbers_that_do_not_fit_are_refused_and_do_not_wrap() {
    let ledger = Ledger::new();
    let account = ledger.open(Scope::Token, limit(u64::MAX));
    ledger.reserve(vec![Arc::clone(&account)], dollars(u64::MAX)).unwrap().settle(dollars(5));
    let refused = ledger.reserve(vec![account], dollars(u64::MAX)).unwrap_err();
    assert_eq!(refused.what, What::Dollars);
}

#[tokio::test(start_paused = true)]
async fn an_account_begins_anew_after_its_time() {
    let ledger = Ledger::new();
    let every = Some(Duration::from_secs(60));
    let limit = Limit { requests: Some(1), every, ..Limit::default() };
    let account = ledger.open(Scope::Operation, limit);
    ledger.reserve(vec![Arc::clone(&account)], dollars(1)).unwrap().settle(dollars(1));
    let refused = ledger.reserve(vec![Arc::clone(&account)], dollars(1)).unwrap_err();
    assert_eq!(refused.what, What::Requests);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(ledger.reserve(vec![account], dollars(1)).is_ok());
}

#[test]
fn an_account_goes_with_its_holders() {
    let ledger = Ledger::new();
    let token = ledger.open(Scope::Token, limit(100));
    let tenant = ledger.open(Scope::Tenant, limit(100));
    let accounts = vec![Arc::clone(&token), Arc::clone(&tenant)];
    let mut reservation = ledger.reserve(accounts, dollars(40)).unwrap();
    reservation.dispatch();
    drop(token);
    drop(reservation);
    assert_eq!(ledger.lock().len(), 1);
    assert_eq!(tenant.spent().nano_dollars, 40);
}
