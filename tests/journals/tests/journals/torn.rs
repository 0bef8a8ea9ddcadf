//! Files that end in the middle of something, or were changed.

use std::fs;
use std::sync::Arc;

use belljar_domain::Sequence;
use belljar_journal::{Address, AppendError, Journal, Lease, ReadError, read_all};
use belljar_journals::{InDirectory, Place as _, build};

use std::time::Duration;

/// A run with five events, and its file.
async fn written(place: &InDirectory) -> (Address, Vec<u8>) {
    let journal = place.open().await.unwrap();
    let new = build::new("ann");
    journal.create(&new).await.unwrap();
    let lease = journal.claim(&new.address, "first", Duration::ZERO).await.unwrap();
    for text in ["one", "two", "three"] {
        journal.append(&lease, build::said(text)).await.unwrap();
    }
    let log = fs::read(place.run(&new.address).join("log")).unwrap();
    (new.address, log)
}

async fn claimed(place: &InDirectory, run: &Address) -> (Arc<dyn Journal>, Lease) {
    let journal = place.open().await.unwrap();
    let lease = journal.claim(run, "second", Duration::ZERO).await.unwrap();
    (journal, lease)
}

#[tokio::test]
async fn a_torn_last_record_is_cut_off_and_no_other() {
    let place = InDirectory::new().unwrap();
    let (run, log) = written(&place).await;
    let path = place.run(&run).join("log");
    let last = log[..log.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    for cut in last..log.len() {
        fs::write(&path, &log[..cut]).unwrap();
        let journal = place.open().await.unwrap();
        assert_eq!(read_all(&*journal, &run).await.unwrap().len(), 4, "cut at {cut}");
        // Readers leave it alone: somebody may be writing.
        assert_eq!(fs::read(&path).unwrap().len(), cut);
    }
    // Whole, but not what was written: the machine stopped before all of it was.
    for hole in [&b"\0"[..], b"garbage"] {
        let mut torn = log.clone();
        torn[last + 30..last + 30 + hole.len()].copy_from_slice(hole);
        fs::write(&path, &torn).unwrap();
        let (journal, lease) = claimed(&place, &run).await;
        assert_eq!(lease.taken, Sequence(5));
        journal.append(&lease, build::said("four")).await.unwrap();
        let journal = place.open().await.unwrap();
        assert_eq!(read_all(&*journal, &run).await.unwrap().len(), 6);
    }
}

#[tokio::test]
async fn damage_before_the_end_is_never_cut_off() {
    let place = InDirectory::new().unwrap();
    let (run, log) = written(&place).await;
    let path = place.run(&run).join("log");
    let ends: Vec<_> = (0..log.len()).filter(|&at| log[at] == b'\n').collect();
    for (seq, at) in [(1, 40), (3, ends[1] + 25), (4, ends[3] - 2), (2, ends[1])] {
        let mut damaged = log.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let journal = place.open().await.unwrap();
        let read = journal.read(&run, Sequence(1), 9).await;
        assert!(matches!(read, Err(ReadError::Damaged(Sequence(it))) if it == seq), "{read:?}");
        assert!(journal.claim(&run, "second", Duration::ZERO).await.is_err());
        assert_eq!(fs::read(&path).unwrap(), damaged);
    }
    // A record that is missing is damage as well.
    let missing = [&log[..=ends[1]], &log[ends[2] + 1..]].concat();
    fs::write(&path, &missing).unwrap();
    let journal = place.open().await.unwrap();
    let read = journal.read(&run, Sequence(1), 9).await;
    assert!(matches!(read, Err(ReadError::Damaged(Sequence(3)))), "{read:?}");
    assert_eq!(fs::read(&path).unwrap(), missing);
}

/// A machine may have stopped when the later of two pages was on the disk, and the
/// earlier one not.
#[tokio::test]
async fn what_could_wait_is_cut_off_with_all_after_it_unless_it_was_on_the_disk() {
    let place = InDirectory::new().unwrap();
    let (run, before) = written(&place).await;
    let path = place.run(&run).join("log");
    let (journal, lease) = claimed(&place, &run).await;
    for text in ["four", "five"] {
        journal.append(&lease, build::said(text).waiting()).await.unwrap();
    }
    journal.append(&lease, build::said("six")).await.unwrap();
    let torn = |log: &[u8]| {
        let mut log = log.to_vec();
        let claim = log[before.len()..].iter().position(|&byte| byte == b'\n').unwrap();
        log[before.len() + claim + 30] ^= 1;
        log
    };
    let log = fs::read(&path).unwrap();
    fs::write(&path, torn(&log)).unwrap();
    let journal = place.open().await.unwrap();
    assert_eq!(read_all(&*journal, &run).await.unwrap().len(), 6);
    // What comes later proves that it was there.
    fs::write(&path, &log).unwrap();
    let (journal, lease) = claimed(&place, &run).await;
    journal.append(&lease, build::said("seven")).await.unwrap();
    let log = fs::read(&path).unwrap();
    let damaged = torn(&log);
    fs::write(&path, &damaged).unwrap();
    let journal = place.open().await.unwrap();
    let read = journal.read(&run, Sequence(1), 9).await;
    assert!(matches!(read, Err(ReadError::Damaged(Sequence(7)))), "{read:?}");
    assert_eq!(fs::read(&path).unwrap(), damaged);
}

#[tokio::test]
async fn whatever_is_lost_of_the_lease_file_the_fence_holds() {
    for lost in [None, Some(""), Some("{\"half\":")] {
        let place = InDirectory::new().unwrap();
        let (run, _) = written(&place).await;
        let (journal, stale) = claimed(&place, &run).await;
        let (other, fresh) = claimed(&place, &run).await;
        let lease = place.run(&run).join("lease");
        match lost {
            None => fs::remove_file(&lease).unwrap(),
            Some(text) => fs::write(&lease, text).unwrap(),
        }
        let late = journal.append(&stale, build::said("late")).await;
        assert!(matches!(late, Err(AppendError::Fenced { .. })), "{late:?}");
        other.append(&fresh, build::said("in time")).await.unwrap();
        assert_eq!(other.find(&run).await.unwrap().generation, fresh.generation);
    }
}

/// The kernel tells that a holder is dead before its lease ends.
#[tokio::test]
async fn nobody_waits_for_the_lease_of_the_dead() {
    let place = InDirectory::new().unwrap();
    let (run, _) = written(&place).await;
    let hour = Duration::from_secs(3600);
    let first = place.open().await.unwrap();
    first.claim(&run, "first", hour).await.unwrap();
    let second = place.open().await.unwrap();
    assert!(second.claim(&run, "second", hour).await.is_err());
    assert!(!second.claimable(9).await.unwrap().contains(&run));
    drop(first);
    assert!(second.claimable(9).await.unwrap().contains(&run));
    second.claim(&run, "second", hour).await.unwrap();
}

#[tokio::test]
async fn a_blob_that_was_changed_is_not_handed_out() {
    let place = InDirectory::new().unwrap();
    let (run, _) = written(&place).await;
    let (journal, lease) = claimed(&place, &run).await;
    let blob = journal.put_blob(&run, b"content".to_vec()).await.unwrap();
    let path = place.run(&run).join("blobs").join(blob.sha256.to_string());
    fs::write(path, "another").unwrap();
    assert!(journal.get_blob(&run, &blob).await.is_err());
    let appended = journal.append(&lease, build::said(&"long ".repeat(5000))).await.unwrap();
    for entry in fs::read_dir(place.run(&run).join("blobs")).unwrap() {
        fs::write(entry.unwrap().path(), "another").unwrap();
    }
    let read = journal.read(&run, appended.seq(), 1).await;
    assert!(matches!(read, Err(ReadError::Damaged(it)) if it == appended.seq()), "{read:?}");
}
