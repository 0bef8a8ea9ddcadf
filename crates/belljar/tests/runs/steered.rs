//! Runs that are steered over HTTP: told, held, stepped, answered, retried; and their quotas.

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::Sequence;
use belljar_journal::event::{
    Body, Breakpoints, Budget, BudgetPatch, Environment, NetworkAccess, PausePoint, Paused, Request,
};
use belljar_journal::{Directory, FigureFile, FigureStore as _, SpanSums, Sums, Watch, span_of};
use belljar_objects::Digest;
use belljar_runs::{CreateRunError, QuotaError, RunQuota, Settings, SteerError, Wanted};
use belljar_store::{Quota, Store, WordNote};
use belljar_testkit::Postgres;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::api::Api;
use crate::offered;
use crate::world::{TEMPLATE, World};

/// The first turn waits until it is let go on.
const STEPS: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "while [ ! -e go ]; do sleep 0.02; done; seq 9000" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo two" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo three" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "done" } }]
"#;

fn kinds<'e>(events: &'e [Value], kind: &'e str) -> impl Iterator<Item = &'e Value> {
    events.iter().filter(move |event| event["kind"] == kind)
}

async fn let_go(api: &Api<'_>, run: &Value) {
    let sandbox = run["sandbox"].as_str().unwrap();
    let file = format!("/v1/sandboxes/{sandbox}/files/content?path=go");
    api.send("PUT", &file, "").await.json(200);
}

pub(crate) async fn a_run_holds_is_told_and_stepped(world: &World) {
    let model = world.scripts.add("stepped", STEPS).await;
    let (api, stranger) = (Api::new(world), Api::stranger(world));
    let id = api.ask("stepped").await;
    let path = format!("/v1/runs/{id}");
    let mut events = api.events(&id, "").await;
    events.until("tool_started").await;
    let points = json!({ "turns": true }).to_string();
    let put = api.send("PUT", &format!("{path}/breakpoints"), points.clone()).await.json(202);
    assert_eq!(put["breakpoints"], json!({ "turns": true, "calls": false }));
    let_go(&api, &put).await;
    assert_eq!(events.until("paused").await["hold"], json!({ "point": "turn", "turn": 2 }));

    // A message is recorded once, and said at the next turn.
    let text = json!({ "text": "Mind the gap." }).to_string();
    for _ in 0..2 {
        let key = [("idempotency-key", "told-1")];
        api.send_with("POST", &format!("{path}/tell"), &key, text.clone()).await.json(202);
    }
    api.send("POST", &format!("{path}/step"), "").await.json(202);
    assert_eq!(events.until("paused").await["hold"], json!({ "point": "turn", "turn": 3 }));
    let run = api.run(&id).await;
    assert_eq!((&run["state"], &run["used"]["turns"]), (&"paused".into(), &2.into()));
    let told = |body: &String| body.contains("Mind the gap.");
    let bodies: Vec<_> = model.record().all().into_iter().filter_map(|one| one.body).collect();
    assert_eq!(bodies.iter().map(told).collect::<Vec<_>>(), [false, true]);

    // Without breakpoints, a step still ends after its turn. Then the run goes on to its end.
    api.send("PUT", &format!("{path}/breakpoints"), "{}").await.json(202);
    api.send("POST", &format!("{path}/step"), "").await.json(202);
    assert_eq!(events.until("paused").await["hold"], json!({ "point": "turn", "turn": 4 }));
    api.send("POST", &format!("{path}/resume"), "").await.json(202);
    assert_eq!(events.until("finished").await["outcome"], "answered");
    let all = api.events(&id, "").await.rest().await;
    let tells = kinds(&all, "control_requested").filter(|event| event["request"] == "tell");
    assert_eq!(tells.count(), 1);

    // The whole output, and the prompts as they were.
    let done = kinds(&all, "tool_finished").next().unwrap();
    let call = done["call"]["id"].as_str().unwrap();
    assert!(done["shown"].as_str().unwrap().len() < 9000);
    let whole = api.get(&format!("{path}/turns/1/calls/{call}/output")).await;
    let text = String::from_utf8_lossy(&whole.body).into_owned();
    assert!(text.contains("\n4500\n") && text.contains("\n9000"), "{} bytes", text.len());
    for (turn, is_told) in [(1, false), (2, true)] {
        let prompt = api.get(&format!("{path}/turns/{turn}/prompt")).await.json(200);
        let built = kinds(&all, "prompt_built").find(|event| event["turn"] == turn).unwrap();
        assert_eq!(prompt["sha256"], built["sha256"]);
        assert_eq!(prompt.to_string().contains("Mind the gap."), is_told, "turn {turn}");
    }
    api.get(&format!("{path}/turns/9/prompt")).await.refused(404, "turn_not_found");
    api.get(&format!("{path}/turns/1/calls/none/output")).await.refused(404, "call_not_found");

    // Another tenant.
    for (method, verb, body) in [
        ("POST", "tell", json!({ "text": "x" }).to_string()),
        ("POST", "answer", json!({ "text": "x" }).to_string()),
        ("PUT", "breakpoints", points),
        ("POST", "step", String::new()),
        ("POST", "retry", String::new()),
    ] {
        let refused = stranger.send(method, &format!("{path}/{verb}"), body).await;
        refused.refused(404, "run_not_found");
    }
    for read in ["turns/1/prompt".to_owned(), format!("turns/1/calls/{call}/output")] {
        stranger.get(&format!("{path}/{read}")).await.refused(404, "run_not_found");
    }
    api.send("POST", &format!("{path}/step"), "").await.refused(409, "run_finished");
    api.send("POST", &format!("{path}/retry"), "").await.refused(409, "run_answered");
}

