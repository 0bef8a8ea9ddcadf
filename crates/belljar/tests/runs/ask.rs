//! `belljar ask`, the real executable, from the question to the files.
//!
//! Requirements: A1, U3

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use belljar_domain::Sequence;
use belljar_journal::event::{Body, Brought};
use belljar_journal::{Address, Directory, Journal as _, ListQuery, Watch, read_all};
use belljar_scripted::{Model, Options, Script};

use crate::world::{MODEL, TEMPLATE, World};

pub(crate) const BELLJAR: &str = env!("CARGO_BIN_EXE_belljar");
const KEY: &str = "sk-canary-0123456789";

pub(crate) struct Asked {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A model that follows a script.
pub(crate) async fn scripted(script: &str) -> Model {
    let script = Script::parse(script).unwrap();
    Model::start(Options { script, keep_bodies: true, ..Options::default() }).await.unwrap()
}

/// Runs belljar with a state and runs of its own.
pub(crate) async fn belljar(place: &Path, arguments: &[&str]) -> Asked {
    let output = command(place, arguments).output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    Asked { status: output.status.code(), stdout, stderr }
}

pub(crate) fn command(place: &Path, arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(BELLJAR);
    command.args(arguments).current_dir(place).stdin(Stdio::null()).kill_on_drop(true);
    command
        .env("BELLJAR_STORE", belljar_testkit::store())
        .env("BELLJAR_DATA", place.join("server"));
    command
}

/// The newest run.
pub(crate) async fn newest(place: &Path) -> String {
    let listed = belljar(place, &["runs", "list", "--json"]).await;
    let rows: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    rows[0]["run"].as_str().unwrap().to_owned()
}

/// The shape of the first seed: deals, emails, activities, joined by ids.
fn write_data(place: &Path) {
    let deals: Vec<_> = (0..40)
        .map(|n| {
            let region = ["north", "south"][n % 2];
            serde_json::json!({
                "deal_id": format!("deal_{n}"), "region": region,
                "amount": 100 + 10 * n, "owner": { "name": format!("rep {}", n % 3) },
                "contacts": [{ "name": "a" }, { "name": "b" }],
            })
        })
        .collect();
    let emails: Vec<String> = (0..60)
        .map(|n| {
            let line = serde_json::json!({
                "thread_id": n, "deal_id": format!("deal_{}", n % 40), "body": "hello",
                "sent": format!("2026-03-{:02}", n % 28 + 1),
            });
            line.to_string()
        })
        .collect();
    let mut activities = "activity_id,deal_id,kind,minutes\n".to_owned();
    for n in 0..80 {
        activities.push_str(&format!("{n},deal_{},{},{}\n", n % 40, ["call", "demo"][n % 2], n));
    }
    std::fs::write(place.join("deals.json"), serde_json::to_string(&deals).unwrap()).unwrap();
    std::fs::write(place.join("emails.jsonl"), emails.join("\n")).unwrap();
    std::fs::write(place.join("activities.csv"), activities).unwrap();
}

pub(crate) async fn the_heuristic_answers_about_three_datasets(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    write_data(place);
    let question = "What is the total amount by region?";
    let data = ["deals.json", "emails.jsonl", "activities.csv"];
    let mut arguments = vec!["ask", question, "--template", TEMPLATE, "--out", "out", "--data"];
    arguments.extend(data);
    let asked = belljar(place, &arguments).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    // 100 + 10 n over the odd and the even ones.
    for part in ["north", "5800", "south", "6000"] {
        let plain = asked.stdout.replace(',', "");
        assert!(plain.contains(part), "no {part} in {}\n{}", asked.stdout, asked.stderr);
    }
    let result = std::fs::read_to_string(place.join("out/result.md")).unwrap();
    assert!(result.contains("north"), "{result}");
    assert!(asked.stderr.contains("turn 1"), "{}", asked.stderr);
    assert!(asked.stderr.contains(", data mounted"), "{}", asked.stderr);

    let run = newest(place).await;
    let shown = belljar(place, &["runs", "show", &run]).await;
    assert!(
        shown.stdout.contains(question) && shown.stdout.contains("answered"),
        "{}",
        shown.stdout
    );
    let exported = belljar(place, &["runs", "export", &run]).await;
    let last: serde_json::Value =
        serde_json::from_str(exported.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["kind"], &last["outcome"]), (&"finished".into(), &"answered".into()));
    let cost = belljar(place, &["runs", "cost", &run]).await;
    assert!(cost.stdout.contains("$0.0000"), "{}", cost.stdout);
    let watched = belljar(place, &["runs", "watch", &run]).await;
    assert!(watched.stdout.contains("answered"), "{}", watched.stdout);
    // What is over cannot be steered.
    let late = belljar(place, &["runs", "pause", &run]).await;
    assert_eq!(late.status, Some(1), "{}", late.stderr);
}

