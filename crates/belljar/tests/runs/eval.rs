//! `belljar eval`: the grid, its scores, and what is left when it stops.
//!
//! Requirements: A1, O4

use std::path::Path;

use belljar_scripted::{Model, Options, Script};
use belljar_testkit::Served;
use serde_json::{Value, json};

use crate::ask::{Asked, belljar, scripted};
use crate::world::{MODEL, TEMPLATE, World};

/// A grid of fixed rules: three right, one wrong, one checker that crashes, one that loops.
const RULES: &str = r#"
    name = "rules"
    [defaults]
    template = "python-data"
    [[task]]
    id = "contains"
    question = "Which region has the highest amount?"
    data = ["sales.csv"]
    expect.contains = "`north` has the highest sum: 30"
    [[task]]
    id = "wrong"
    question = "Which region has the highest amount?"
    data = ["sales.csv"]
    expect.exact = "south"
    [[task]]
    id = "checked"
    question = "Which region has the highest amount?"
    data = ["sales.csv"]
    expect.checker = { file = "checker.py" }
    run = { pass = 0.5 }
    [[task]]
    id = "crashes"
    question = "Which region has the highest amount?"
    data = ["sales.csv"]
    expect.checker = { file = "crashes.py" }
    [[task]]
    id = "loops"
    question = "Which region has the highest amount?"
    data = ["sales.csv"]
    expect.checker = { file = "loops.py", time = "3s" }
"#;

/// Reads the answer and the file with it, and finds no network.
const CHECKER: &str = r#"
import socket

def check(answer, files):
    assert "result.md" in files, files
    assert "north" in open(files["result.md"]).read()
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=2)
        return 0, "there is a network"
    except OSError:
        pass
    return 0.75, "three parts of four"
"#;

fn write(place: &Path, name: &str, text: &str) {
    std::fs::write(place.join(name), text).unwrap();
}

fn write_rules(place: &Path) {
    write(place, "sales.csv", "region,amount\nnorth,10\nnorth,20\nsouth,5\n");
    write(place, "tasks.toml", RULES);
    write(place, "checker.py", CHECKER);
    write(place, "crashes.py", "def check(answer, files):\n    raise ValueError('a slip')\n");
    write(place, "loops.py", "def check(answer, files):\n    while True:\n        pass\n");
}

fn report(place: &Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(place.join(name)).unwrap()).unwrap()
}

fn trial<'r>(report: &'r Value, task: &str) -> &'r Value {
    let trials = report["trials"].as_array().unwrap();
    trials.iter().find(|trial| trial["task"] == task).unwrap_or_else(|| panic!("{task}: {report}"))
}

#[track_caller]
fn ended(asked: &Asked, status: i32) {
    assert_eq!(asked.status, Some(status), "{}\n{}", asked.stdout, asked.stderr);
}

