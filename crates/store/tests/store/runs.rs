use std::time::Duration;

use belljar_domain::{RunId, Sequence};
use belljar_journal::event::{Budget, ForkedFrom, Prompt, RunCreated};
use belljar_journal::{Address, BlobRef, ClaimError, FORMAT, First, Journal as _, NewRun};
use belljar_store::Store;
use belljar_testkit::Postgres;
use time::OffsetDateTime;

use super::store_at;

/// Makes a run.
pub(super) async fn begun(store: &Store, address: &Address) {
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
    let new =
        NewRun { address: address.clone(), first: First::Created(created), most_unfinished: None };
    store.runs().create(&new).await.unwrap();
}

/// A replica of an older version leaves the fork of a newer run alone, as it does the run.
#[tokio::test]
async fn a_fork_needs_what_its_parent_needs() {
    let url = Postgres::shared().schema();
    let store = store_at(&url).await;
    let [parent, child] = [1, 2]
        .map(|number| Address { tenant: "ann".to_owned(), run: RunId::from_bits([number; 16]) });
    begun(&store, &parent).await;
    let schema = url.rsplit('=').next().unwrap();
    let newer = FORMAT + 1;
    Postgres::shared().run(&format!("update {schema}.run set needs = {newer}")).unwrap();
    let forked = ForkedFrom {
        parent: parent.run.clone(),
        after: Sequence(1),
        model: None,
        prompt: None,
        budget: None,
        retry: None,
    };
    let new =
        NewRun { address: child.clone(), first: First::Forked(forked), most_unfinished: None };
    store.runs().create(&new).await.unwrap();
    for run in [&parent, &child] {
        let claimed = store.runs().claim(run, "old", Duration::from_secs(60)).await;
        assert!(matches!(claimed, Err(ClaimError::Newer)), "{claimed:?}");
    }
    assert!(store.runs().claimable(9).await.unwrap().is_empty());
}
