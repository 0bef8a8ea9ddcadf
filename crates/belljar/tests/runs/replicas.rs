//! Two replicas of a platform with one database: one is dropped while it works.
//!
//! Requirements: A13, P2, P5

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::{ChosenLimits, OperationCaps, Sequence, Tier};
use belljar_journal::event::{
    Body, Budget, BudgetPatch, Environment, NetworkAccess, Outcome, Request,
};
use belljar_journal::{Journal, RunView, Watch, read_all};
use belljar_runs::{CreateRunError, RunBounds, Settings, SteerError, Wanted, WantedBrief};
use belljar_store::{Quota, Store};
use belljar_testkit::Postgres;

use crate::offered;
use crate::world::{self, TEMPLATE, World};

/// Each call leaves a line; the second one takes as long as it is not let go on.
const SCRIPT: &str = r#"
    strict = true
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 1 >> count" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 2 >> count; while [ ! -e go ]; do sleep 0.02; done; echo 3 >> count" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "Three lines.", files = ["count"] } }]
"#;

const LEASE: Duration = Duration::from_secs(2);

pub(crate) async fn another_replica_goes_on_where_one_was_dropped(world: &World) {
    let model = world.scripts.add("replicas", SCRIPT).await;
    let store = Store::connect(&Postgres::shared().schema(), 8).await.unwrap();
    store.migrate().await.unwrap();
    let quota = Quota { sandboxes: 10, longest_life: Duration::from_secs(3600) };
    store.put_tenant("one", None, quota).await.unwrap();
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let replica = |owner: &str| {
        let settings = Settings {
            owner: owner.to_owned(),
            lease: LEASE,
            template: TEMPLATE.into(),
            bounds: RunBounds {
                wall_ms: Some(3_600_000),
                nano_dollars: Some(1_000_000_000),
                ..RunBounds::default()
            },
            ..Settings::default()
        };
        let (inside, scripts) = (world.served.inside("one"), world.scripts.clone());
        let (journal, figures) = (Arc::new(store.runs()), Arc::new(store.figures()));
        offered::runs(&inside, journal, figures, place.path(), scripts, settings)
    };
    let (first, second) = (replica("first"), replica("second"));
    // The run keeps it on every worker; and the operator bounds what it does not name.
    let limits = ChosenLimits { memory_bytes: Some(768 << 20), ..ChosenLimits::NONE };
    let environment = Environment { tier: Some(Tier::Jail), limits };
    let wanted = Wanted {
        question: "How many lines?".parse().unwrap(),
        data: vec![],
        template: None,
        environment,
        network: NetworkAccess::default(),
        caps: belljar_domain::OperationCaps::default(),
        operation: Some("replicas".into()),
        model: None,
        budget: Budget::default(),
        brief: WantedBrief::default(),
        now: None,
        questions: false,
        traceparent: None,
        key: None,
    };
    for (wall_ms, nano_dollars) in [(Some(3_600_001), None), (None, Some(1_000_000_001))] {
        let budget = Budget { wall_ms, nano_dollars, ..Budget::default() };
        let larger = first.create("one", Wanted { budget, ..wanted.clone() }).await;
        assert!(matches!(larger, Err(CreateRunError::Budget(_))), "{larger:?}");
    }
    let run = first.create("one", wanted).await.unwrap().run;
    let more = BudgetPatch(Budget { wall_ms: Some(3_600_001), ..Budget::default() });
    let more = first
        .steer(&run, Request::Budget { change: more }, "one", &OperationCaps::default(), None)
        .await;
    assert!(matches!(more, Err(SteerError::Budget(_))), "{more:?}");
    let working = {
        let first = first.clone();
        tokio::spawn(async move { first.work(std::future::pending()).await })
    };
    let journal: Arc<dyn Journal> = second.journal().clone();
    let mut watch = Watch::new(journal.clone(), run.clone(), Sequence(1));
    let mut started = 0;
    while started < 2 {
        let event = watch.next().await.unwrap().unwrap();
        started += u32::from(matches!(event.body, Body::ToolStarted(_)));
    }
    // Without a word: nothing is given back, and nobody renews the lease.
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = {
        let second = second.clone();
        tokio::spawn(async move { second.work(async { drop(stopped.await) }).await })
    };
    // Whoever takes over waits for the call that is under way, and does not repeat it.
    let taken = loop {
        let event = watch.next().await.unwrap().unwrap();
        if let Body::LeaseTaken(taken) = event.body {
            break taken;
        }
    };
    assert_eq!((taken.owner.as_str(), taken.took_over.as_deref()), ("second", Some("first")));
    let events = read_all(&*journal, &run).await.unwrap();
    let sandbox = RunView::of(&events).sandbox.unwrap();
    let dial = belljar_client::Dial::new(
        &format!("http://{}", world.served.address),
        belljar_testkit::Served::KEYS[0],
        &belljar_client::Trust::Host,
    );
    let client = belljar_client::Client::new(dial.unwrap());
    client.sandbox(sandbox.as_str()).write_file("go", "").await.unwrap();
    while watch.next().await.unwrap().is_some() {}
    drop(stop);
    working.await.unwrap();

    let events = read_all(&*journal, &run).await.unwrap();
    assert_eq!(world::finished(&events).outcome, Outcome::Answered);
    let view = RunView::of(&events);
    assert_eq!((view.turns, view.sandboxes), (3, 1));
    let budget = (view.budget.wall_ms, view.budget.nano_dollars);
    assert_eq!(budget, (Some(3_600_000), Some(1_000_000_000)));
    let given = view.given.unwrap();
    assert_eq!((given.tier, given.limits.memory_bytes), (environment.tier, limits.memory_bytes));
    let count = view.artifacts.iter().find(|artifact| artifact.name == "count").unwrap();
    let count = journal.get_blob(&run, &count.content).await.unwrap();
    assert_eq!(String::from_utf8(count).unwrap(), "1\n2\n3\n");
    assert_eq!(model.record().all().len(), 3);
}
