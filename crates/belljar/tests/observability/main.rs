//! `belljar serve` as operators see it: a real process, scraped, traced and read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

mod openmetrics;
mod receiver;
mod runs;
mod server;

use std::time::Instant;

use belljar_telemetry::Metrics;
use openmetrics::Scraped;
use receiver::{Receiver, Span};
use serde_json::json;
use server::{Server, TEMPLATE, can_serve};

/// Sent by a client that traces its own work.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Asks the way out for what is not allowed; the answer does not matter.
const REACH_OUT: &str = "exec 3<>/dev/tcp/127.0.0.1/3128; \
    printf 'GET http://not-allowed.example/ HTTP/1.1\\r\\nHost: not-allowed.example\\r\\n\\r\\n' >&3; \
    read -r line <&3; echo \"$line\"";

#[test]
fn metrics_follow_a_sandbox_from_its_beginning_to_its_end() {
    if !can_serve() {
        return;
    }
    let server = Server::start(&[]);
    let before = server.scrape();
    assert_eq!(before.sum("belljar_creates_total", &[]), 0.0);
    let id = server.create(&json!({ "template": TEMPLATE }));
    let alive = server.scrape();
    let running = [("state", "running"), ("tier", "jail")];
    assert_eq!(alive.sum("belljar_sandboxes", &running), 1.0);
    assert_eq!(alive.sum("belljar_creates_total", &[("result", "ok")]), 1.0);
    assert_eq!(alive.sum("belljar_create_seconds_count", &[("tier", "jail")]), 1.0);
    let refused = server.post("/v1/sandboxes", &json!({ "template": "no-such" }), &[]);
    assert_eq!(refused.status, 404, "{refused:?}");
    server.run(&id, "exit 3", &[]);
    server.run(&id, "true", &[]);
    assert_eq!(server.request("DELETE", &format!("/v1/sandboxes/{id}"), "", &[]).status, 204);
    let after = server.scrape();
    assert_eq!(after.sum("belljar_sandboxes", &running), 0.0);
    assert_eq!(after.sum("belljar_ends_total", &[("reason", "killed")]), 1.0);
    assert_eq!(after.sum("belljar_creates_total", &[]), 2.0);
    let calls =
        |reason| after.sum("belljar_calls_total", &[("kind", "process"), ("reason", reason)]);
    assert_eq!((calls("done"), calls("exit")), (1.0, 1.0));
    let created = [("method", "POST"), ("route", "/v1/sandboxes"), ("status", "201")];
    assert_eq!(after.sum("belljar_requests_total", &created), 1.0);
    let deleted = [("route", "/v1/sandboxes/{sandbox}"), ("status", "204")];
    let routes = after.labels("belljar_requests_total", "route");
    assert_eq!(after.sum("belljar_requests_total", &deleted), 1.0, "{routes:?}");
    assert!(routes.iter().all(|route| !route.contains(&id)), "{routes:?}");
    assert!(after.sum("belljar_request_seconds_count", &[]) >= 5.0);
    assert_eq!(after.sum("belljar_requests_running", &[]), 0.0);
    for process in ["serve", "spawner"] {
        let of = [("process", process)];
        assert!(after.sum("belljar_process_resident_bytes", &of) > 1e6, "{process}");
        assert!(after.sum("belljar_process_cpu_seconds_total", &of) >= 0.0);
    }
    assert!(after.sum("belljar_process_cpu_seconds_total", &[("process", "serve")]) > 0.0);
    // Of other roles.
    for absent in ["belljar_slots_free", "belljar_queue_length", "belljar_nodes"] {
        assert!(after.labels(absent, "role").is_empty(), "{absent}");
    }
    all_is_described(&after);
}

/// Whatever is shown has the type and the labels that it is described with.
pub(crate) fn all_is_described(scraped: &Scraped) {
    let described = Metrics::described();
    assert!(scraped.families.len() > 10);
    for (name, family) in &scraped.families {
        let full = |suffix: &str| format!("{name}{suffix}");
        let known = described.iter().find(|one| one.full_name() == full(one.suffix));
        let known = known.unwrap_or_else(|| panic!("nobody described {name}"));
        assert_eq!(family.kind, known.kind, "{name}");
        for sample in &family.samples {
            let mut labels: Vec<_> = sample.labels.keys().map(String::as_str).collect();
            labels.retain(|label| *label != "le");
            let mut want: Vec<_> = known.labels.iter().copied().chain(["role"]).collect();
            want.sort_unstable();
            assert_eq!(labels, want, "{name}");
            assert_eq!(sample.labels["role"], "serve");
        }
    }
}

