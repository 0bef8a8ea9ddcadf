//! The tier and the limits of a run's sandboxes.
//!
//! Requirements: A18

use serde_json::{Value, json};

use crate::api::Api;
use crate::ask::{belljar, newest, scripted};
use crate::world::{MODEL, TEMPLATE, World};

/// Reads its own limits, and then takes what a sandbox of the template has and the chosen one
/// does not: memory, disk, processes.
const TAKES: &str = r#"
    [[turn]]
    call = [{ tool = "execute_python", input = { code = "import re\nmemory = re.search(r'MemTotal: +(\\d+)', open('/proc/meminfo').read())[1]\nprint(memory, open('/proc/cpuinfo').read().count('processor\\t'))" } }]
    [[turn]]
    call = [{ tool = "execute_python", input = { code = "held = b'x' * (600 << 20)\nprint(len(held))" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "head -c 48M /dev/zero > big; status=$?; rm -f big; exit $status" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "for n in $(seq 60); do sleep 0.3 & done; wait" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo still here" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "It is over." } }]
"#;

const BRIEF: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo here" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "It was here." } }]
"#;

const SLOW: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "sleep 600" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "sleep 600", timeout_seconds = 600 } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "It took too long." } }]
"#;

/// Makes a run, and waits for its end. Answers it as it was made, its events, and how it is now.
async fn worked(api: &Api<'_>, wish: &Value) -> (Value, Vec<Value>, Value) {
    let made = api.send("POST", "/v1/runs", wish.to_string()).await.json(201);
    let id = made["id"].as_str().unwrap().to_owned();
    let events = api.events(&id, "").await.rest().await;
    let run = api.run(&id).await;
    (made, events, run)
}

fn of_kind<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

/// S1, S5: a run is kept in what it chose, and held to it.
pub(crate) async fn a_run_has_the_tier_and_the_limits_that_it_chose(world: &World) {
    let _model = world.scripts.add("takes", TAKES).await;
    let api = Api::new(world);
    let question = json!({ "question": "How much is there?", "operation": "takes" });
    let limits = json!({
        "memory_bytes": 512 << 20, "cpu_millis": 2000, "disk_bytes": 32 << 20, "pids": 32,
    });
    let mut wish = question.clone();
    wish["tier"] = "jail".into();
    wish["limits"] = limits.clone();
    let (made, events, run) = worked(&api, &wish).await;
    assert_eq!((&made["tier"], &made["limits"]), (&"jail".into(), &limits));
    // It is in the transcript: as it was chosen, and as the sandbox has it.
    let environment = json!({ "tier": "jail", "limits": limits });
    assert_eq!(events[0]["wish"]["environment"], environment);
    let template = api.get(&format!("/v1/templates/{TEMPLATE}")).await.json(200);
    let mut given = limits;
    given["wall_ms"] = template["limits"]["wall_ms"].clone();
    let attached = of_kind(&events, "sandbox_attached");
    assert_eq!(attached[0]["environment"], json!({ "tier": "jail", "limits": given }));
    assert_eq!((&run["tier"], &run["limits"]), (&"jail".into(), &given));

    let calls = of_kind(&events, "tool_finished");
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    let own = format!("{} {cores}", 512 << 10);
    assert_eq!(calls[0]["shown"].as_str().unwrap().trim(), own, "{}", calls[0]);
    assert_eq!(calls[1]["fault"]["category"], "memory", "{}", calls[1]);
    for (what, call) in [("disk", calls[2]), ("processes", calls[3])] {
        assert_ne!(call["reason"], "done", "{what}: {call}");
    }
    assert_eq!(calls[4]["reason"], "done", "{}", calls[4]);
    assert_eq!(run["end"]["outcome"], "answered", "{run}");

    // The same code has all of it where nothing is chosen.
    let (made, events, run) = worked(&api, &question).await;
    assert_eq!((made.get("tier"), &made["limits"]), (None, &json!({})));
    assert_eq!(events[0]["wish"].get("environment"), None);
    let calls = of_kind(&events, "tool_finished");
    assert_ne!(calls[0]["shown"].as_str().unwrap().trim(), own);
    assert!(calls.iter().all(|call| call["reason"] == "done"), "{calls:?}");
    assert_eq!(run["limits"]["memory_bytes"], template["limits"]["memory_bytes"], "{run}");
}

