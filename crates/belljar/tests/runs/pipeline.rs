//! Runs of Planner, Coder, Executor and Debugger.
//!
//! Requirements: A10, A13

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use belljar_agent::{Left, Texts};
use belljar_api::checkpoint::ListCheckpoints;
use belljar_api::sandbox::{CreateSandbox, ListSandboxes};
use belljar_journal::event::{
    Body, Brief, ControlRequested, Event, Outcome, Request, RunCreated, Wish,
};
use belljar_journal::{Address, Directory, Journal, NewEvent, essence, read_all};
use belljar_pipeline::AgentKind;
use belljar_scripted::{Model, Options, Script};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::api::Api;
use crate::ask::{belljar, newest};
use crate::crash::WORKER;
use crate::hooked::{Hook, Hooked};
use crate::world::{self, TEMPLATE, World, finished, turns};

const STATISTICS: &str =
    "Write a Python script that computes the mean and median of a list of numbers";

fn artifact(code: &str, more: &Value) -> Value {
    let mut artifact =
        json!({ "filename": "main.py", "code": code, "run_command": "python main.py" });
    artifact.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    artifact
}

/// A script in which the Coder hands in the first program, and the Debugger the others.
fn script(programs: &[Value]) -> String {
    let scene = |when: &str, tool: &str, input: Value| json!({ "when": when, "turn": [{ "call": [{ "tool": tool, "input": input }] }] });
    let plan = json!({ "language": "python", "task": "some numbers", "output": "text" });
    let diagnosis = |artifact: &Value| json!({ "category": "exception", "cause": "It is wrong.", "artifact": artifact });
    let mut scenes = vec![
        scene("submit_plan", "submit_plan", plan),
        scene("submit_code", "submit_code", programs[0].clone()),
    ];
    if let Some(third) = programs.get(2) {
        scenes.push(scene("earlier attempts", "submit_diagnosis", diagnosis(third)));
    }
    if let Some(second) = programs.get(1) {
        scenes.push(scene("submit_diagnosis", "submit_diagnosis", diagnosis(second)));
    }
    toml::to_string(&json!({ "scene": scenes })).unwrap()
}

fn kinds<'e>(events: &'e [Value], kind: &'e str) -> impl Iterator<Item = &'e Value> {
    events.iter().filter(move |event| event["kind"] == kind)
}

fn messages<'e>(events: &'e [Value], of: &'e str) -> Vec<&'e Value> {
    let messages = kinds(events, "stage_message").map(|event| &event["message"]);
    messages.filter(move |message| message["type"] == of).collect()
}

async fn worked(api: &Api<'_>, wish: &Value) -> (Value, Vec<Value>) {
    let made = api.send("POST", "/v1/runs", wish.to_string()).await.json(201);
    let id = made["id"].as_str().unwrap();
    let events = api.events(id, "").await.rest().await;
    (api.run(id).await, events)
}

