//! Several events at once.

use belljar_domain::Sequence;
use belljar_journal::event::Request;
use belljar_journal::{AppendError, Batch, BlobRef, Body, State};

use super::{LONG, all, leased};
use crate::build;
use crate::place::Place;

pub async fn several_events_are_written_in_order(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let address = &lease.address;
    let long = "x".repeat(20_000);
    let three = vec![build::said("a"), build::said(&long).keyed("b"), build::artifact("c")];
    let done = journal.append_all(&lease, three.clone().into(), Some(Sequence(2))).await?;
    assert_eq!(done.last, Sequence(5));
    let events = all(&journal, address).await?;
    let bodies = |events: &[belljar_journal::Event]| -> Vec<Body> {
        events.iter().map(|event| event.body.clone()).collect()
    };
    let wanted: Vec<Body> = three.iter().map(|event| event.body.clone()).collect();
    assert_eq!(bodies(&events[2..]), wanted);
    if let Some(told) = done.events {
        assert_eq!(told, events[2..]);
    }
    // One of them is there already.
    let again = vec![build::said("other").keyed("b"), build::said("d")];
    let done = journal.append_all(&lease, again.into(), None).await?;
    assert_eq!(done.last, Sequence(6));
    let events = all(&journal, address).await?;
    assert_eq!(bodies(&events[5..]), [build::said("d").body]);
    // Of two with one key there is the first.
    let twins = vec![build::said("e").keyed("e"), build::said("f").keyed("e")];
    journal.append_all(&lease, twins.into(), None).await?;
    let events = all(&journal, address).await?;
    assert_eq!(bodies(&events[6..]), [build::said("e").body]);
    // Objects that they name come with them, also where one is there already.
    for (content, key) in [("new", "g"), ("newer", "e")] {
        let blob = BlobRef::of(content.as_bytes());
        let blobs = vec![content.as_bytes().to_vec()];
        let events = vec![build::said(content).keyed(key)];
        journal.append_all(&lease, Batch { events, blobs }, None).await?;
        assert_eq!(journal.get_blob(address, &blob).await?, content.as_bytes());
    }
    Ok(())
}

pub async fn several_events_are_not_written_after_one_that_was_not_seen(
    place: &impl Place,
) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let address = &lease.address;
    journal.request(address, build::want(Request::Pause), None).await?;
    let two = vec![build::said("a"), build::said("b")];
    let unseen = journal.append_all(&lease, two.into(), Some(Sequence(2))).await;
    assert!(matches!(unseen, Err(AppendError::Unseen { head: Sequence(3) })), "{unseen:?}");
    assert_eq!(all(&journal, address).await?.len(), 3);
    // Nor after one that is there already.
    let pause = Some(Sequence(3));
    journal.append(&lease, build::said("known").keyed("known")).await?;
    journal.request(address, build::want(Request::Pause), None).await?;
    let known = || vec![build::said("known").keyed("known"), build::said("c")];
    for seen in [pause, Some(Sequence(4))] {
        let unseen = journal.append_all(&lease, known().into(), seen).await;
        assert!(matches!(unseen, Err(AppendError::Unseen { .. })), "{unseen:?}");
    }
    assert_eq!(all(&journal, address).await?.len(), 5);
    // An earlier attempt came as far as the first of them.
    let again = || vec![build::said("d").keyed("d"), build::said("e").keyed("e")];
    journal.append(&lease, build::said("d").keyed("d").seen(Sequence(5))).await?;
    let done = journal.append_all(&lease, again().into(), Some(Sequence(5))).await?;
    assert_eq!(done.last, Sequence(7));
    // The last of them says what it wants to have seen.
    let ends = |seen| vec![build::said("a"), build::finished(Sequence(seen))];
    let blind = journal.append_all(&lease, ends(99).into(), Some(Sequence(7))).await;
    assert!(matches!(blind, Err(AppendError::Unseen { .. })), "{blind:?}");
    let head = journal.find(address).await?.head;
    let end = journal.append_all(&lease, ends(head.0 + 1).into(), Some(head)).await?;
    assert_eq!(end.last, Sequence(head.0 + 2));
    let row = journal.find(address).await?;
    assert_eq!(row.state, State::Finished);
    if journal.releases_at_end() {
        assert_eq!((row.owner, row.lease_until), (None, None));
    }
    // A worker that has not noticed yet is not fenced.
    journal.renew(&lease, LONG).await?;
    Ok(())
}

pub async fn a_stale_worker_writes_none_of_several(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let stale = leased(&journal).await?;
    journal.release(&stale).await?;
    journal.claim(&stale.address, "fresh", LONG).await?;
    let before = all(&journal, &stale.address).await?;
    let two = vec![build::said("a"), build::said("b")];
    let late = journal.append_all(&stale, two.into(), None).await;
    assert!(matches!(late, Err(AppendError::Fenced { .. })), "{late:?}");
    assert_eq!(all(&journal, &stale.address).await?, before);
    Ok(())
}