/// S1, S5: `belljar ask` takes the same on its own host, and records it.
pub(crate) async fn ask_has_the_tier_and_the_limits_of_its_options(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(TAKES).await;
    let url = format!("http://{}", model.address());
    let ask = ["ask", "How much is there?", "--template", TEMPLATE, "--model", MODEL];
    let ask = [&ask[..], &["--model-url", &url, "--out", "out"]].concat();
    for (more, why) in [
        (["--memory", "1M"], "memory_bytes must be between"),
        (["--pids", "0"], "pids must be between"),
        (["--tier", "process"], "runs cannot use the tier `process`"),
    ] {
        let refused = belljar(place, &[&ask[..], &more].concat()).await;
        assert_eq!(refused.status, Some(125), "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    assert!(model.record().all().is_empty(), "nothing was begun");
    let limits = ["--tier", "jail", "--memory", "512M", "--cpus", "2", "--disk", "32M"];
    let words = [&ask[..], &limits[..], &["--pids", "32", "--call-time", "50s"]].concat();
    let asked = belljar(place, &words).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    let run = newest(place).await;
    let exported = belljar(place, &["runs", "export", &run]).await;
    let events: Vec<Value> =
        exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let chosen = json!({ "tier": "jail", "limits": {
        "memory_bytes": 512 << 20, "cpu_millis": 2000, "pids": 32, "disk_bytes": 32 << 20,
        "wall_ms": 50_000,
    } });
    assert_eq!(events[0]["wish"]["environment"], chosen);
    assert_eq!(of_kind(&events, "sandbox_attached")[0]["environment"], chosen);
    assert_eq!(of_kind(&events, "tool_started")[0]["timeout_ms"], 50_000);
    assert_eq!(of_kind(&events, "tool_finished")[1]["fault"]["category"], "memory");
    let shown = belljar(place, &["runs", "show", &run]).await;
    for part in [", jail", "512.0 MiB of memory", "2 CPU", "32 processes"] {
        assert!(shown.stdout.contains(part), "no {part} in {}", shown.stdout);
    }
}

/// S5: also where the model asks for more.
pub(crate) async fn no_call_of_a_run_takes_longer_than_its_owner_said(world: &World) {
    let _model = world.scripts.add("dawdles", SLOW).await;
    let api = Api::new(world);
    let wish = json!({
        "question": "How long?", "operation": "dawdles", "limits": { "wall_ms": 1500 },
    });
    let (_, events, run) = worked(&api, &wish).await;
    let started = of_kind(&events, "tool_started");
    let times: Vec<_> = started.iter().map(|call| call["timeout_ms"].as_u64()).collect();
    assert_eq!(times[..2], [Some(1500); 2], "{started:?}");
    for call in &of_kind(&events, "tool_finished")[..2] {
        assert_eq!(call["reason"], "timeout_wall", "{call}");
    }
    assert_eq!(run["limits"]["wall_ms"], 1500, "{run}");
}

/// S1: a run has the tier that it named, or none.
pub(crate) async fn a_tier_is_never_replaced_by_another(world: &World) {
    let _model = world.scripts.add("brief", BRIEF).await;
    let api = Api::new(world);
    let offered = api.get("/v1/templates").await.json(200)["tiers"].clone();
    assert!(offered.as_array().unwrap().contains(&"oci/crun".into()), "{offered}");
    let wish = json!({ "question": "Where?", "operation": "brief", "tier": "oci/crun" });
    let (made, events, run) = worked(&api, &wish).await;
    assert_eq!((&made["tier"], &run["tier"]), (&"oci/crun".into(), &"oci/crun".into()));
    match of_kind(&events, "sandbox_attached").first() {
        Some(attached) => assert_eq!(attached["environment"]["tier"], "oci/crun", "{attached}"),
        // A host without crun has no such run at all.
        None => {
            assert_eq!(run["end"]["error"], "sandbox", "{run}");
            assert!(run["end"]["message"].as_str().unwrap().contains("oci/crun"), "{run}");
        }
    }
}