/// Each way to a score, and a checker that crashes or loops: its trial has no score.
pub(crate) async fn a_grid_is_scored_resumed_and_replayed(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    write_rules(place);
    let line = ["eval", "tasks.toml", "--json", "one.json", "--html", "one.html"];
    let first = belljar(place, &line).await;
    ended(&first, 7);
    let one = report(place, "one.json");
    let scores = |report: &Value, task: &str| {
        let trial = trial(report, task);
        (trial["score"].as_f64(), trial["passed"].as_bool().unwrap())
    };
    assert_eq!(scores(&one, "contains"), (Some(1.0), true));
    assert_eq!(scores(&one, "wrong"), (Some(0.0), false));
    assert_eq!(scores(&one, "checked"), (Some(0.75), true));
    assert_eq!(trial(&one, "checked")["reason"], "three parts of four");
    for (task, words) in [("crashes", "a slip"), ("loops", "time")] {
        assert_eq!(scores(&one, task), (None, false));
        let reason = trial(&one, task)["reason"].as_str().unwrap();
        assert!(reason.contains(words), "{task}: {reason}");
    }
    assert!(first.stdout.contains("heuristic") && first.stdout.contains("2/3"), "{}", first.stdout);
    assert!(first.stdout.contains("2 unscored"), "{}", first.stdout);
    assert!(std::fs::read_to_string(place.join("one.html")).unwrap().contains("<table>"));

    // Each trial is a run of this machine.
    let run = trial(&one, "contains")["run"].as_str().unwrap().to_owned();
    let shown = belljar(place, &["runs", "show", &run]).await;
    assert!(shown.stdout.contains("highest amount"), "{}", shown.stdout);

    // The file is there: nothing is paid for twice by mistake.
    let again = belljar(place, &["eval", "tasks.toml"]).await;
    assert!(again.status == Some(1) && again.stderr.contains("--resume"), "{}", again.stderr);
    // Resumed, with checkers that are repaired: the tasks are the same, and so are the runs.
    let repaired = "def check(answer, files):\n    return 1\n";
    write(place, "crashes.py", repaired);
    write(place, "loops.py", repaired);
    let resumed = belljar(place, &["eval", "tasks.toml", "--resume", "--json", "two.json"]).await;
    ended(&resumed, 0);
    let two = report(place, "two.json");
    for task in ["contains", "wrong", "checked", "crashes", "loops"] {
        assert_eq!(trial(&two, task)["run"], trial(&one, task)["run"], "{task}");
    }
    assert_eq!(scores(&two, "loops"), (Some(1.0), true));

    // Replayed: other runs, the same scores. A line that was cut off does no harm.
    let path = place.join("tasks.eval.jsonl");
    let kept = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{kept}{{\"begun\": {{\"ce")).unwrap();
    let line = ["eval", "tasks.toml", "--replay", "--json", "three.json", "--min-score", "0.9"];
    let replayed = belljar(place, &line).await;
    ended(&replayed, 6);
    let three = report(place, "three.json");
    for task in ["contains", "wrong", "checked", "crashes", "loops"] {
        assert_eq!(scores(&three, task), scores(&two, task), "{task}");
        assert_ne!(trial(&three, task)["run"], trial(&two, task)["run"], "{task}");
    }
    let changed = RULES.replace("Which region has the highest", "Which region has the lowest");
    write(place, "tasks.toml", &changed);
    let refused = belljar(place, &["eval", "tasks.toml", "--resume"]).await;
    assert!(refused.stderr.contains("have changed"), "{}", refused.stderr);
}