pub(crate) async fn a_pipeline_heals_five_failures(world: &World) {
    let none = json!({});
    let cases = [
        (
            "missing_module",
            artifact("import wordy\nprint(wordy.x)", &none),
            artifact(
                "import wordy\nprint(wordy.x)",
                &json!({ "install_command": "printf 'x = 42\\n' > wordy.py" }),
            ),
        ),
        ("syntax", artifact("print(42", &none), artifact("print(42)", &none)),
        (
            "missing_key",
            artifact("import pandas as pd\nprint(pd.DataFrame({'a': [42]})['b'].sum())", &none),
            artifact("import pandas as pd\nprint(pd.DataFrame({'a': [42]})['a'].sum())", &none),
        ),
        (
            "timeout",
            artifact("import time\ntime.sleep(600)", &json!({ "run_seconds": 1 })),
            artifact("print(42)", &none),
        ),
        ("memory", artifact("print(len(b'x' * (64 << 30)))", &none), artifact("print(42)", &none)),
    ];
    let api = Api::new(world);
    for (category, broken, whole) in cases {
        let _model = world.scripts.add(category, &script(&[broken, whole])).await;
        let wish = json!({ "question": "What is it?", "agent": "pipeline", "operation": category });
        let (run, events) = worked(&api, &wish).await;
        assert_eq!(run["end"]["outcome"], "answered", "{category}: {}", run["end"]);
        assert_eq!(run["end"]["result"].as_str().unwrap().trim(), "42", "{category}");
        assert_eq!(run["agent"], "pipeline");
        let executions = messages(&events, "execution");
        assert_eq!(executions[0]["category"], category, "{}", executions[0]);
        assert_eq!(executions.len(), 2, "{category}");
        assert_ne!(executions[0]["fingerprint"], executions[1]["fingerprint"]);
        // Each program had a sandbox of its own.
        let started: Vec<_> = kinds(&events, "tool_started")
            .filter(|event| event["call"]["id"] == "belljar:run")
            .map(|event| &event["sandbox"])
            .collect();
        assert_eq!(started.len(), 2, "{category}");
        assert_ne!(started[0], started[1], "{category}");
        let prepared = if category == "missing_module" { "checkpoint" } else { "template" };
        assert_eq!(executions[1]["sandbox"], prepared, "{}", executions[1]);
        let files: Vec<_> = run["files"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert!(files.contains(&&json!("main.py")), "{files:?}");
    }
}

pub(crate) async fn a_hopeless_task_ends_with_a_question(world: &World) {
    let broken = |number: u32| artifact(&format!("raise ValueError({number})"), &json!({}));
    let programs = [broken(1), broken(2), broken(3)];
    let model = world.scripts.add("hopeless", &script(&programs)).await;
    let api = Api::new(world);
    let wish = json!({ "question": "What is the secret word?", "agent": "pipeline",
        "operation": "hopeless" });
    let made = api.send("POST", "/v1/runs", wish.to_string()).await.json(201);
    let id = made["id"].as_str().unwrap();
    let mut events = api.events(id, "").await;
    let asked = events.until("paused").await["hold"]["text"].as_str().unwrap().to_owned();
    assert!(asked.starts_with("All 3 attempts failed."), "{asked}");
    assert!(asked.contains("3. type: ValueError: 3"), "{asked}");
    let path = format!("/v1/runs/{id}/answer");
    // A hint begins anew. The same programs are no attempts, so the human is asked again.
    let hint = json!({ "text": "Try a number." }).to_string();
    api.send("POST", &path, hint).await.json(202);
    let asked = events.until("paused").await["hold"]["text"].as_str().unwrap().to_owned();
    assert!(asked.contains("the coder gave no usable answer"), "{asked}");
    api.send("POST", &path, json!({ "text": "give up" }).to_string()).await.json(202);
    let end = events.until("finished").await;
    assert_eq!((&end["outcome"], &end["error"]), (&json!("failed"), &json!("no_result")));

    let all = api.events(id, "").await.rest().await;
    assert_eq!(messages(&all, "execution").len(), 3);
    assert_eq!(messages(&all, "question").len(), 2);
    // The Planner alone was told the sentence, and heard the hint.
    for body in model.record().all().into_iter().filter_map(|one| one.body) {
        let is_planner = body.contains("submit_plan");
        assert_eq!(body.contains("secret word"), is_planner, "{body}");
    }
    let faults = kinds(&all, "tool_finished").filter(|it| it["fault"]["category"] == "same_code");
    assert_eq!(faults.count(), 3);
}

pub(crate) async fn rules_and_artifacts_need_no_model(world: &World) {
    let api = Api::new(world);
    let (run, events) = worked(&api, &json!({ "question": STATISTICS, "agent": "pipeline" })).await;
    let result = run["end"]["result"].as_str().unwrap();
    assert!(result.starts_with("Mean   : 14.80\nMedian : 13.00\n"), "{result}");
    assert_eq!(
        messages(&events, "plan")[0]["task"],
        "compute mean and median of a list of numbers"
    );

    let alone = json!({ "question": "Execute it", "agent": "executor",
        "artifact": artifact("print(6 * 7)", &json!({ "install_command": "true" })) });
    let (run, events) = worked(&api, &alone).await;
    let result: Value = serde_json::from_str(run["end"]["result"].as_str().unwrap()).unwrap();
    assert_eq!((&result["success"], &result["exit_code"]), (&json!(true), &json!(0)));
    assert_eq!(kinds(&events, "llm_requested").count(), 0);

    for (wish, status, code) in [
        (json!({ "question": "?", "agent": "deep" }), 422, "agent_unknown"),
        (json!({ "question": "?", "agent": "executor" }), 422, "invalid"),
        (json!({ "question": "?", "artifact": alone["artifact"] }), 422, "invalid"),
        (json!({ "question": "?", "models": { "coder": ["m"] } }), 422, "invalid"),
        (
            json!({ "question": "?", "agent": "executor",
                "artifact": { "filename": "../x", "code": "1", "run_command": "true" } }),
            422,
            "invalid",
        ),
    ] {
        api.send("POST", "/v1/runs", wish.to_string()).await.refused(status, code);
    }
}

pub(crate) async fn the_command_line_has_pipelines(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let ask = ["ask", "--agent", "pipeline", STATISTICS, "--template", TEMPLATE, "--out", "out"];
    let asked = belljar(place, &ask).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    assert!(asked.stdout.contains("Mean   : 14.80"), "{}", asked.stdout);
    assert!(asked.stderr.contains("[Executor] [Attempt 1/3] done"), "{}", asked.stderr);
    let program = std::fs::read_to_string(place.join("out/main.py")).unwrap();
    assert!(program.starts_with("import statistics\n"), "{program}");
    let run = newest(place).await;
    let shown = belljar(place, &["runs", "show", &run]).await;
    assert!(shown.stdout.contains("[Planner] compute mean and median"), "{}", shown.stdout);

    std::fs::write(place.join("a.json"), artifact("print(6 * 7)", &json!({})).to_string()).unwrap();
    let exec = ["pipeline", "exec", "a.json", "--template", TEMPLATE, "-q"];
    let executed = belljar(place, &exec).await;
    assert_eq!(executed.status, Some(0), "{}{}", executed.stdout, executed.stderr);
    let result: Value = serde_json::from_str(&executed.stdout).unwrap();
    assert_eq!(result["output"].as_str().unwrap().trim(), "42");
    std::fs::write(place.join("a.json"), artifact("1 / 0", &json!({})).to_string()).unwrap();
    let executed = belljar(place, &exec).await;
    assert_eq!(executed.status, Some(5), "{}{}", executed.stdout, executed.stderr);
    std::fs::write(place.join("a.json"), "{\"code\": 1}").unwrap();
    let refused = belljar(place, &exec).await;
    assert_eq!(refused.status, Some(125), "{}", refused.stderr);
    assert!(refused.stderr.contains("docs/pipeline.md"), "{}", refused.stderr);
    let unknown = belljar(place, &["ask", "--agent", "deep", "?"]).await;
    assert_eq!(unknown.status, Some(2), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("there are react, pipeline, executor"), "{}", unknown.stderr);
}

/// Kills the worker at every event of a pipeline that installs, fails, is debugged and works.
pub(crate) async fn a_pipeline_survives_a_kill_at_every_event(world: &World) {
    const COUNT: &str =
        "open('ran', 'a').write('x')\nprint(open('ran').read(), open('installed').read())";
    let install = json!({ "install_command": "printf i >> installed" });
    let broken = artifact(&format!("{COUNT}\nraise ValueError(1)"), &install);
    let programs = [broken, artifact(COUNT, &install)];
    let script = Script::parse(&script(&programs)).unwrap();
    let model = Model::start(Options { script, ..Options::default() }).await.unwrap();
    let undisturbed = played(world, &model, 0, "after").await;
    assert_eq!(finished(&undisturbed).result.as_deref().map(str::trim), Some("x i"));
    let expected = plain(&undisturbed);
    let own = u32::try_from(undisturbed.len()).unwrap() - 2;
    let points = (1..=own).flat_map(|number| [(number, "before"), (number, "after")]);
    let points = points.filter(|point| *point != (own, "after"));
    let (model, expected) = (&model, &expected);
    let all = futures_util::stream::iter(points).map(|(number, when)| async move {
        let events = played(world, model, number, when).await;
        assert_eq!(plain(&events), *expected, "killed {when} event {number}");
    });
    let done = all.buffer_unordered(4).count().await;
    println!("  killed {done} times over {own} events");
}

/// Cancels a run just before its last event is written, and counts its checkpoints each time.
#[derive(Debug)]
struct LateCancel {
    server: SocketAddr,
    checkpoints: Arc<Mutex<Vec<usize>>>,
}

impl Hook for LateCancel {
    fn before<'a>(
        &'a self,
        journal: &'a Directory,
        run: &'a Address,
        event: &'a NewEvent,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !matches!(event.body, Body::Finished(_)) {
                return;
            }
            let count = checkpoints(self.server, run).await.len();
            let is_first = {
                let mut counts = self.checkpoints.lock().unwrap();
                counts.push(count);
                counts.len() == 1
            };
            if is_first {
                let request = ControlRequested { request: Request::Cancel, by: "test".into() };
                journal.request(run, request, None).await.unwrap();
            }
        })
    }
}

