use std::collections::BTreeSet;

use belljar_domain::EndReason;
use belljar_store::{Change, NewSandbox, Quota, Requested, SandboxState, StoreError};

use super::{LEASE, LIFE, QUOTA, id, made, new, node, running, store};

#[tokio::test]
async fn a_life_from_request_to_end() {
    let store = store().await;
    let node = node(&store, "n1", LEASE).await;
    let row = made(&store, "ann", 1).await;
    assert_eq!((row.state, row.epoch, row.node), (SandboxState::Waiting, 0, None));
    assert_eq!(store.tenant("ann").await.unwrap().used, 1);
    // Its id carries the node, so it changes when it is placed.
    let epoch = store.place("ann", &row.id, 0, &id(2), node.number).await.unwrap().unwrap();
    assert_eq!(store.sandbox("ann", &row.id).await.unwrap(), None);
    let id = id(2);
    assert_eq!(store.started("ann", &id, epoch, LIFE).await.unwrap(), Change::Done);
    assert_eq!(store.started("ann", &id, epoch, LIFE).await.unwrap(), Change::Already);
    assert_eq!(store.paused("ann", &id, epoch).await.unwrap(), Change::Done);
    assert_eq!(store.paused("ann", &id, epoch).await.unwrap(), Change::Already);
    assert_eq!(store.extend("ann", &id, epoch, LIFE).await.unwrap(), Change::Stale, "it is paused");
    assert_eq!(store.resumed("ann", &id, epoch, LIFE).await.unwrap(), Change::Done);
    assert_eq!(store.extend("ann", &id, epoch, LIFE * 2).await.unwrap(), Change::Done);
    let row = store.sandbox("ann", &id).await.unwrap().unwrap();
    assert_eq!((row.state, row.node), (SandboxState::Running, Some(node.number)));
    assert!(row.deadline_at.unwrap() - row.started_at.unwrap() >= LIFE);
    assert_eq!(store.end("ann", &id, Some(epoch), EndReason::Killed).await.unwrap(), Change::Done);
    let again = store.end("ann", &id, Some(epoch), EndReason::Lost).await.unwrap();
    assert_eq!(again, Change::Already);
    let row = store.sandbox("ann", &id).await.unwrap().unwrap();
    assert_eq!((row.state, row.reason), (SandboxState::Ended, Some(EndReason::Killed)));
    assert_eq!(store.tenant("ann").await.unwrap().used, 0, "its place is free, once");
}

#[tokio::test]
async fn whoever_acts_on_an_old_placement_changes_nothing() {
    let store = store().await;
    let node = node(&store, "n1", LEASE).await;
    let row = made(&store, "ann", 1).await;
    let first = store.place("ann", &row.id, 0, &row.id, node.number).await.unwrap().unwrap();
    let second = store.place("ann", &row.id, first, &row.id, node.number).await.unwrap().unwrap();
    assert!(second > first);
    assert_eq!(store.place("ann", &row.id, first, &row.id, node.number).await.unwrap(), None);
    assert_eq!(store.started("ann", &row.id, first, LIFE).await.unwrap(), Change::Stale);
    let end = store.end("ann", &row.id, Some(first), EndReason::Exit).await.unwrap();
    assert_eq!(end, Change::Stale);
    assert_eq!(store.started("ann", &row.id, second, LIFE).await.unwrap(), Change::Done);
    assert_eq!(
        store.place("ann", &row.id, second, &row.id, node.number).await.unwrap(),
        None,
        "it runs"
    );
    // The owner's word counts whatever the placement.
    assert_eq!(store.end("ann", &row.id, None, EndReason::Killed).await.unwrap(), Change::Done);
    assert_eq!(store.end("ann", &id(9), None, EndReason::Killed).await.unwrap(), Change::Stale);
}

#[tokio::test]
async fn nobody_changes_another_tenants_sandbox() {
    let store = store().await;
    let node = node(&store, "n1", LEASE).await;
    let waiting = made(&store, "ann", 1).await;
    assert_eq!(store.place("bob", &waiting.id, 0, &waiting.id, node.number).await.unwrap(), None);
    store.withdraw("bob", &waiting.id).await.unwrap();
    let epoch = running(&store, "ann", 2, node).await;
    let before = store.sandbox("ann", &id(2)).await.unwrap();
    for epoch in [None, Some(epoch)] {
        let end = store.end("bob", &id(2), epoch, EndReason::Killed).await.unwrap();
        assert_eq!(end, Change::Stale);
    }
    for change in [
        store.started("bob", &id(2), epoch, LIFE).await,
        store.paused("bob", &id(2), epoch).await,
        store.resumed("bob", &id(2), epoch, LIFE).await,
        store.extend("bob", &id(2), epoch, LIFE * 2).await,
    ] {
        assert_eq!(change.unwrap(), Change::Stale);
    }
    assert_eq!(store.sandbox("ann", &waiting.id).await.unwrap(), Some(waiting));
    assert_eq!(store.sandbox("ann", &id(2)).await.unwrap(), before);
    assert_eq!(store.tenant("ann").await.unwrap().used, 2);
    assert_eq!(store.tenant("bob").await.unwrap().used, 0);
    // The control: its owner does.
    let end = store.end("ann", &id(2), None, EndReason::Killed).await.unwrap();
    assert_eq!(end, Change::Done);
}