/// Two judges, one of which gives no verdict, and a model that always fails.
pub(crate) async fn judges_are_checked_and_failures_counted(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let answers = scripted(
        r#"
        [[scene]]
        when = "Score an answer."
        [[scene.turn]]
        call = [{ tool = "finish", input = { answer = "{\"score\": 0.5, \"reason\": \"half\"}" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "It is 42." } }]
        "#,
    )
    .await;
    let nonsense = scripted(
        r#"
        [[turn]]
        call = [{ tool = "finish", input = { answer = "Well done!" } }]
        "#,
    )
    .await;
    let failing = scripted("[[turn]]\nfault = { kind = \"status\", status = 400 }").await;
    let models = [("good", &answers), ("vague", &nonsense), ("broken", &failing)];
    write_gateway(place, &models);
    let tasks = format!(
        r#"
        [defaults]
        template = "{TEMPLATE}"
        turns = 4
        budget_usd = "0.20"
        [[task]]
        id = "judged"
        question = "How much is it?"
        expect.judge = {{ model = "good={MODEL}", rubric = "1 if it is 42.", budget_usd = "0.05" }}
        [[task]]
        id = "unjudged"
        question = "How much is it?"
        expect.judge = {{ model = "vague={MODEL}", rubric = "1 if it is 42.", budget_usd = "0.05" }}
        [[task]]
        id = "number"
        question = "How much is it?"
        expect.number = {{ value = 41.0, relative = 0.05 }}
        "#
    );
    write(place, "tasks.toml", &tasks);
    let names = format!("good={MODEL},broken={MODEL}");
    let base = ["eval", "tasks.toml", "--gateway", "gateway.toml", "--models", &names];
    let mut line = base.to_vec();
    line.extend(["--max-cost", "5.00", "--json", "report.json"]);
    let asked = belljar(place, &line).await;
    ended(&asked, 7);
    let report = report(place, "report.json");
    let of = |model: &str, task: &str| {
        let trials = report["trials"].as_array().unwrap();
        let is = |trial: &&Value| {
            trial["task"] == task && trial["model"].as_str().unwrap().starts_with(model)
        };
        trials.iter().find(is).unwrap().clone()
    };
    let judged = of("good", "judged");
    assert_eq!((&judged["score"], &judged["reason"]), (&json!(0.5), &json!("half")));
    assert!(judged["judge_nano_dollars"].as_u64().unwrap() > 0, "{judged}");
    assert_ne!(judged["judged_by"][0], judged["run"]);
    // It was asked twice.
    let unjudged = of("good", "unjudged");
    assert!(unjudged["score"].is_null(), "{unjudged}");
    assert_eq!(unjudged["judged_by"].as_array().unwrap().len(), 2, "{unjudged}");
    assert!(unjudged["reason"].as_str().unwrap().contains("verdict"), "{unjudged}");
    assert_eq!(of("good", "number")["passed"], true);
    let failed = of("broken", "number");
    assert_eq!((&failed["outcome"], &failed["error"]), (&"failed".into(), &"model".into()));
    assert_eq!(failed["score"], 0.0);

    // A judge without a verdict was paid for: its money is not there a second time.
    let amount = |trial: &Value, name: &str| trial[name].as_u64().unwrap_or(0);
    let trials = report["trials"].as_array().unwrap().iter();
    let done = trials.filter(|trial| !trial["score"].is_null()).map(|trial| {
        amount(&trial["figures"], "nano_dollars") + amount(trial, "judge_nano_dollars")
    });
    let most = done.sum::<u64>() + 300_000_000;
    let most = format!("{}.{:09}", most / 1_000_000_000, most % 1_000_000_000);
    assert!(amount(&unjudged, "judge_nano_dollars") > 0, "{unjudged}");
    let asked_before = nonsense.record().all().len();
    let mut line = base.to_vec();
    line.extend(["--resume", "--max-cost", &most]);
    let poor = belljar(place, &line).await;
    ended(&poor, 7);
    assert!(poor.stderr.contains("--max-cost does not suffice"), "{}", poor.stderr);
    assert_eq!(nonsense.record().all().len(), asked_before);

    // Money for no trial: nothing is asked.
    let asked_before = answers.record().all().len();
    let mut line = base.to_vec();
    line.extend(["--max-cost", "0.10", "--trials", "poor.jsonl"]);
    let poor = belljar(place, &line).await;
    ended(&poor, 7);
    assert!(poor.stderr.contains("--max-cost does not suffice"), "{}", poor.stderr);
    assert_eq!(answers.record().all().len(), asked_before);
}

fn write_gateway(place: &Path, models: &[(&str, &Model)]) {
    write(place, "key", "sk-scripted-0123456789");
    let key = place.join("key").display().to_string();
    let text: String = models
        .iter()
        .map(|(name, model)| {
            format!(
                "[operations.{name}]\nkind = \"model\"\nplaintext = true\n\
                 upstream = \"http://{}\"\ndialects = [\"anthropic-messages\"]\n\
                 models = [\"{MODEL}\"]\ncredential = {{ file = \"{key}\", as = \"x-api-key\" }}\n",
                model.address()
            )
        })
        .collect();
    write(place, "gateway.toml", &text);
}