/// A request that comes just before the last event makes the run go on: it still has its
/// checkpoint then.
pub(crate) async fn a_pipeline_has_its_checkpoint_until_its_last_event(world: &World) {
    let install = json!({ "install_command": "printf i >> installed" });
    let script = Script::parse(&script(&[artifact("print(42)", &install)])).unwrap();
    let model = Model::start(Options { script, ..Options::default() }).await.unwrap();
    let directory = tempfile::tempdir_in(world.directory.path()).unwrap();
    let (server, shelf) = (world.served.address, directory.path().join("shelf"));
    let counts = Arc::new(Mutex::new(Vec::new()));
    let hook = LateCancel { server, checkpoints: counts.clone() };
    let inner = Directory::open(directory.path()).unwrap();
    let journal: Arc<dyn Journal> = Arc::new(Hooked { inner, hook });
    let address = world::begin(&*journal, created()).await;
    let worker = world::worker(journal.clone(), server, model.address(), &shelf);
    assert_eq!(worker.work(&address).await.unwrap(), Left::Finished);
    let events = read_all(&*journal, &address).await.unwrap();
    assert_eq!(finished(&events).outcome, Outcome::Cancelled, "{events:?}");
    assert_eq!(*counts.lock().unwrap(), [1, 1]);
    assert_eq!(checkpoints(server, &address).await, [] as [String; 0]);
}