pub(crate) async fn a_model_behind_the_gateway_answers_and_the_code_sees_no_key(world: &World) {
    // The code looks for the key wherever code can look.
    const SCRIPT: &str = r#"
        strict = true
        [[turn]]
        say = "I look around."
        call = [{ tool = "shell", input = { command = "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; grep -r canary . 2>/dev/null; ls /mnt/data; true" } }]
        usage = { input = 1000, output = 100 }
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "import csv\nrows = list(csv.DictReader(open('/mnt/data/activities.csv')))\ntotal = sum(int(row['minutes']) for row in rows)\nopen('total.txt', 'w').write(str(total))\nprint(total)" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "Minutes: {{result}}", files = ["total.txt"] } }]
    "#;
    for dialect in ["anthropic-messages", "openai-responses", "openai-chat"] {
        let place = tempfile::tempdir_in(world.directory.path()).unwrap();
        let place = place.path();
        write_data(place);
        std::fs::write(place.join("key"), KEY).unwrap();
        let options = Options {
            script: Script::parse(SCRIPT).unwrap(),
            credential: Some(KEY.to_owned()),
            watch: vec!["bjt_".to_owned()],
            keep_bodies: true,
            ..Options::default()
        };
        let model = Model::start(options).await.unwrap();
        let url = format!("http://{}", model.address());
        let name = if dialect == "anthropic-messages" { MODEL } else { "gpt-5-mini" };
        let asked = belljar(
            place,
            &[
                "ask",
                "How many minutes?",
                "--template",
                TEMPLATE,
                "--out",
                "out",
                "--model",
                name,
                "--dialect",
                dialect,
                "--model-url",
                &url,
                "--model-key",
                "key",
                "--turns",
                "5",
                "--data",
                "activities.csv",
            ],
        )
        .await;
        assert_eq!(asked.status, Some(0), "{dialect}: {}{}", asked.stdout, asked.stderr);
        assert!(asked.stdout.starts_with("Minutes: 3160"), "{dialect}: {}", asked.stdout);
        assert_eq!(std::fs::read_to_string(place.join("out/total.txt")).unwrap(), "3160");
        assert!(std::fs::read_to_string(place.join("out/result.md")).unwrap().contains("3160"));
        let requests = model.record().all();
        assert_eq!(requests.len(), 3, "{dialect}");
        for request in &requests {
            // The gateway put the key in, and kept the loop's token.
            assert!(request.credential && request.watched.is_empty(), "{dialect}: {request:?}");
            assert!(!request.body.as_deref().unwrap_or_default().contains(KEY), "{dialect}");
        }
        let run = newest(place).await;
        let exported = belljar(place, &["runs", "export", &run]).await;
        assert!(!exported.stdout.contains(KEY) && !asked.stderr.contains(KEY), "{dialect}");
        let cost = belljar(place, &["runs", "cost", &run, "--json"]).await;
        let cost: serde_json::Value = serde_json::from_str(&cost.stdout).unwrap();
        assert!(cost[0]["nano_dollars"].as_u64().unwrap() > 0, "{cost}");
    }
}