pub(crate) async fn a_human_answers_and_the_model_hears_it(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "ask_human", input = { question = "Which currency?" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "It is said: {{result}}" } }]
    "#;
    let model = world.scripts.add("asking", SCRIPT).await;
    let api = Api::new(world);
    let wish = json!({ "question": "How much?", "operation": "asking", "questions": true });
    let made = api.send("POST", "/v1/runs", wish.to_string()).await.json(201);
    let id = made["id"].as_str().unwrap();
    let path = format!("/v1/runs/{id}");
    let text = json!({ "text": "Euros." }).to_string();
    let mut events = api.events(id, "").await;
    assert_eq!(events.until("paused").await["hold"]["text"], "Which currency?");
    assert_eq!(api.run(id).await["question_asked"], "Which currency?");
    api.send("POST", &format!("{path}/resume"), "").await.refused(409, "run_waits_for_answer");
    api.send("POST", &format!("{path}/answer"), text.clone()).await.json(202);
    let end = events.until("finished").await;
    assert_eq!(end["result"], "It is said: Euros.", "{end}");
    api.send("POST", &format!("{path}/answer"), text.clone()).await.refused(409, "run_finished");
    let bodies: Vec<_> = model.record().all().into_iter().filter_map(|one| one.body).collect();
    assert!(bodies[0].contains("ask_human") && bodies[1].contains("Euros."));

    // The control: whose maker answers no questions, that one's model is offered no such tool.
    let other = world.scripts.add("unasking", STEPS).await;
    let id = api.ask("unasking").await;
    let mut events = api.events(&id, "").await;
    events.until("tool_started").await;
    let path = format!("/v1/runs/{id}");
    api.send("POST", &format!("{path}/answer"), text).await.refused(409, "no_question");
    let run = api.send("POST", &format!("{path}/cancel"), "").await.json(202);
    let_go(&api, &run).await;
    events.until("finished").await;
    let bodies: Vec<_> = other.record().all().into_iter().filter_map(|one| one.body).collect();
    assert!(!bodies[0].contains("ask_human"));
}

pub(crate) async fn a_run_that_was_short_is_retried_with_more(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "shell", input = { command = "echo one" } }]
        [[turn]]
        call = [{ tool = "shell", input = { command = "echo two" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "Two steps." } }]
    "#;
    let _model = world.scripts.add("short", SCRIPT).await;
    let api = Api::new(world);
    let wish = json!({
        "question": "How many?", "operation": "short", "budget": { "turns": 1, "tokens": 1_000_000 },
    });
    let made = api.send("POST", "/v1/runs", wish.to_string()).await.json(201);
    let id = made["id"].as_str().unwrap();
    assert_eq!(api.events(id, "").await.rest().await.last().unwrap()["outcome"], "exhausted");
    let path = format!("/v1/runs/{id}/retry");
    let too_much = json!({ "memory_bytes": 1_u64 << 50 }).to_string();
    api.send("POST", &path, too_much).await.refused(422, "limit_out_of_range");
    let larger = json!({ "budget": { "turns": 9 }, "memory_bytes": 768_u64 << 20 }).to_string();
    let next = api.send("POST", &path, larger.clone()).await.json(201);
    assert_eq!((&next["retry_of"], &next["budget"]["turns"]), (&id.into(), &9.into()));
    assert!(next["budget"]["tokens"].as_u64().unwrap() < 1_000_000, "{next}");
    // Again, it is the same one; with another allocation, it is refused.
    let again = api.send("POST", &path, larger).await.json(201);
    assert_eq!(again["id"], next["id"]);
    let other = json!({ "budget": { "turns": 10 } }).to_string();
    api.send("POST", &path, other).await.refused(409, "run_retried");
    let next = next["id"].as_str().unwrap();
    let events = api.events(next, "").await.rest().await;
    assert_eq!(events.last().unwrap()["result"], "Two steps.");
    assert_eq!(api.run(next).await["limits"]["memory_bytes"], 768_u64 << 20);
}

