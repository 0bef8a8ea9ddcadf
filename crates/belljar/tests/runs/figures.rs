//! Figures of a platform: any replica answers for the runs of all.
//!
//! Requirements: O4

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::Sequence;
use belljar_journal::Watch;
use belljar_journal::event::{Budget, Environment, NetworkAccess};
use belljar_runs::{RunStats, Runs, Settings, Wanted, WantedBrief};
use belljar_store::{Quota, Store};
use belljar_testkit::Postgres;

use crate::offered;
use crate::world::{TEMPLATE, World};

/// A turn with a command that fails, and an answer.
pub(crate) const SCRIPT: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "exit 3" } }]
    usage = { input = 1000, output = 50, cached = 3000 }
    [[turn]]
    call = [{ tool = "finish", input = { answer = "done" } }]
    usage = { input = 1000, output = 50, cached = 3000 }
"#;

/// O4, P2: replicas share the figures of a tenant, and no tenant has those of another one.
pub(crate) async fn each_replica_tells_what_all_of_them_did(world: &World) {
    let _model = world.scripts.add("replicated", SCRIPT).await;
    let store = Store::connect(&Postgres::shared().schema(), 8).await.unwrap();
    store.migrate().await.unwrap();
    let quota = Quota { sandboxes: 10, longest_life: Duration::from_secs(3600) };
    for tenant in ["one", "two"] {
        store.put_tenant(tenant, None, quota).await.unwrap();
    }
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let replica = |owner: &str| {
        let settings =
            Settings { owner: owner.to_owned(), template: TEMPLATE.into(), ..Settings::default() };
        let (inside, scripts) = (world.served.inside("one"), world.scripts.clone());
        let (journal, figures) = (Arc::new(store.runs()), Arc::new(store.figures()));
        offered::runs(&inside, journal, figures, place.path(), scripts, settings)
    };
    let replicas = [replica("first"), replica("second")];
    for runs in &replicas {
        work_on_one(runs).await;
    }
    // One more run that waits.
    replicas[0].create("one", wanted()).await.unwrap();
    // A replica that has just started knows as much as those that worked.
    let fresh = replica("third");
    for runs in replicas.iter().chain([&fresh]) {
        let RunStats { waiting, running, paused, hour, day, .. } = runs.stats("one").await.unwrap();
        assert_eq!((waiting, running, paused), (1, 0, 0));
        assert_eq!((day.started, day.turns, day.calls), (2, 4, 4));
        assert_eq!((day.ended["answered"], day.faults["exit"]), (2, 2));
        assert_eq!((hour.turns, day.cache_share()), (4, Some(0.75)));
        assert!(day.nano_dollars > 0 && day.sandbox_ms > 0, "{day:?}");
        let other = runs.stats("two").await.unwrap();
        assert_eq!((other.waiting, other.day.started, other.day.turns), (0, 0, 0));
    }
}

/// Has one replica answer a question, and stops it.
async fn work_on_one(runs: &Runs) {
    let run = runs.create("one", wanted()).await.unwrap().run;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = {
        let runs = runs.clone();
        tokio::spawn(async move { runs.work(async { drop(stopped.await) }).await })
    };
    let mut watch = Watch::new(runs.journal().clone(), run, Sequence(1));
    while watch.next().await.unwrap().is_some() {}
    drop(stop);
    // All that it counted is kept when it has stopped.
    working.await.unwrap();
}

fn wanted() -> Wanted {
    Wanted {
        question: "How much is it?".parse().unwrap(),
        data: vec![],
        template: None,
        operation: Some("replicated".into()),
        model: None,
        budget: Budget::default(),
        brief: WantedBrief::default(),
        environment: Environment::default(),
        network: NetworkAccess::default(),
        caps: belljar_domain::OperationCaps::default(),
        now: None,
        questions: false,
        traceparent: None,
        key: None,
    }
}