#[test]
fn a_trace_goes_from_the_request_to_the_connection() {
    if !can_serve() {
        return;
    }
    let receiver = Receiver::start();
    let server = Server::start(&["--otlp", &receiver.url]);
    let traced = [("traceparent", TRACEPARENT)];
    let wish = json!({
        "template": TEMPLATE,
        "network": { "reach": { "allow": [{ "host": "example.org" }] } },
    });
    let made = server.post("/v1/sandboxes", &wish, &traced);
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let said = server.run(&id, REACH_OUT, &traced);
    assert!(said["stdout"]["data"].as_str().unwrap_or_default().contains("403"), "{said}");
    let cell = format!("/v1/sandboxes/{id}/contexts/python/cells");
    let ran = server.post(&cell, &json!({ "code": "6 * 7" }), &traced);
    assert_eq!(ran.status, 200, "{ran:?}");
    let all = |spans: &[Span]| {
        ["create", "call", "cell", "exchange"]
            .iter()
            .all(|name| spans.iter().any(|span| span.name == **name))
            && spans.iter().filter(|span| span.name == "request" && span.trace == TRACE).count()
                == 3
    };
    let spans = receiver.wait(all);
    let ours: Vec<_> = spans.iter().filter(|span| span.trace == TRACE).collect();
    let one = |name: &str| {
        let found: Vec<_> = ours.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name}: {spans:#?}");
        *found[0]
    };
    let requests: Vec<_> = ours.iter().filter(|span| span.name == "request").collect();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|span| span.parent.as_deref() == Some(PARENT)));
    let (create, call, exchange) = (one("create"), one("call"), one("exchange"));
    let parent =
        |span: &Span| spans.iter().find(|one| Some(&one.id) == span.parent.as_ref()).unwrap();
    assert_eq!(parent(create).attribute("http.route"), Some("/v1/sandboxes"));
    assert_eq!(parent(create).attribute("http.response.status_code"), Some("201"));
    assert_eq!(parent(call).name, "request");
    assert_eq!(parent(exchange).name, "call");
    let cell = one("cell");
    let route = "/v1/sandboxes/{sandbox}/contexts/{context}/cells";
    assert_eq!(parent(cell).attribute("http.route"), Some(route));
    assert_eq!(cell.attribute("belljar.sandbox"), Some(id.as_str()));
    assert_eq!(cell.attribute("belljar.attempt"), Some("1"));
    assert_eq!(create.attribute("belljar.sandbox"), Some(id.as_str()));
    assert_eq!(call.attribute("belljar.sandbox"), Some(id.as_str()));
    assert_eq!(call.attribute("reason"), Some("done"));
    assert_eq!(exchange.attribute("decision"), Some("denied"));
    assert_eq!(exchange.attribute("server.address"), Some("not-allowed.example"));
    assert!(create.start >= parent(create).start && create.end <= parent(create).end);
    assert!(exchange.start >= call.start);
    // What the receiver holds is counted as sent once its answer has come back.
    let scraped =
        server.scrape_until(|scraped| scraped.sum("belljar_spans_sent_total", &[]) >= 7.0);
    let denied = [("kind", "exchange"), ("decision", "denied")];
    assert_eq!(scraped.sum("belljar_connections_total", &denied), 1.0);
    assert!(scraped.sum("belljar_process_resident_bytes", &[("process", "gateway")]) > 1e6);
    all_is_described(&scraped);
}

#[test]
fn a_trace_that_its_client_does_not_keep_is_not_sent() {
    if !can_serve() {
        return;
    }
    let receiver = Receiver::start();
    let server = Server::start(&["--otlp", &receiver.url]);
    let unkept = TRACEPARENT.replace("-01", "-00");
    server.request("GET", "/v1/templates", "", &[("traceparent", &unkept)]);
    server.request("GET", "/v1/sandboxes", "", &[]);
    let spans = receiver.wait(|spans| spans.iter().any(|span| span.parent.is_none()));
    assert!(spans.iter().all(|span| span.trace != TRACE), "{spans:#?}");
}

#[test]
fn requests_do_not_wait_for_a_receiver_that_is_away() {
    if !can_serve() {
        return;
    }
    // Nobody listens on this port any more.
    let away = Receiver::start().url.clone();
    let (server, silent) = (Server::start(&["--otlp", &away]), Server::start(&[]));
    // By turns: when the machine stands still, it does for some of either.
    let mut times = [vec![], vec![]];
    for _ in 0..200 {
        for (server, times) in [&server, &silent].into_iter().zip(&mut times) {
            let begun = Instant::now();
            assert_eq!(server.request("GET", "/v1/sandboxes", "", &[]).status, 200);
            times.push(begun.elapsed());
        }
    }
    let [traced, plain] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    assert!(traced < 10 * plain, "{traced:?}, and {plain:?} where nothing is traced");
    drop(silent);
    let not_taken = [("reason", "not_taken")];
    server.scrape_until(|scraped| scraped.sum("belljar_spans_dropped_total", &not_taken) >= 200.0);
    assert_eq!(server.request("GET", "/v1/health", "", &[]).status, 200);
    let log = server.stop();
    let complaints = log.iter().filter(|line| line.contains("traces dropped")).count();
    assert_eq!(complaints, 1, "{log:#?}");
}

#[test]
fn lines_of_the_log_say_whose_they_are() {
    if !can_serve() {
        return;
    }
    let server = Server::start(&["--json-logs"]);
    let id = server.create(&json!({ "template": TEMPLATE }));
    server.run(&id, "true", &[("traceparent", TRACEPARENT)]);
    server.request("DELETE", &format!("/v1/sandboxes/{id}"), "", &[]);
    let log = server.stop();
    let lines: Vec<serde_json::Value> =
        log.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let about = |words: &str| {
        let found = lines.iter().find(|line| line["message"].as_str().unwrap().contains(words));
        found.unwrap_or_else(|| panic!("no {words:?} in {log:#?}"))
    };
    for words in ["Created", "ProcessStarted", "ProcessEnded", "Ended"] {
        let line = about(words);
        assert_eq!(line["tenant"], "default", "{line}");
        assert_eq!(line["sandbox"], id.as_str(), "{line}");
        assert_eq!(line["level"], "INFO");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    for words in ["ProcessStarted", "ProcessEnded"] {
        let line = about(words);
        assert!(line["call"].as_u64().is_some(), "{line}");
        assert_eq!(line["attempt"], 1, "{line}");
    }
    let created = about("Created");
    assert!(created["request_id"].as_str().unwrap().starts_with("req_"), "{created}");
}