pub(crate) async fn words_come_before_the_answer(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        say = "The answer is forty-two, as everybody knows by now."
        pieces = 10
        gap-ms = 60
        delay-ms = 1000
    "#;
    let _model = world.scripts.add("spoken", SCRIPT).await;
    let api = Api::new(world);
    let id = api.ask("spoken").await;
    let mut events = api.events(&id, "?deltas=true").await;
    let mut words = String::new();
    let mut count = 0;
    loop {
        let event = events.next().await.unwrap();
        match event["kind"].as_str().unwrap() {
            "delta" => {
                assert_eq!(event["from"], words.chars().count());
                words.push_str(event["text"].as_str().unwrap());
                count += 1;
            }
            "llm_responded" => break,
            _ => {}
        }
    }
    assert_eq!(words, "The answer is forty-two, as everybody knows by now.");
    assert!(count > 1, "all at once");
    // Nothing of that is stored, and without asking for it, it does not come.
    let all = api.events(&id, "").await.rest().await;
    assert_eq!(kinds(&all, "delta").count(), 0);
}

pub(crate) async fn quotas_refuse_what_is_above_them_alone(world: &World) {
    let _model = world.scripts.add("quota", STEPS).await;
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let journal = Arc::new(Directory::open(&place.path().join("runs")).unwrap());
    let figures = Arc::new(FigureFile::open(&place.path().join("figures.json")));
    let quota = RunQuota { runs: 2, nano_dollars_per_day: Some(1_000_000_000) };
    let settings = Settings { template: TEMPLATE.into(), at_once: 0, ..Settings::default() };
    let inside = world.served.inside("one");
    let scripts = world.scripts.clone();
    let runs = offered::runs_within(
        quota,
        &inside,
        journal.clone(),
        figures.clone(),
        place.path(),
        scripts,
        settings,
    );
    let wanted = |key: &str| Wanted {
        question: "How much is it?".parse().unwrap(),
        data: vec![],
        template: None,
        operation: Some("quota".into()),
        model: None,
        budget: Budget { nano_dollars: Some(400_000_000), ..Budget::default() },
        environment: Environment::default(),
        now: None,
        questions: false,
        traceparent: None,
        network: NetworkAccess::default(),
        caps: belljar_domain::OperationCaps::default(),
        brief: belljar_runs::WantedBrief::default(),
        key: Some((key.to_owned(), Digest::of(key.as_bytes()))),
    };
    runs.create("one", wanted("a")).await.unwrap();
    let second = runs.create("one", wanted("b")).await.unwrap();
    let refused = runs.create("one", wanted("c")).await.unwrap_err();
    let is_runs = |error: &CreateRunError| {
        matches!(error, CreateRunError::Quota(QuotaError::Runs { quota: 2, unfinished: 2 }))
    };
    assert!(is_runs(&refused), "{refused}");
    // One that is there already is no new one, and another tenant has a quota of its own.
    assert!(runs.create("one", wanted("b")).await.unwrap().is_repeated);
    runs.create("two", wanted("c")).await.unwrap();

    // The rest of the day's money bounds a run; without a rest there is no run.
    let spend = async |tenant: &str, nano_dollars: u64| {
        let sums = Sums::from([("nano_dollars".to_owned(), nano_dollars)]);
        let from = span_of(OffsetDateTime::now_utc());
        let spans = [SpanSums { tenant: tenant.to_owned(), from, sums }];
        figures.put("tester", &spans).await.unwrap();
    };
    spend("three", 999_999_000).await;
    let run = runs.create("three", wanted("d")).await.unwrap().run;
    let events = belljar_journal::read_all(&*journal, &run).await.unwrap();
    let view = belljar_journal::RunView::of(&events);
    assert_eq!(view.budget.nano_dollars, Some(1000));
    // An unfinished run keeps what it may still spend, and gets no more than the day has.
    let is_dollars =
        |error: &CreateRunError| matches!(error, CreateRunError::Quota(QuotaError::Dollars { .. }));
    let refused = runs.create("three", wanted("e")).await.unwrap_err();
    assert!(is_dollars(&refused), "{refused}");
    let change = BudgetPatch(Budget { nano_dollars: Some(1001), ..Budget::default() });
    let caps = belljar_domain::OperationCaps::default();
    let more = runs.steer(&run, Request::Budget { change }, "three", &caps, None).await;
    assert!(matches!(more, Err(SteerError::Quota(QuotaError::Budget(_)))), "{more:?}");
    spend("three", 1_000_000_000).await;
    let refused = runs.create("three", wanted("e")).await.unwrap_err();
    assert!(is_dollars(&refused), "{refused}");
    assert!(refused.to_string().contains("max_run_dollars_per_day"), "{refused}");
    // Rules cost nothing.
    let free = Wanted { operation: None, ..wanted("f") };
    runs.create("three", free).await.unwrap();
    drop(second);
}

