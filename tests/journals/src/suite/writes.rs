//! Events, and what is too long for them.

use std::sync::Arc;

use belljar_domain::Sequence;
use belljar_journal::event::{ControlRequested, Request};
use belljar_journal::{
    AppendError, Appended, BlobError, BlobRef, Body, ClaimError, Key, NewEvent, RequestError,
    State, Watch,
};

use super::{LONG, all, leased};
use crate::build;
use crate::place::Place;

pub async fn an_event_is_written_once_under_its_key(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let other = place.open().await?;
    let lease = leased(&journal).await?;
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let journal = if number % 2 == 0 { journal.clone() } else { other.clone() };
            let lease = lease.clone();
            let event = build::said(&format!("by {number}")).keyed("the one");
            tokio::spawn(async move { journal.append(&lease, event).await })
        })
        .collect();
    let mut fresh = 0;
    for task in tasks {
        let appended = task.await??;
        assert_eq!(appended.seq(), Sequence(3));
        fresh += u32::from(matches!(appended, Appended::Fresh(_)));
    }
    assert_eq!((fresh, all(&journal, &lease.address).await?.len()), (1, 3));
    // Without a key the same is another event.
    journal.append(&lease, build::said("again")).await?;
    journal.append(&lease, build::said("again")).await?;
    assert_eq!(all(&journal, &lease.address).await?.len(), 5);
    // Requests have keys, too.
    let want = || build::want(Request::Tell { text: "hm".into() });
    let key = Some(Key::new("a request"));
    let one = journal.request(&lease.address, want(), key.clone()).await?;
    let two = other.request(&lease.address, want(), key).await?;
    assert_eq!((one, two), (Appended::Fresh(Sequence(6)), Appended::Repeated(Sequence(6))));
    Ok(())
}

pub async fn sequences_have_no_gap_whoever_writes(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let mut tasks = Vec::new();
    for number in 0..4 {
        let (journal, address) = (place.open().await?, lease.address.clone());
        tasks.push(tokio::spawn(async move {
            for count in 0..15 {
                let text = format!("{number} {count}");
                journal.request(&address, build::want(Request::Tell { text }), None).await?;
            }
            anyhow::Ok(())
        }));
    }
    for count in 0..30 {
        journal.append(&lease, build::artifact(&format!("a{count}"))).await?;
    }
    for task in tasks {
        task.await??;
    }
    let events = all(&journal, &lease.address).await?;
    assert_eq!(events.len(), 2 + 4 * 15 + 30);
    // Each writer's events are in the order in which it wrote them.
    for number in 0..4 {
        let told = events.iter().filter_map(|event| match &event.body {
            Body::ControlRequested(ControlRequested {
                request: Request::Tell { text }, ..
            }) => text.strip_prefix(&format!("{number} "))?.parse::<u32>().ok(),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), (0..15).collect::<Vec<_>>());
    }
    Ok(())
}

pub async fn a_watch_sees_everything_once(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    // One in the same process, and one that hears no bell.
    let mut watchers = Vec::new();
    for from in [journal.clone(), place.open().await?] {
        let mut watch = Watch::new(from, lease.address.clone(), Sequence(2));
        watchers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(event) = watch.next().await? {
                seen.push(event);
            }
            anyhow::Ok(seen)
        }));
    }
    for count in 0..40 {
        journal.append(&lease, build::artifact(&format!("a{count}"))).await?;
        if count % 10 == 0 {
            journal.request(&lease.address, build::want(Request::Pause), None).await?;
        }
    }
    let head = journal.find(&lease.address).await?.head;
    journal.append(&lease, build::finished(head)).await?;
    let events = all(&journal, &lease.address).await?;
    for watcher in watchers {
        assert_eq!(watcher.await??, events[1..]);
    }
    // Who comes late and starts behind the end waits for nothing.
    let mut late = Watch::new(journal, lease.address, head.next().next());
    assert_eq!(late.next().await?, None);
    Ok(())
}

pub async fn long_events_and_blobs_come_back_as_they_were(
    place: &impl Place,
) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let address = &lease.address;
    let texts = ["short".to_owned(), "nul \0 ä \u{1f514}\n".repeat(10_000), "y".repeat(8 << 10)];
    for text in &texts {
        journal.append(&lease, build::said(text)).await?;
    }
    journal.append(&lease, build::said(&texts[1])).await?;
    let journal = place.open().await?;
    let events = all(&journal, address).await?;
    let read = events[2..].iter().map(|event| match &event.body {
        Body::InjectedMessage(message) => message.text.clone(),
        other => panic!("{other:?}"),
    });
    assert!(read.eq(texts.iter().chain([&texts[1]]).cloned()));
    let content: Vec<u8> = (0..300_000_u32).map(|n| u8::try_from(n % 251).unwrap_or(0)).collect();
    let blob = journal.put_blob(address, content.clone()).await?;
    assert_eq!(journal.put_blob(address, content.clone()).await?, blob);
    assert_eq!((blob, blob.bytes), (BlobRef::of(&content), 300_000));
    assert!(journal.get_blob(address, &blob).await? == content);
    let absent = journal.get_blob(address, &BlobRef::of(b"never")).await;
    assert!(matches!(absent, Err(BlobError::NoBlob(_))), "{absent:?}");
    Ok(())
}

pub async fn nothing_follows_the_end(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let address = &lease.address;
    let end = journal.append(&lease, build::finished(Sequence(2))).await?;
    assert_eq!(end, Appended::Fresh(Sequence(3)));
    // Whoever did not hear the answer says it again.
    let again = journal.append(&lease, build::finished(Sequence(2))).await?;
    assert_eq!(again, Appended::Repeated(Sequence(3)));
    let late = journal.append(&lease, build::said("but")).await;
    assert!(matches!(late, Err(AppendError::Finished)), "{late:?}");
    let late = journal.request(address, build::want(Request::Resume), None).await;
    assert!(matches!(late, Err(RequestError::Finished)), "{late:?}");
    journal.release(&lease).await?;
    let late = journal.claim(address, "next", LONG).await;
    assert!(matches!(late, Err(ClaimError::Finished)), "{late:?}");
    assert!(!journal.claimable(9).await?.contains(address));
    assert_eq!(journal.find(address).await?.state, State::Finished);
    assert_eq!(all(&journal, address).await?.len(), 3);
    Ok(())
}

pub async fn who_has_not_seen_all_cannot_end_it(place: &impl Place) -> anyhow::Result<()> {
    let journal: Arc<_> = place.open().await?;
    let lease = leased(&journal).await?;
    let blind = NewEvent { seen: None, ..build::finished(Sequence(2)) };
    let done = journal.append(&lease, blind).await;
    assert!(matches!(done, Err(AppendError::Blind(_))), "{done:?}");
    let tell = build::want(Request::Tell { text: "wait".into() });
    journal.request(&lease.address, tell, None).await?;
    let done = journal.append(&lease, build::finished(Sequence(2))).await;
    assert!(matches!(done, Err(AppendError::Unseen { head: Sequence(3) })), "{done:?}");
    journal.append(&lease, build::finished(Sequence(3))).await?;
    let forged = build::want(Request::Cancel);
    let done = journal.append(&lease, NewEvent::new(forged)).await;
    assert!(matches!(done, Err(AppendError::NotYours(_))), "{done:?}");
    Ok(())
}