#[tokio::test]
async fn two_schedulers_place_a_sandbox_once() {
    let store = store().await;
    let node = node(&store, "n1", LEASE).await;
    let row = made(&store, "ann", 1).await;
    let all = (0..8).map(|_| {
        let (store, id) = (store.clone(), row.id.clone());
        tokio::spawn(async move { store.place("ann", &id, 0, &id, node.number).await.unwrap() })
    });
    let mut placed = 0;
    for one in all.collect::<Vec<_>>() {
        placed += usize::from(one.await.unwrap().is_some());
    }
    assert_eq!(placed, 1);
}

#[tokio::test]
async fn quotas_hold_however_many_ask_at_once() {
    let store = store().await;
    let all = (0..40).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { store.request(&new("ann", &id(number))).await.unwrap() })
    });
    let mut made = 0;
    for one in all.collect::<Vec<_>>() {
        match one.await.unwrap() {
            Requested::Made(_) => made += 1,
            other => assert_eq!(other, Requested::OverQuota),
        }
    }
    assert_eq!(made, QUOTA.sandboxes);
    let tenant = store.tenant("ann").await.unwrap();
    assert_eq!(tenant.used, QUOTA.sandboxes);
    assert!(matches!(store.request(&new("bob", &id(99))).await.unwrap(), Requested::Made(_)));
    // Less than it has: nothing is taken away, and nothing new is given.
    store.put_tenant("bob", None, Quota { sandboxes: 0, ..QUOTA }).await.unwrap();
    assert_eq!(store.request(&new("bob", &id(98))).await.unwrap(), Requested::OverQuota);
    let unknown = id(97);
    let refused = store.request(&new("eve", &unknown)).await;
    assert!(matches!(refused, Err(StoreError::UnknownTenant(_))), "{refused:?}");
}

#[tokio::test]
async fn a_request_that_is_repeated_is_one_request() {
    let store = store().await;
    let all = (0..12).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = id(number);
            let new = NewSandbox { request: Some(("key", [7; 32])), ..new("ann", &id) };
            store.request(&new).await.unwrap()
        })
    });
    let mut ids = BTreeSet::new();
    let mut made = 0;
    for one in all.collect::<Vec<_>>() {
        let row = match one.await.unwrap() {
            Requested::Made(row) => {
                made += 1;
                row
            }
            Requested::Repeated(row) => row,
            other => panic!("{other:?}"),
        };
        ids.insert(row.id);
    }
    assert_eq!((made, ids.len()), (1, 1));
    assert_eq!(store.tenant("ann").await.unwrap().used, 1, "those that came second take no place");
    let id = id(50);
    let other = NewSandbox { request: Some(("key", [8; 32])), ..new("ann", &id) };
    assert_eq!(store.request(&other).await.unwrap(), Requested::Mismatch);
    // Another tenant's key of the same name is another key.
    let bobs = NewSandbox { tenant: "bob", ..other };
    assert!(matches!(store.request(&bobs).await.unwrap(), Requested::Made(_)));
}

#[tokio::test]
async fn what_belongs_to_another_does_not_exist() {
    let store = store().await;
    let row = made(&store, "ann", 1).await;
    assert_eq!(store.sandbox("bob", &row.id).await.unwrap(), None);
    assert!(store.sandboxes("bob", None, 10).await.unwrap().rows.is_empty());
    assert_eq!(store.sandboxes("ann", None, 10).await.unwrap().rows, [row]);
}

#[tokio::test]
async fn lists_are_read_part_by_part() {
    let store = store().await;
    let node = node(&store, "n1", LEASE).await;
    for number in 0..7 {
        running(&store, "ann", number, node).await;
    }
    store.end("ann", &id(3), None, EndReason::Killed).await.unwrap();
    let (mut seen, mut after) = (vec![], None);
    loop {
        let part = store.sandboxes("ann", after.as_ref(), 2).await.unwrap();
        assert!(part.rows.len() <= 2);
        seen.extend(part.rows.into_iter().map(|row| row.id));
        match part.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, [6, 5, 4, 2, 1, 0].map(id));
}

#[tokio::test]
async fn what_is_stuck_is_found() {
    let store = store().await;
    let row = made(&store, "ann", 1).await;
    assert!(store.stuck(LIFE).await.unwrap().is_empty());
    let stuck = store.stuck(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(stuck, [row]);
}