/// One replica takes the requests, another one works. What is asked for before there is a worker
/// is not lost.
pub(crate) async fn another_replica_is_steered_through_the_database(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "shell", input = { command = "echo one" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "done" } }]
    "#;
    let model = world.scripts.add("steered-platform", SCRIPT).await;
    let store = Store::connect(&Postgres::shared().schema(), 8).await.unwrap();
    store.migrate().await.unwrap();
    let quota = Quota { sandboxes: 10, longest_life: Duration::from_secs(3600) };
    store.put_tenant("one", None, quota).await.unwrap();
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let replica = |owner: &str, at_once: usize| {
        let settings = Settings {
            owner: owner.to_owned(),
            template: TEMPLATE.into(),
            at_once,
            ..Settings::default()
        };
        let (inside, scripts) = (world.served.inside("one"), world.scripts.clone());
        let (journal, figures) = (Arc::new(store.runs()), Arc::new(store.figures()));
        offered::runs(&inside, journal, figures, place.path(), scripts, settings)
    };
    let (asked, working) = (replica("asked", 0), replica("working", 2));
    let wanted = Wanted {
        question: "How much is it?".parse().unwrap(),
        data: vec![],
        template: None,
        operation: Some("steered-platform".into()),
        model: None,
        budget: Budget::default(),
        environment: Environment::default(),
        now: None,
        questions: false,
        traceparent: None,
        network: NetworkAccess::default(),
        caps: belljar_domain::OperationCaps::default(),
        brief: belljar_runs::WantedBrief::default(),
        key: None,
    };
    let run = asked.create("one", wanted).await.unwrap().run;
    let breakpoints = Breakpoints { turns: true, calls: false };
    let caps = belljar_domain::OperationCaps::default();
    let points = Request::Breakpoints { breakpoints };
    asked.steer(&run, points, "one", &caps, None).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = working.clone();
    let work = tokio::spawn(async move { worker.work(async { drop(stopped.await) }).await });
    let mut watch = Watch::new(asked.journal().clone(), run.clone(), Sequence(1));
    let mut turns = Vec::new();
    while let Some(event) = watch.next().await.unwrap() {
        let Body::Paused(Paused { at: Some(PausePoint::Turn { turn }), .. }) = event.body else {
            continue;
        };
        turns.push(turn);
        if turn == 2 {
            let text = "Mind the gap.".to_owned();
            asked.steer(&run, Request::Tell { text }, "one", &caps, Some("t")).await.unwrap();
        }
        asked.steer(&run, Request::Step, "one", &caps, None).await.unwrap();
    }
    assert_eq!(turns, [1, 2]);
    let bodies: Vec<_> = model.record().all().into_iter().filter_map(|one| one.body).collect();
    let told = |body: &String| body.contains("Mind the gap.");
    assert_eq!(bodies.iter().map(told).collect::<Vec<_>>(), [false, true]);
    drop(stop);
    work.await.unwrap();
}

/// A note of one replica is heard by another one, and by no run that it is not about.
pub(crate) async fn words_go_from_replica_to_replica(_: &World) {
    let store = Store::connect(&Postgres::shared().schema(), 4).await.unwrap();
    let note = WordNote {
        origin: format!("replica-{}", std::process::id()),
        tenant: "one".into(),
        run: belljar_domain::RunId::from_bits([7; 16]),
        said: Some((1, 0, "forty-two".into())),
    };
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let listening = store.clone();
    let ear = tokio::spawn(async move {
        // Notes of other schemas of this database come, too.
        listening.hear_words(|note| drop(heard.send(note))).await
    });
    let seen = loop {
        store.notify_words(&note).await.unwrap();
        let next = tokio::time::timeout(Duration::from_millis(100), hears.recv()).await;
        match next {
            Ok(Some(next)) if next.origin == note.origin => break next,
            Ok(None) => panic!("{:?}", ear.await),
            _ => {}
        }
    };
    assert_eq!(seen, note);
    ear.abort();
}