/// Makes a sandbox with the metadata of the run's next fork that is none.
#[derive(Debug)]
struct Lookalike(SocketAddr);

impl Hook for Lookalike {
    fn before<'a>(
        &'a self,
        _: &'a Directory,
        run: &'a Address,
        event: &'a NewEvent,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if matches!(event.body, Body::SnapshotTaken(_)) {
                let mut wish = CreateSandbox::of(TEMPLATE.to_owned().try_into().unwrap());
                wish.metadata.insert("run".to_owned(), run.run.to_string());
                wish.metadata.insert("run-sandbox".to_owned(), "2".to_owned());
                world::client(self.0).create(&wish, None).await.unwrap();
            }
        })
    }
}

/// The program runs where its packages are, also if another sandbox has the metadata of a fork.
pub(crate) async fn a_fork_is_found_by_its_checkpoint(world: &World) {
    let install = json!({ "install_command": "printf i >> installed" });
    let program = artifact("print(open('installed').read())", &install);
    let script = Script::parse(&script(&[program])).unwrap();
    let model = Model::start(Options { script, ..Options::default() }).await.unwrap();
    let directory = tempfile::tempdir_in(world.directory.path()).unwrap();
    let (server, shelf) = (world.served.address, directory.path().join("shelf"));
    let inner = Directory::open(directory.path()).unwrap();
    let journal: Arc<dyn Journal> = Arc::new(Hooked { inner, hook: Lookalike(server) });
    let address = world::begin(&*journal, created()).await;
    let worker = world::worker(journal.clone(), server, model.address(), &shelf);
    assert_eq!(worker.work(&address).await.unwrap(), Left::Finished);
    let events = read_all(&*journal, &address).await.unwrap();
    assert_eq!(finished(&events).result.as_deref().map(str::trim), Some("i"), "{events:?}");
    assert_eq!(sandboxes(world, &address).await, [] as [String; 0]);
}

