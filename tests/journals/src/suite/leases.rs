//! Who may write.

use std::time::Duration;

use belljar_domain::{Generation, Sequence};
use belljar_journal::event::{LeaseTaken, Unknown};
use belljar_journal::{
    AppendError, Body, ClaimError, ClaimQuery, Event, FORMAT, LeaseError, RunView, State,
};
use serde_json::json;

use super::{LONG, all, leased, make, run};
use crate::build;
use crate::place::Place;

pub async fn a_stale_worker_is_fenced(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let address = run(&journal).await?;
    let stale = journal.claim(&address, "stale", Duration::ZERO).await?;
    // The lease has ended, but nobody else has come: it goes on.
    journal.append(&stale, build::artifact("a")).await?;
    let fresh = journal.claim(&address, "fresh", LONG).await?;
    assert_eq!((stale.generation, fresh.generation), (Generation(1), Generation(2)));
    let before = all(&journal, &address).await?;
    let late = journal.append(&stale, build::artifact("b")).await;
    assert!(matches!(late, Err(AppendError::Fenced { current: Generation(2) })), "{late:?}");
    let late = journal.renew(&stale, LONG).await;
    assert!(matches!(late, Err(LeaseError::Fenced { current: Generation(2) })), "{late:?}");
    let late = journal.release(&stale).await;
    assert!(matches!(late, Err(LeaseError::Fenced { current: Generation(2) })), "{late:?}");
    assert_eq!(all(&journal, &address).await?, before);
    journal.append(&fresh, build::artifact("b")).await?;
    Ok(())
}

pub async fn of_many_claimers_one_wins(place: &impl Place) -> anyhow::Result<()> {
    let first = place.open().await?;
    let second = place.open().await?;
    for _ in 0..5 {
        let address = run(&first).await?;
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let journal = if number % 2 == 0 { first.clone() } else { second.clone() };
                let address = address.clone();
                let name = format!("w{number}");
                tokio::spawn(async move { journal.claim(&address, &name, LONG).await })
            })
            .collect();
        let mut winners = Vec::new();
        for task in tasks {
            match task.await? {
                Ok(lease) => winners.push(lease),
                Err(ClaimError::Held { .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        assert_eq!(winners.len(), 1);
        assert_eq!(all(&first, &address).await?.len(), 2);
        assert_eq!(first.find(&address).await?.owner.as_ref(), Some(&winners[0].owner));
    }
    Ok(())
}

pub async fn a_lease_that_is_given_back_is_no_crash(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let address = &lease.address;
    assert!(matches!(
        journal.claim(address, "second", LONG).await,
        Err(ClaimError::Held { owner }) if owner == "first"
    ));
    assert!(!journal.claimable(9).await?.contains(address));
    journal.release(&lease).await?;
    assert!(journal.claimable(9).await?.contains(address));
    let second = journal.claim(address, "second", Duration::ZERO).await?;
    journal.claim(address, "third", LONG).await?;
    let events = all(&journal, address).await?;
    let taken = events.iter().filter_map(|event| match &event.body {
        Body::LeaseTaken(LeaseTaken { owner, took_over, .. }) => {
            Some((owner.as_str(), took_over.as_deref()))
        }
        _ => None,
    });
    let taken: Vec<_> = taken.collect();
    assert_eq!(taken, [("first", None), ("second", None), ("third", Some("second"))]);
    assert_eq!(RunView::of(&events).crashes, 1);
    assert_eq!(second.taken, Sequence(3));
    assert_eq!(events[2].lease, Some(second.generation));
    Ok(())
}

pub async fn a_lease_is_kept_by_renewing_it(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let address = run(&journal).await?;
    let lease = journal.claim(&address, "first", Duration::ZERO).await?;
    assert!(journal.claimable(9).await?.contains(&address));
    journal.renew(&lease, LONG).await?;
    assert!(!journal.claimable(9).await?.contains(&address));
    let second = journal.claim(&address, "second", LONG).await;
    assert!(matches!(second, Err(ClaimError::Held { .. })), "{second:?}");
    assert_eq!(journal.find(&address).await?.state, State::Running);
    Ok(())
}

/// A tenant with many waiting runs delays no other tenant.
pub async fn tenants_take_turns_with_workers(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let mut made = Vec::new();
    for tenant in ["ann", "ann", "ann", "bob"] {
        made.push(make(&journal, build::new(tenant)).await?);
    }
    let expected = [0, 3, 1].map(|place| made[place].clone());
    assert_eq!(journal.claimable(3).await?, expected);
    let except = [made[0].run.clone()];
    let query = ClaimQuery { most: 2, except: &except, expired: true };
    let found = journal.claimable_for(query).await?;
    assert_eq!(found.len(), 2);
    assert!(found.contains(&made[3]) && !found.contains(&made[0]), "{found:?}");
    Ok(())
}

/// An old version meets a run that a newer one has worked on.
pub async fn what_is_newer_can_be_read_and_not_worked_on(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let address = &lease.address;
    journal.release(&lease).await?;
    let content = json!({"kind": "dreamt", "v": FORMAT + 1, "of": "sheep"});
    let (kind, version) = ("dreamt".to_owned(), FORMAT + 1);
    let body = Body::Unknown(Unknown { kind, version, content });
    let at = all(&journal, address).await?[1].at;
    let event = Event { seq: Sequence(3), at, lease: None, key: None, body: body.clone() };
    place.forge(address, &event)?;
    let journal = place.open().await?;
    let events = journal.read(address, Sequence(1), 9).await?;
    assert_eq!((events.len(), &events[2].body), (3, &body));
    let claimed = journal.claim(address, "old", LONG).await;
    assert!(matches!(claimed, Err(ClaimError::Newer)), "{claimed:?}");
    assert!(!journal.claimable(9).await?.contains(address));
    let copied = journal.append(&lease, belljar_journal::NewEvent::new(body)).await;
    assert!(matches!(copied, Err(AppendError::NotYours(_))), "{copied:?}");
    Ok(())
}
