use belljar_domain::RunId;
use belljar_journal::event::{Budget, Finished, Outcome, Prompt, RunCreated};
use belljar_journal::{BlobRef, Directory as Runs};

use super::*;
use crate::shelf::{NewWebhook, Shelf as _};
use crate::sign::Secret;

fn run() -> NewRun {
    let sha256 = BlobRef::of(b"p").sha256;
    let created = RunCreated {
        question: "why?".to_owned(),
        datasets: Vec::new(),
        model: "m".to_owned(),
        prompt: Prompt { name: "p".to_owned(), version: "1".to_owned(), sha256 },
        budget: Budget::default(),
        now: OffsetDateTime::UNIX_EPOCH,
        wish: None,
    };
    let address = Address { tenant: "ann".to_owned(), run: RunId::from_bits([1; 16]) };
    NewRun { address, first: First::Created(created), most_unfinished: None }
}

async fn kinds(shelf: &Directory) -> Vec<EventKind> {
    let claimed = shelf.claim(64, &[], Duration::from_secs(60)).await.unwrap();
    assert!(claimed.iter().all(|it| !it.message.body.contains("why?")));
    claimed.iter().map(|it| it.message.kind).collect()
}

/// An event whose server was killed before it announced it is announced by the next one, once.
#[tokio::test]
async fn the_next_server_announces_what_a_killed_one_could_not() {
    let place = tempfile::tempdir().unwrap();
    let (hooks, runs) = (place.path().join("hooks"), place.path().join("runs"));
    let shelf = Directory::open(&hooks).unwrap();
    let new = NewWebhook {
        id: "wh_1".to_owned(),
        tenant: "ann".to_owned(),
        url: "https://hooks.example.com/".to_owned(),
        kinds: vec![EventKind::RunCreated, EventKind::RunEnded],
        secret: Secret::generate().unwrap(),
    };
    shelf.add(&new).await.unwrap().unwrap();
    let plain: Arc<dyn Journal> = Arc::new(Runs::open(&runs).unwrap());
    let run = run();
    AnnouncedJournal::new(plain.clone(), shelf.clone()).create(&run).await.unwrap();
    assert_eq!(kinds(&shelf).await, [EventKind::RunCreated]);
    // Without an announcement, as if the server had died in between.
    let lease = plain.claim(&run.address, "w", Duration::from_secs(60)).await.unwrap();
    let head = plain.find(&run.address).await.unwrap().head;
    let finished =
        Finished { outcome: Outcome::Answered, error: None, message: None, result: None };
    let event = NewEvent { body: finished.into(), key: None, seen: Some(head), may_wait: false };
    plain.append(&lease, event).await.unwrap();
    assert!(kinds(&shelf).await.is_empty());
    drop((shelf, plain));
    let shelf = Directory::open(&hooks).unwrap();
    let plain: Arc<dyn Journal> = Arc::new(Runs::open(&runs).unwrap());
    let journal = AnnouncedJournal::new(plain, shelf.clone());
    journal.recover().await.unwrap();
    journal.recover().await.unwrap();
    assert_eq!(kinds(&shelf).await, [EventKind::RunCreated, EventKind::RunEnded]);
}
