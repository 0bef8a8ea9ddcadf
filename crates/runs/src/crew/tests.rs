use std::path::Path;

use belljar_agent::Texts;
use belljar_journal::event::{Budget, NetworkAccess, RunCreated};
use belljar_journal::{Directory, FigureFile, First, LedgerDirectory, NewRun, RowDirectory};
use belljar_objects::Place;
use time::OffsetDateTime;

use super::*;
use crate::{Data, DataLimits, Parts, RunQuota, Settings, WordHub};

/// Runs in a directory. None of them is worked on: tests look at what was begun.
fn runs(directory: &Path, at_once: usize) -> Runs {
    let path = |name: &str| directory.join(name);
    let ledger = LedgerDirectory::new(path("ledger"));
    let parts = Parts {
        journal: Arc::new(Directory::open(&path("runs")).unwrap()),
        figures: Arc::new(FigureFile::open(&path("figures.json"))),
        rows: Arc::new(RowDirectory::new(path("rows"), path("runs"), ledger.clone())),
        ledger: Arc::new(ledger),
        data: Data::new(Place::Directory(path("data")), path("scratch"), DataLimits::default()),
        clients: Box::new(|_| panic!("no run is worked on")),
        models: Box::new(FixedRules),
        describer: None,
        mounts: Box::new(|_, _| false),
        quotas: Box::new(|_| {
            Box::pin(async { Ok(RunQuota { runs: 0, nano_dollars_per_day: None }) })
        }),
        words: WordHub::default(),
    };
    Runs::new(parts, Settings { at_once, ..Settings::default() })
}

async fn make(runs: &Runs, tenant: &str, count: u8) {
    for number in 0..count {
        let mut bits = [number; 16];
        bits[0] = tenant.as_bytes()[0];
        let created = RunCreated {
            question: "q".into(),
            datasets: Vec::new(),
            model: "m".into(),
            prompt: Texts::newest_for(&NetworkAccess::default()).prompt(),
            budget: Budget::default(),
            now: OffsetDateTime::UNIX_EPOCH,
            wish: None,
        };
        let address = Address { tenant: tenant.to_owned(), run: RunId::from_bits(bits) };
        let new = NewRun { address, first: First::Created(created), most_unfinished: None };
        runs.journal().create(&new).await.unwrap();
    }
}

fn crew(runs: &Runs) -> Crew<'_> {
    let (_, stop) = watch::channel(false);
    Crew {
        runs,
        works: JoinSet::new(),
        at: HashMap::new(),
        runs_at_work: HashSet::new(),
        of_tenants: HashMap::new(),
        resting: HashMap::new(),
        is_behind: false,
        next_look: None,
        stop,
    }
}

fn at_work(crew: &Crew<'_>, tenant: &str) -> usize {
    crew.of_tenants.get(tenant).copied().unwrap_or(0)
}

#[test]
fn some_hands_are_kept_for_other_tenants() {
    let shares = [1, 2, 8, 16, 17, 64, 2400].map(share);
    assert_eq!(shares, [1, 1, 7, 15, 15, 60, 2250]);
}

/// P5: many waiting runs of one tenant keep no other tenant waiting.
#[tokio::test]
async fn tenants_take_turns_and_no_tenant_has_all_hands() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(directory.path(), 16);
    make(&runs, "ann", 20).await;
    let mut crew = crew(&runs);
    crew.look(Look::ForAll).await;
    assert_eq!((at_work(&crew, "ann"), crew.works.len()), (15, 15));
    assert!(crew.is_behind);
    // A tenant that comes later finds the hand that was kept.
    make(&runs, "bob", 2).await;
    crew.look(Look::ForUnclaimed).await;
    assert_eq!((at_work(&crew, "ann"), at_work(&crew, "bob")), (15, 1));
    // Those who come together take turns.
    let mut crew = self::crew(&runs);
    crew.look(Look::ForAll).await;
    assert_eq!((at_work(&crew, "ann"), at_work(&crew, "bob")), (14, 2));
}

/// P8: a worker that was let go of is counted no more, and its run rests before it is tried again.
#[tokio::test]
async fn runs_that_were_let_go_of_leave_hands_and_rest() {
    let directory = tempfile::tempdir().unwrap();
    let runs = runs(directory.path(), 100);
    make(&runs, "ann", 70).await;
    let mut crew = crew(&runs);
    crew.look(Look::ForAll).await;
    assert_eq!(crew.works.len(), LOOKED_AT);
    assert!(crew.next_look.is_some(), "there are more runs than one look begins");
    crew.works.abort_all();
    while let Some(done) = crew.works.join_next_with_id().await {
        crew.let_go(done);
    }
    assert!(crew.of_tenants.is_empty() && crew.runs_at_work.is_empty() && crew.at.is_empty());
    assert_eq!(crew.resting.len(), LOOKED_AT);
    for (until, _) in crew.resting.values_mut() {
        // However slow this machine is.
        *until += LONG;
    }
    crew.look(Look::ForAll).await;
    assert_eq!(crew.works.len(), 70 - LOOKED_AT, "the others rest");
    assert!(crew.next_look.is_none() && crew.is_behind);
}
