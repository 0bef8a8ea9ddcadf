//! Answers of models that were kept and not written as events.

use std::time::Duration;

use belljar_domain::{RunId, Sequence};
use belljar_journal::event::LlmRequested;
use belljar_journal::{Address, AnswerFolder, BlobRef, Journal as _, NewEvent};
use belljar_store::{Runs, Store};
use belljar_testkit::Postgres;
use tempfile::TempDir;

use super::runs::begun;
use super::{LIFE, store_at};

/// A replica, with a folder of its own.
struct Replica {
    runs: Runs,
    folder: AnswerFolder,
    place: TempDir,
}

async fn replica(url: &str) -> Replica {
    let place = tempfile::tempdir().unwrap();
    let folder = AnswerFolder::create(&place.path().join("answers")).unwrap();
    let store = Store::connect(url, 4).await.unwrap();
    let runs = store.runs().keep_answers_in(folder.clone());
    Replica { runs, folder, place }
}

/// A run that waits for the answer to its first request.
async fn asked(store: &Store, runs: &Runs, number: u8) -> (Address, Sequence) {
    let run = Address { tenant: "ann".to_owned(), run: RunId::from_bits([number; 16]) };
    begun(store, &run).await;
    let lease = runs.claim(&run, "one", LIFE).await.unwrap();
    let requested = LlmRequested {
        turn: 1,
        attempt: 1,
        model: "m".to_owned(),
        prompt: BlobRef::of(b"prompt").sha256,
        reservation: None,
        last: false,
    };
    let asked = runs.append(&lease, NewEvent::new(requested)).await.unwrap().seq();
    runs.release(&lease).await.unwrap();
    (run, asked)
}

/// Requirements: A13, P2, P5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_one_replica_kept_is_found_by_another() {
    let url = Postgres::shared().schema();
    let store = store_at(&url).await;
    let (one, other) = (replica(&url).await, replica(&url).await);
    let (run, asked) = asked(&store, &one.runs, 1).await;
    one.runs.keep_answer(&run, asked, b"answer".to_vec()).await.unwrap();
    assert_eq!(one.runs.kept_answer(&run, asked).await.unwrap().unwrap(), b"answer");
    assert_eq!(other.runs.kept_answer(&run, asked).await.unwrap(), None);
    // The process that kept it is gone; one is started again with its folder.
    let again = store.runs().keep_answers_in(one.folder.clone());
    let sharing = tokio::spawn(async move { again.share_answers().await });
    let found = async {
        loop {
            if let Some(answer) = other.runs.kept_answer(&run, asked).await.unwrap() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), found).await.unwrap();
    sharing.abort();
    assert_eq!(found, b"answer");
    // Those of other requests, runs and tenants are not there.
    assert_eq!(other.runs.kept_answer(&run, asked.next()).await.unwrap(), None);
    let of_bob = Address { tenant: "bob".to_owned(), ..run.clone() };
    assert_eq!(other.runs.kept_answer(&of_bob, asked).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_whose_event_is_written_is_not_shared() {
    let url = Postgres::shared().schema();
    let store = store_at(&url).await;
    let one = replica(&url).await;
    let (settled, asked_of_settled) = asked(&store, &one.runs, 1).await;
    let (waits, asked_of_waits) = asked(&store, &one.runs, 2).await;
    let (forgotten, asked_of_forgotten) = asked(&store, &one.runs, 3).await;
    let lease = one.runs.claim(&settled, "two", LIFE).await.unwrap();
    let failed = belljar_journal::event::LlmFailed {
        turn: 1,
        asked: asked_of_settled,
        trouble: belljar_journal::event::LlmTrouble::Lost,
        message: String::new(),
        nano_dollars: 0,
        micros: 0,
    };
    one.runs.append(&lease, NewEvent::new(failed)).await.unwrap();
    for (run, asked) in
        [(&settled, asked_of_settled), (&forgotten, asked_of_forgotten), (&waits, asked_of_waits)]
    {
        one.runs.keep_answer(run, asked, b"answer".to_vec()).await.unwrap();
    }
    one.runs.forget_answer(&forgotten, asked_of_forgotten).await.unwrap();
    let sharing = one.runs.clone();
    let sharing = tokio::spawn(async move { sharing.share_answers().await });
    // All files are looked at in one look.
    let all = || one.folder.older_than(Duration::ZERO).unwrap();
    let done = async {
        while !all().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), done).await.unwrap();
    sharing.abort();
    let kept = |run: Address, asked| {
        let runs = one.runs.clone();
        async move { runs.kept_answer(&run, asked).await.unwrap() }
    };
    assert_eq!(kept(settled, asked_of_settled).await, None);
    assert_eq!(kept(forgotten, asked_of_forgotten).await, None);
    assert_eq!(kept(waits, asked_of_waits).await.unwrap(), b"answer");
}

/// A file that cannot be read is tried again, and holds up no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_cannot_be_shared_holds_up_no_other() {
    let url = Postgres::shared().schema();
    let store = store_at(&url).await;
    let (one, other) = (replica(&url).await, replica(&url).await);
    let (run, asked) = asked(&store, &one.runs, 1).await;
    one.runs.keep_answer(&run, asked, b"answer".to_vec()).await.unwrap();
    let answers = one.place.path().join("answers");
    // Their order in the folder is that of the file system.
    for number in 10..40 {
        let broken = format!("{}-1.answer", RunId::from_bits([number; 16]));
        std::fs::create_dir(answers.join(broken)).unwrap();
    }
    let sharing = one.runs.clone();
    let sharing = tokio::spawn(async move { sharing.share_answers().await });
    let found = async {
        while other.runs.kept_answer(&run, asked).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.unwrap();
    sharing.abort();
}
