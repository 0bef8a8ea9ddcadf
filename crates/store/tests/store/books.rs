use std::time::{Duration, Instant};

use belljar_domain::SandboxId;
use belljar_store::{Change, Charge};
use belljar_testkit::Postgres;
use serde_json::{Value, json};

use super::{made, store};

fn charge<'a>(source: &'a str, nano_dollars: u64, sandbox: &'a SandboxId) -> Charge<'a> {
    Charge {
        tenant: "ann",
        debit: "ann",
        credit: "model",
        nano_dollars,
        source,
        sandbox: Some(sandbox),
        detail: &Value::Null,
    }
}

#[tokio::test]
async fn nothing_is_charged_twice_and_all_accounts_sum_to_nothing() {
    let store = store().await;
    let row = made(&store, "ann", 1).await;
    for (source, amount) in [("turn-1", 250), ("turn-2", 4_000_000_000)] {
        let first = store.charge(&charge(source, amount, &row.id)).await.unwrap();
        let again = store.charge(&charge(source, amount, &row.id)).await.unwrap();
        assert_eq!((first, again), (Change::Done, Change::Already));
    }
    let free = store.charge(&charge("turn-3", 0, &row.id)).await.unwrap();
    assert_eq!(free, Change::Already);
    let (paid, earned) = (store.balance("ann", "ann"), store.balance("ann", "model"));
    let (paid, earned) = (paid.await.unwrap(), earned.await.unwrap());
    assert_eq!((paid, earned), (-4_000_000_250, 4_000_000_250));
    assert_eq!(store.balance("bob", "ann").await.unwrap(), 0);
    let entries = store.entries("ann", 0, 10).await.unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(store.entries("ann", entries[0].number, 10).await.unwrap(), entries[1..]);
}

#[tokio::test]
async fn books_cannot_be_changed_not_even_by_their_owner() {
    let url = Postgres::shared().schema();
    let store = belljar_store::Store::connect(&url, 2).await.unwrap();
    store.migrate().await.unwrap();
    store.put_tenant("ann", None, super::QUOTA).await.unwrap();
    let row = made(&store, "ann", 1).await;
    store.charge(&charge("turn-1", 5, &row.id)).await.unwrap();
    store.audit(Some("ann"), "a", "b", "c", &json!({})).await.unwrap();
    let schema = url.rsplit('=').next().unwrap();
    for change in [
        "update ledger set nano_dollars = 1",
        "delete from ledger",
        "truncate ledger",
        "delete from audit",
        "insert into ledger (tenant, debit, credit, nano_dollars, source)
         values ('ann', 'x', 'x', 1, 's')",
        "insert into ledger (tenant, debit, credit, nano_dollars, source)
         values ('ann', 'x', 'y', -1, 's')",
    ] {
        let sql = format!("set search_path = {schema}; {change}");
        assert!(Postgres::shared().run(&sql).is_err(), "{change}");
    }
    assert_eq!(store.balance("ann", "model").await.unwrap(), 5);
}

#[tokio::test]
async fn messages_are_sent_at_least_once_and_by_one_at_a_time() {
    let store = store().await;
    for number in 0..4 {
        store.tell("work", &json!(number)).await.unwrap();
    }
    let first = store.outgoing(2).await.unwrap();
    let second = store.outgoing(9).await.unwrap();
    let bodies = |messages: &[belljar_store::Message]| {
        messages.iter().map(|message| message.body.clone()).collect::<Vec<_>>()
    };
    assert_eq!(bodies(&first.messages), [0, 1]);
    assert_eq!(bodies(&second.messages), [2, 3], "what somebody holds is not taken");
    let ids: Vec<_> = first.messages.iter().map(|message| message.id.clone()).collect();
    second.sent().await.unwrap();
    // Its publisher died: perhaps they were sent.
    drop(first);
    // The server lets go of them a moment later.
    let deadline = Instant::now() + Duration::from_secs(60);
    let again = loop {
        let again = store.outgoing(9).await.unwrap();
        if again.messages.len() == 2 || Instant::now() > deadline {
            break again;
        }
    };
    let same: Vec<_> = again.messages.iter().map(|message| message.id.clone()).collect();
    assert_eq!(same, ids, "under the same ids");
    again.sent().await.unwrap();
    assert_eq!(store.waiting().await.unwrap().0, 0);
    // The stream is gone: all of it again, to be seen anew.
    assert_eq!(store.send_again(Duration::from_secs(60)).await.unwrap(), 4);
    let anew = store.outgoing(9).await.unwrap();
    assert!(anew.messages.iter().all(|message| !ids.contains(&message.id)));
    anew.sent().await.unwrap();
    assert_eq!(store.forget_sent(Duration::from_secs(60)).await.unwrap(), 0);
    assert_eq!(store.forget_sent(Duration::ZERO).await.unwrap(), 4);
}