pub(crate) async fn a_gateway_that_cannot_start_says_why(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    std::fs::write(place.join("key"), "sk-12\n").unwrap();
    let config = "[operations.llm]\nkind = \"model\"\ndialects = [\"openai-chat\"]\nmodels = [\"m\"]\n\
                  upstream = \"https://models.example.com\"\n\
                  credential = { env = \"HOME\", as = \"bearer\" }\nshoes = 2\n";
    std::fs::write(place.join("gateway.toml"), config).unwrap();
    let url = "https://models.example.com";
    let by_key = ["--model-url", url, "--model", MODEL, "--model-key", "key"];
    for (model, said, hint) in [
        (&by_key[..], "key` has 5 bytes; a credential has 8 to 8192", "--model-key"),
        (&["--gateway", "gateway.toml"], "unknown field `shoes`", "--gateway"),
    ] {
        let mut arguments = vec!["ask", "How much?", "--template", TEMPLATE];
        arguments.extend(model);
        let asked = belljar(place, &arguments).await;
        assert_eq!(asked.status, Some(125), "{}", asked.stderr);
        let (error, next) = asked.stderr.split_once("hint:").unwrap_or((&asked.stderr, ""));
        assert!(error.contains("the gateway process cannot serve"), "{error}");
        assert!(error.contains(said) && next.contains(hint), "{}", asked.stderr);
        assert_eq!(error.matches(said).count(), 1, "once is enough: {error}");
        assert!(!asked.stderr.contains("sk-12"), "{}", asked.stderr);
    }
}

/// The first run of a journal that another process has begun, or is about to.
async fn first(journal: &Directory) -> Address {
    loop {
        let query = ListQuery { tenant: "local", state: None, after: None, most: 1 };
        match journal.list(query).await.unwrap().rows.pop() {
            Some(row) => return row.address,
            None => tokio::task::yield_now().await,
        }
    }
}

pub(crate) async fn whoever_goes_on_after_a_kill_sees_the_same_data(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "shell", input = { command = "cat /mnt/data/a.csv; sleep 600" } }]
        [[turn]]
        call = [{ tool = "shell", input = { command = "cat /mnt/data/a.csv; echo 3 >> /mnt/data/a.csv || echo refused" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "{{result}}" } }]
    "#;
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    std::fs::write(place.join("a.csv"), "x\n1\n").unwrap();
    let model = scripted(SCRIPT).await;
    let url = format!("http://{}", model.address());
    let usual = ["--model", MODEL, "--model-url", &url, "--template", TEMPLATE, "--out", "out"];
    let ask = [&["ask", "How much?", "--data", "a.csv"], &usual[..]].concat();
    let mut asking = command(place, &ask).stderr(Stdio::null()).spawn().unwrap();
    let journal = Directory::open(&place.join("server/runs")).unwrap();
    let address = first(&journal).await;
    let mut watch = Watch::new(Arc::new(journal.clone()), address.clone(), Sequence(1));
    while !matches!(watch.next().await.unwrap().unwrap().body, Body::ToolStarted(_)) {}
    asking.kill().await.unwrap();
    // Whatever becomes of the file, the run has what it was given.
    std::fs::write(place.join("a.csv"), "x\n2\n").unwrap();
    let again = [&["ask", "--resume", address.run.as_str()], &usual[..]].concat();
    let asked = belljar(place, &again).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    assert!(asked.stdout.contains("x\n1\n"), "{}", asked.stdout);
    assert!(asked.stdout.contains("refused") && !asked.stdout.contains('3'), "{}", asked.stdout);
    let events = read_all(&journal, &address).await.unwrap();
    let mut attached = Vec::new();
    for event in &events {
        if let Body::SandboxAttached(sandbox) = &event.body {
            attached.push((sandbox.number, sandbox.data));
        }
    }
    assert_eq!(attached, [(1, Some(Brought::Mounted)), (2, Some(Brought::Mounted))]);
}
