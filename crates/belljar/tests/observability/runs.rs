//! Runs as operators see them: metrics and the log say what the transcript says.

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::all_is_described;
use crate::server::{Server, can_serve};

/// Asks a question that fixed rules answer, and reads all events of the run.
fn answered(server: &Server) -> (String, Vec<Value>) {
    let wish = json!({
        "question": "What is the total amount by region?",
        "data": [{ "name": "sales.csv", "content": "region,amount\nnorth,1\nsouth,2\nnorth,4\n" }],
    });
    let made = server.post("/v1/runs", &wish, &[]);
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let told = server.request("GET", &format!("/v1/runs/{id}/events"), "", &[]);
    let data = told.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(events.last().unwrap()["outcome"], "answered", "{told:?}");
    (id, events)
}

fn of_kind<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

fn saying<'l>(lines: &'l [Value], message: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["message"] == message).collect()
}

fn at(event: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(event["at"].as_str().unwrap(), &Rfc3339).unwrap()
}

/// O4: every metric of a run is what its events say.
#[test]
fn metrics_of_a_run_are_those_of_its_transcript() {
    if !can_serve() {
        return;
    }
    let server = Server::start(&[]);
    assert!(server.scrape().labels("belljar_runs_ended_total", "outcome").is_empty());
    let (id, events) = answered(&server);
    let count = |kind: &str| of_kind(&events, kind).len() as f64;
    let shown = server.scrape_until(|scraped| scraped.sum("belljar_runs_ended_total", &[]) >= 1.0);
    let sum = |name: &str, labels: &[(&str, &str)]| shown.sum(name, labels);
    assert_eq!(sum("belljar_runs_started_total", &[("start", "question")]), 1.0);
    assert_eq!(sum("belljar_runs_ended_total", &[("outcome", "answered")]), 1.0);
    assert_eq!(sum("belljar_run_attempts_total", &[("outcome", "answered")]), 1.0);
    assert_eq!(sum("belljar_run_failures_total", &[]), 0.0);
    assert!(count("llm_responded") >= 2.0);
    assert_eq!(sum("belljar_run_turns_total", &[]), count("llm_responded"));
    assert_eq!(sum("belljar_run_model_requests_total", &[]), count("llm_requested"));
    assert_eq!(sum("belljar_run_calls_total", &[]), count("tool_finished"));
    let successful =
        of_kind(&events, "tool_finished").iter().filter(|call| call["fault"].is_null()).count();
    assert_eq!(sum("belljar_run_calls_total", &[("fault", "none")]), successful as f64);
    assert_eq!(sum("belljar_run_guards_total", &[]), count("guard_reported"));
    for kind in ["input", "cache_read", "cache_write", "output"] {
        let spent = of_kind(&events, "llm_responded");
        let spent: u64 = spent.iter().map(|it| it["tokens"][kind].as_u64().unwrap()).sum();
        assert_eq!(sum("belljar_run_tokens_total", &[("type", kind)]), spent as f64, "{kind}");
    }
    // Times are those of the events.
    let (first, last) = (at(&events[0]), at(events.last().unwrap()));
    let claimed = at(of_kind(&events, "lease_taken")[0]);
    let attached = at(of_kind(&events, "sandbox_attached")[0]);
    for (name, time) in [
        ("belljar_run_queue_seconds_sum", claimed - first),
        ("belljar_run_seconds_sum", last - first),
        ("belljar_run_sandbox_seconds_total", last - attached),
    ] {
        let (shown, want) = (sum(name, &[]), time.as_seconds_f64());
        assert!((shown - want).abs() < 1e-6, "{name}: {shown}, and {want} by its events");
    }
    assert_eq!(sum("belljar_run_queue_seconds_count", &[]), 1.0);
    assert_eq!(sum("belljar_run_seconds_count", &[("outcome", "answered")]), 1.0);
    // No metric knows the run.
    for (name, family) in &shown.families {
        for sample in &family.samples {
            assert!(sample.labels.values().all(|value| *value != id), "{name}");
        }
    }
    all_is_described(&shown);
}

/// O6: a line says which run, which step, which attempt, and how it ended.
#[test]
fn the_log_has_a_line_for_each_attempt_of_a_run() {
    if !can_serve() {
        return;
    }
    let server = Server::start(&["--json-logs"]);
    let (id, events) = answered(&server);
    server.scrape_until(|scraped| scraped.sum("belljar_runs_ended_total", &[]) >= 1.0);
    let log = server.stop();
    let lines = log.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours: Vec<Value> = lines.filter(|line| line["run"] == id.as_str()).collect();
    let attempts = saying(&ours, "run attempt ended");
    let models = attempts.iter().filter(|line| line["step"] == "model");
    let tools: Vec<&&Value> = attempts.iter().filter(|line| line["step"] != "model").collect();
    assert_eq!(models.count(), of_kind(&events, "llm_responded").len(), "{log:#?}");
    assert_eq!(tools.len(), of_kind(&events, "tool_finished").len(), "{log:#?}");
    for (line, event) in tools.iter().zip(of_kind(&events, "tool_finished")) {
        assert_eq!(line["tenant"], "default", "{line}");
        assert_eq!(line["turn"], event["call"]["turn"], "{line}");
        assert_eq!(line["reason"], event["reason"], "{line}");
        assert_eq!(line.get("exit"), event.get("exit_code"), "{line}");
        let (number, most) = line["attempt"].as_str().unwrap().split_once('/').unwrap();
        let (number, most): (u32, u32) = (number.parse().unwrap(), most.parse().unwrap());
        assert!((1..=most).contains(&number), "{line}");
    }
    let ended = saying(&ours, "run ended");
    assert_eq!(ended.len(), 1, "{log:#?}");
    assert_eq!((&ended[0]["outcome"], &ended[0]["attempt"]), (&"answered".into(), &1.into()));
    // Nothing of the question or of the code.
    assert!(log.iter().all(|line| !line.contains("total amount by region")), "{log:#?}");
}