/// The shipped example: each mistake, before and after guards and instructions.
/// Requirements: A17, A20
pub(crate) async fn planted_mistakes_show_what_guards_and_prompts_gain(world: &World) {
    const MISTAKES: [&str; 4] = ["explores", "today", "wrong-key", "never-stops"];
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/eval/planted");
    for name in ["tasks.toml", "customers.csv", "orders.csv"] {
        std::fs::copy(shipped.join(name), place.join(name)).unwrap();
    }
    let mut models = Vec::new();
    for name in MISTAKES {
        let script = Script::load(&shipped.join(format!("{name}.toml"))).unwrap();
        models.push(Model::start(Options { script, ..Options::default() }).await.unwrap());
    }
    let named: Vec<(&str, &Model)> = MISTAKES.into_iter().zip(&models).collect();
    write_gateway(place, &named);
    let names: Vec<String> = MISTAKES.iter().map(|name| format!("{name}={MODEL}")).collect();
    let names = names.join(",");
    let line =
        ["eval", "tasks.toml", "--gateway", "gateway.toml", "--models", &names, "--json", "r.json"];
    let asked = belljar(place, &line).await;
    ended(&asked, 0);
    let report = report(place, "r.json");
    let group = |model: &str, variant: &str| {
        let groups = report["groups"].as_array().unwrap();
        let is = |group: &&Value| {
            group["variant"] == variant && group["model"] == format!("{model}={MODEL}")
        };
        groups.iter().find(is).unwrap().clone()
    };
    for (model, rates) in [
        ("explores", [0.0, 1.0, 1.0]),
        ("today", [0.0, 1.0, 1.0]),
        ("wrong-key", [0.0, 1.0, 1.0]),
        ("never-stops", [0.0, 0.0, 1.0]),
    ] {
        let variants = ["bare", "guards", "guards-and-prompt"];
        let found = variants.map(|variant| group(model, variant)["pass_rate"].as_f64().unwrap());
        assert_eq!(found, rates, "{model}\n{}", asked.stdout);
    }
    assert_eq!(group("today", "bare")["guards"], json!({}));
    assert_eq!(group("today", "guards")["guards"]["clock"], 1);
    assert_eq!(group("wrong-key", "guards")["guards"]["key-mismatch"], 1);
    assert_eq!(group("explores", "bare")["errors"]["exhausted"], 1);
    let gained = report["comparisons"].as_array().unwrap().iter().find(|compared| {
        let name = format!("explores={MODEL}");
        compared["first"] == json!([name, "bare"]) && compared["second"] == json!([name, "guards"])
    });
    assert_eq!(gained.unwrap()["difference"], 1.0);
}

/// Trials of a server are runs of its tenant, with links.
pub(crate) async fn a_grid_on_a_server_is_visible_there(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    write_rules(place);
    write(place, "server-key", Served::KEYS[0]);
    let url = format!("http://{}", world.served.address);
    let base = ["eval", "tasks.toml", "--server", &url, "--server-key", "server-key"];
    let mut line = base.to_vec();
    line.extend(["--only", "contains,checked", "--json", "one.json"]);
    let asked = belljar(place, &line).await;
    ended(&asked, 0);
    let one = report(place, "one.json");
    let run = trial(&one, "checked")["run"].as_str().unwrap().to_owned();
    assert_eq!(trial(&one, "checked")["link"], format!("{url}/v1/runs/{run}"));
    let options = ["--server", &url, "--server-key", "server-key"];
    let mut shown = vec!["runs", "show", &run];
    shown.extend(options);
    let shown = belljar(place, &shown).await;
    assert!(shown.stdout.contains("highest amount"), "{}{}", shown.stdout, shown.stderr);
    let mut replay = base.to_vec();
    replay.extend(["--only", "contains,checked", "--replay", "--json", "two.json"]);
    ended(&belljar(place, &replay).await, 0);
    let two = report(place, "two.json");
    assert_eq!(trial(&two, "checked")["score"], trial(&one, "checked")["score"]);
    assert_ne!(trial(&two, "checked")["run"], trial(&one, "checked")["run"]);
}
