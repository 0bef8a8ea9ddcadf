//! Answers of models in a directory: they outlive the process that kept them.

use belljar_domain::Sequence;
use belljar_journals::{InDirectory, Place as _, build};

/// Requirements: A13, P5
#[tokio::test]
async fn an_answer_is_found_by_the_next_process_until_its_event_is_written() {
    let place = InDirectory::new().unwrap();
    let journal = place.open().await.unwrap();
    let (new, other) = (build::new("ann"), build::new("ann"));
    journal.create(&new).await.unwrap();
    journal.create(&other).await.unwrap();
    let run = &new.address;
    journal.keep_answer(run, Sequence(3), b"answer".to_vec()).await.unwrap();
    drop(journal);
    let next = place.open().await.unwrap();
    assert_eq!(next.kept_answer(run, Sequence(3)).await.unwrap().unwrap(), b"answer");
    assert_eq!(next.kept_answer(run, Sequence(4)).await.unwrap(), None);
    assert_eq!(next.kept_answer(&other.address, Sequence(3)).await.unwrap(), None);
    // The log and the lists of runs do not see it.
    assert_eq!(next.read(run, Sequence(1), 9).await.unwrap().len(), 1);
    next.forget_answer(run, Sequence(3)).await.unwrap();
    assert_eq!(next.kept_answer(run, Sequence(3)).await.unwrap(), None);
}