fn created() -> RunCreated {
    let wish: Wish = serde_json::from_value(json!({ "template": TEMPLATE })).unwrap();
    let brief = Brief { agent: AgentKind::Pipeline, ..Brief::default() };
    RunCreated {
        prompt: Texts::newest_of(AgentKind::Pipeline, &wish.network).prompt(),
        wish: Some(Wish { brief: Box::new(brief), ..wish }),
        ..world::question(turns(12))
    }
}

/// A run whose worker is killed at one event, or never.
async fn played(world: &World, model: &Model, number: u32, when: &str) -> Vec<Event> {
    let directory = tempfile::tempdir_in(world.directory.path()).unwrap();
    let journal = Directory::open(directory.path()).unwrap();
    let address = world::begin(&journal, created()).await;
    let first = work(world, model, directory.path(), &address, (number, when)).await;
    if number > 0 {
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(first.signal(), Some(9), "event {number} {when}: {first}");
        let made = sandboxes(world, &address).await;
        let second = work(world, model, directory.path(), &address, (0, "after")).await;
        assert!(second.success(), "event {number} {when}: {second}");
        // A sandbox whose event was lost is used, and not made again.
        let events = read_all(&journal, &address).await.unwrap();
        let used: Vec<&str> = events
            .iter()
            .filter_map(|event| match &event.body {
                Body::SandboxAttached(attached) => Some(attached.sandbox.as_str()),
                _ => None,
            })
            .collect();
        assert!(
            made.iter().all(|id| used.contains(&id.as_str())),
            "event {number} {when}: {made:?}, {used:?}"
        );
    } else {
        assert!(first.success(), "{first}");
    }
    assert_eq!(sandboxes(world, &address).await, [] as [String; 0], "event {number} {when}");
    let left = checkpoints(world.served.address, &address).await;
    assert_eq!(left, [] as [String; 0], "event {number} {when}");
    read_all(&journal, &address).await.unwrap()
}

/// The ids of a run's checkpoints that there are now.
async fn checkpoints(server: SocketAddr, run: &Address) -> Vec<String> {
    let name = Some(format!("run-{}", run.run));
    let query = ListCheckpoints { name, ..ListCheckpoints::default() };
    let page = world::client(server).checkpoints(&query).await.unwrap();
    page.items.into_iter().map(|checkpoint| checkpoint.id).collect()
}

/// The ids of a run's sandboxes that there are now.
async fn sandboxes(world: &World, address: &Address) -> Vec<String> {
    let metadata = Some(json!({ "run": address.run.as_str() }).to_string());
    let query = ListSandboxes { metadata, ..ListSandboxes::default() };
    let page = world::client(world.served.address).sandboxes(&query).await.unwrap();
    page.items.into_iter().map(|sandbox| sandbox.id).collect()
}

async fn work(
    world: &World,
    model: &Model,
    directory: &Path,
    address: &Address,
    (number, when): (u32, &str),
) -> std::process::ExitStatus {
    let mut command = tokio::process::Command::new("/proc/self/exe");
    command.arg(WORKER).arg(directory).arg(address.run.as_str());
    command.arg(world.served.address.to_string()).arg(model.address().to_string());
    command.arg(number.to_string()).arg(when).stdin(Stdio::null()).kill_on_drop(true);
    command.status().await.unwrap()
}

/// The essence, without what is made anew for every run or depends on who worked.
fn plain(events: &[Event]) -> Vec<Value> {
    let mut all = essence(events);
    for event in &mut all {
        let fields = event.as_object_mut().unwrap();
        for made_up in ["sandbox", "exec", "upstream_request", "snapshot", "after", "restored"] {
            fields.remove(made_up);
        }
    }
    all
}
