//! Runs over HTTP: made, followed, steered, and read by their owner alone.
//!
//! Requirements: P3, P4, O1

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use belljar_testkit::Served;

use crate::world::{TEMPLATE, World};

/// One tenant, and how it talks to the server.
pub(crate) struct Api<'w> {
    world: &'w World,
    key: &'static str,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) async fn read<B>(response: http::Response<B>) -> Self
    where
        B: hyper::body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self { status: parts.status, headers: parts.headers, body }
    }

    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status.as_u16(), status, "{text}");
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"))
    }

    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.json(status)["code"], code);
    }
}

/// Events of a run, as they come.
pub(crate) struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    /// The next one; none: the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let data = data.map(|data| serde_json::from_str(data).unwrap());
                self.text = rest.to_owned();
                match data {
                    Some(data) => return Some(data),
                    // A sign of life.
                    None => continue,
                }
            }
            let frame = self.body.frame().await?.unwrap();
            let bytes = frame.into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("over before {kind}"));
            if event["kind"] == kind {
                return event;
            }
        }
    }

    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

impl<'w> Api<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        Self { world, key: Served::KEYS[0] }
    }

    pub(crate) fn stranger(world: &'w World) -> Self {
        Self { world, key: Served::KEYS[1] }
    }

    async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> http::Response<Incoming> {
        let stream = TcpStream::connect(self.world.served.address).await.unwrap();
        let io = TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in [("host", "localhost"), ("x-api-key", self.key)].iter().chain(headers)
        {
            request = request.header(*name, *value);
        }
        sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap()
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send_with(method, path, &[], body).await
    }

    pub(crate) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        Answer::read(self.open(method, path, headers, body).await).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub(crate) async fn events(&self, run: &str, query: &str) -> Events {
        let path = format!("/v1/runs/{run}/events{query}");
        let response = self.open("GET", &path, &[], "").await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body(), text: String::new() }
    }

    /// Makes a run that this operation answers.
    pub(crate) async fn ask(&self, operation: &str) -> String {
        let wish = json!({ "question": "How much is it?", "operation": operation });
        let made = self.send("POST", "/v1/runs", wish.to_string()).await.json(201);
        made["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn run(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}")).await.json(200)
    }

    async fn stats(&self) -> Value {
        self.get("/v1/stats").await.json(200)
    }
}

pub(crate) async fn a_question_is_answered_and_nobody_else_sees_it(world: &World) {
    const SCRIPT: &str = r#"
        strict = true
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "import csv\nrows = [row for name in ('a.csv', 'b.csv') for row in csv.DictReader(open(f'/mnt/data/{name}'))]\ntotal = sum(int(row['x']) for row in rows)\nopen('total.txt', 'w').write(str(total))\nprint(total)" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "It is {{result}}", files = ["total.txt"] } }]
    "#;
    let model = world.scripts.add("answered", SCRIPT).await;
    let (api, stranger) = (Api::new(world), Api::stranger(world));
    let kept = api.send("POST", "/v1/data", "x\n1\n2\n").await.json(201);
    let sha256 = kept["sha256"].as_str().unwrap();
    assert_eq!(kept["bytes"], 6);
    let wish = json!({
        "question": "How much is it?", "operation": "answered", "now": "2026-03-20T09:00:00Z",
        "data": [{ "name": "a.csv", "sha256": sha256 }, { "name": "b.csv", "content": "x\n4\n" }],
        "budget": { "turns": 5, "nano_dollars": 1_000_000_000 },
    });
    let key = [("idempotency-key", "once-1")];
    let made = api.send_with("POST", "/v1/runs", &key, wish.to_string()).await;
    assert!(!made.headers.contains_key("idempotency-replayed"));
    let made = made.json(201);
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        (&made["template"], &made["now"]),
        (&TEMPLATE.into(), &"2026-03-20T09:00:00Z".into())
    );
    assert_eq!(made["budget"], json!({ "turns": 5, "nano_dollars": 1_000_000_000 }));
    let names: Vec<_> = made["data"].as_array().unwrap().iter().map(|file| &file["name"]).collect();
    assert_eq!(names, ["a.csv", "b.csv"]);

    // Followed to its end, from the first event on.
    let events = api.events(id, "").await.rest().await;
    let numbers: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    let kinds: Vec<_> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("run_created", "finished"));
    // The files are those that the tenant uploaded, mounted from a shelf of its own.
    let attached = events.iter().find(|event| event["kind"] == "sandbox_attached").unwrap();
    assert_eq!(attached["data"], "mounted");
    let later = api.events(id, "?from=4").await.rest().await;
    assert_eq!(later, events[3..]);
    let path = format!("/v1/runs/{id}/events");
    let resumed = api.open("GET", &path, &[("last-event-id", "3")], "").await;
    let resumed = Events { body: resumed.into_body(), text: String::new() }.rest().await;
    assert_eq!(resumed, events[3..]);

    let run = api.run(id).await;
    assert_eq!((&run["state"], &run["end"]["outcome"]), (&"finished".into(), &"answered".into()));
    assert!(run["end"]["result"].as_str().unwrap().starts_with("It is 7"), "{run}");
    assert_eq!((&run["used"]["turns"], &run["used"]["calls"]), (&2.into(), &2.into()));
    let file = api.get(&format!("/v1/runs/{id}/files/total.txt")).await;
    assert_eq!((file.status.as_u16(), &file.body[..]), (200, &b"7"[..]));
    assert_eq!(file.headers["x-content-type-options"], "nosniff");
    api.get(&format!("/v1/runs/{id}/files/none.txt")).await.refused(404, "file_not_found");
    // The model was told of the data, and of the day.
    let bodies: Vec<_> = model.record().all().into_iter().filter_map(|one| one.body).collect();
    assert!(bodies[0].contains("/mnt/data/a.csv") && bodies[0].contains("2026-03-20"));

    // Asked again under its key, it is the same; another question is not.
    let again = api.send_with("POST", "/v1/runs", &key, wish.to_string()).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(again.json(201)["id"], id);
    assert_eq!(model.record().all().len(), 2);
    let mut other = wish.clone();
    other["question"] = "Why?".into();
    let other = api.send_with("POST", "/v1/runs", &key, other.to_string()).await;
    other.refused(409, "idempotency_request_mismatch");

    // Pages.
    let second = api.ask("answered").await;
    let first = api.get("/v1/runs?limit=1").await.json(200);
    assert_eq!(first["items"][0]["id"], second);
    let next = first["next"].as_str().unwrap();
    let page = api.get(&format!("/v1/runs?limit=100&after={next}")).await.json(200);
    let ids: Vec<_> = page["items"].as_array().unwrap().iter().map(|run| &run["id"]).collect();
    assert!(ids.contains(&&id.into()) && !ids.contains(&&second.clone().into()), "{ids:?}");
    api.get("/v1/runs?after=x").await.refused(422, "invalid_query");

    // Nobody else.
    let mine = format!("/v1/runs/{id}");
    for (method, path) in [
        ("GET", mine.clone()),
        ("GET", format!("{mine}/events")),
        ("GET", format!("{mine}/files/total.txt")),
        ("POST", format!("{mine}/pause")),
        ("POST", format!("{mine}/resume")),
        ("POST", format!("{mine}/cancel")),
        ("POST", format!("{mine}/step")),
        ("POST", format!("{mine}/retry")),
        ("GET", format!("{mine}/turns/1/prompt")),
        ("GET", format!("{mine}/turns/1/calls/c/output")),
        ("GET", format!("{mine}/report")),
    ] {
        stranger.send(method, &path, "").await.refused(404, "run_not_found");
    }
    let change = json!({ "budget": { "turns": 9 } }).to_string();
    stranger.send("PATCH", &mine, change).await.refused(404, "run_not_found");
    assert_eq!(stranger.get("/v1/runs").await.json(200)["items"], json!([]));
    assert_eq!(stranger.get("/v1/data").await.json(200)["items"], json!([]));
    let data = format!("/v1/data/{sha256}");
    stranger.send("DELETE", &data, "").await.refused(404, "data_not_found");
    let stolen = stranger.send("POST", "/v1/runs", wish.to_string()).await;
    stolen.refused(404, "data_not_found");
    let same_key = stranger.send_with("POST", "/v1/runs", &key, wish.to_string()).await;
    same_key.refused(404, "data_not_found");
    assert_eq!(api.send("DELETE", &data, "").await.status, 204);
    api.send("DELETE", &data, "").await.refused(404, "data_not_found");
}

/// The first turn waits until it is let go on.
const SLOW: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "while [ ! -e go ]; do sleep 0.02; done; echo one > note" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo two" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "done" } }]
"#;

pub(crate) async fn a_run_waits_is_looked_at_and_goes_on(world: &World) {
    let _model = world.scripts.add("slow", SLOW).await;
    let api = Api::new(world);
    let id = api.ask("slow").await;
    let path = format!("/v1/runs/{id}");
    let mut events = api.events(&id, "").await;
    events.until("tool_started").await;
    let asked = api.send("POST", &format!("{path}/pause"), "").await.json(202);
    // What runs is not broken off.
    assert_eq!((&asked["state"], &asked["asked"]), (&"running".into(), &json!(["pause"])));
    let sandbox = asked["sandbox"].as_str().unwrap().to_owned();
    let files = format!("/v1/sandboxes/{sandbox}/files/content?path=");
    api.send("PUT", &format!("{files}go"), "").await.json(200);
    events.until("paused").await;
    let paused = api.run(&id).await;
    assert_eq!((&paused["state"], &paused["asked"]), (&"paused".into(), &json!([])));
    assert_eq!(paused["used"]["turns"], 1);
    // Meanwhile everything in it can be looked at.
    assert_eq!(&api.get(&format!("{files}note")).await.body[..], b"one\n");
    let wider = json!({ "budget": { "turns": 77 } }).to_string();
    let wider = api.send("PATCH", &path, wider).await.json(202);
    assert_eq!(wider["state"], "paused");
    // Its worker may have taken it before the answer was written.
    let is_asked = wider["asked"] == json!(["budget"]);
    assert!(is_asked || wider["budget"]["turns"] == 77, "{wider}");
    api.send("POST", &format!("{path}/resume"), "").await.json(202);
    let rest = events.rest().await;
    assert_eq!(rest.last().unwrap()["outcome"], "answered");
    let run = api.run(&id).await;
    assert_eq!((&run["budget"]["turns"], &run["used"]["turns"]), (&77.into(), &3.into()));
    assert_eq!(run.get("sandbox"), None, "it has ended with the run");
    for verb in ["pause", "resume", "cancel"] {
        let late = api.send("POST", &format!("{path}/{verb}"), "").await;
        late.refused(409, "run_finished");
    }
}

pub(crate) async fn a_run_is_cancelled(world: &World) {
    let _model = world.scripts.add("endless", SLOW).await;
    let api = Api::new(world);
    let id = api.ask("endless").await;
    let mut events = api.events(&id, "").await;
    events.until("tool_started").await;
    let path = format!("/v1/runs/{id}");
    let asked = api.send("POST", &format!("{path}/cancel"), "").await.json(202);
    let sandbox = asked["sandbox"].as_str().unwrap();
    let files = format!("/v1/sandboxes/{sandbox}/files/content?path=");
    api.send("PUT", &format!("{files}go"), "").await.json(200);
    assert_eq!(events.rest().await.last().unwrap()["outcome"], "cancelled");
    let run = api.run(&id).await;
    assert_eq!((&run["end"]["outcome"], &run["used"]["turns"]), (&"cancelled".into(), &1.into()));
    // There is a result nevertheless.
    assert!(run["end"]["result"].is_string(), "{run}");
    let ended = api.get(&format!("/v1/runs/{id}/files/result.md")).await;
    assert_eq!(ended.status, 200);
}

pub(crate) async fn what_cannot_be_a_run_is_refused(world: &World) {
    let api = Api::new(world);
    let none = "0".repeat(64);
    for (wish, status, code) in [
        (json!({}), 422, "invalid_body"),
        (json!({ "question": "" }), 422, "invalid_body"),
        (json!({ "question": " \n" }), 422, "invalid"),
        (json!({ "question": "?", "turns": 3 }), 422, "invalid_body"),
        (json!({ "question": "?", "budget": { "turns": 0 } }), 422, "invalid_body"),
        (json!({ "question": "?", "now": "yesterday" }), 422, "invalid"),
        (json!({ "question": "?", "operation": "none" }), 422, "model_not_offered"),
        (json!({ "question": "?", "model": "large" }), 422, "model_not_offered"),
        (json!({ "question": "?", "template": "none" }), 404, "template_not_found"),
        (json!({ "question": "?", "tier": "process" }), 422, "invalid_body"),
        (json!({ "question": "?", "limits": { "gpus": 1 } }), 422, "invalid_body"),
        (json!({ "question": "?", "limits": { "pids": "8" } }), 422, "invalid_body"),
        (json!({ "question": "?", "limits": { "pids": 0 } }), 422, "limit_out_of_range"),
        (
            json!({ "question": "?", "limits": { "disk_bytes": 1_u64 << 50 } }),
            422,
            "limit_out_of_range",
        ),
        (
            json!({ "question": "?", "limits": { "wall_ms": 86_400_001 } }),
            422,
            "limit_out_of_range",
        ),
        (json!({ "question": "?", "data": [{ "name": "a.csv" }] }), 422, "invalid"),
        (
            json!({ "question": "?", "data": [{ "name": "a", "sha256": none }] }),
            404,
            "data_not_found",
        ),
        (json!({ "question": "?", "data": [{ "name": "a", "sha256": "x" }] }), 422, "invalid_body"),
    ] {
        api.send("POST", "/v1/runs", wish.to_string()).await.refused(status, code);
    }
    for name in ["..", "a/b", "/etc/passwd", "datasets.json", "a\nb"] {
        let wish = json!({ "question": "?", "data": [{ "name": name, "content": "x" }] });
        api.send("POST", "/v1/runs", wish.to_string()).await.refused(422, "invalid");
    }
    let twice = json!([{ "name": "a.csv", "content": "x" }, { "name": "a.csv", "content": "y" }]);
    let wish = json!({ "question": "?", "data": twice });
    api.send("POST", "/v1/runs", wish.to_string()).await.refused(422, "invalid");
    api.send("POST", "/v1/data", vec![0; (1 << 20) + 1]).await.refused(413, "file_too_large");
    for path in ["/v1/runs/x", "/v1/runs/aaaaaaaaaaaaaaaaaaaaaaaaaa", "/v1/runs/..%2fx/events"] {
        api.get(path).await.refused(404, "run_not_found");
    }
    let unkeyed = Api { key: "e2b_0000000000000000000000000000000000000000", ..Api::new(world) };
    unkeyed.get(&format!("/v1/data/{none}/description")).await.refused(401, "unauthenticated");
    for path in ["/v1/runs", "/v1/data"] {
        unkeyed.get(path).await.refused(401, "unauthenticated");
        unkeyed.send("POST", path, "{}").await.refused(401, "unauthenticated");
    }
}

pub(crate) async fn fixed_rules_answer_where_there_is_no_model(world: &World) {
    let api = Api::new(world);
    let sales = "region,amount\nnorth,1\nsouth,2\nnorth,4\n";
    let wish = json!({
        "question": "What is the total amount by region?",
        "data": [{ "name": "sales.csv", "content": sales }],
    });
    let made = api.send("POST", "/v1/runs", wish.to_string()).await.json(201);
    assert_eq!((&made["model"], made.get("operation")), (&"heuristic".into(), None));
    let id = made["id"].as_str().unwrap();
    let events = api.events(id, "").await.rest().await;
    let last = events.last().unwrap();
    assert_eq!(last["outcome"], "answered", "{last}");
    // The columns were found by whoever described the file.
    let result = last["result"].as_str().unwrap();
    for part in ["north", "5", "south", "2"] {
        assert!(result.contains(part), "no {part} in {result}");
    }
}

/// O4: a tenant's figures are made of the events of its own runs.
pub(crate) async fn figures_are_of_ones_own_runs(world: &World) {
    let _model = world.scripts.add("figures", crate::figures::SCRIPT).await;
    let (one, two) = (Api::new(world), Api::stranger(world));
    let before = one.stats().await["day"]["ended"]["answered"].as_u64().unwrap();
    let id = one.ask("figures").await;
    one.events(&id, "").await.rest().await;
    while one.stats().await["day"]["ended"]["answered"].as_u64().unwrap() == before {
        tokio::task::yield_now().await;
    }
    let none = two.stats().await;
    assert_eq!((&none["alive"]["total"], &none["day"]["started"]), (&0.into(), &0.into()));
    assert_eq!((&none["day"]["turns"], none["day"].get("cache_share")), (&0.into(), None));

    let id = two.ask("figures").await;
    two.events(&id, "").await.rest().await;
    let stats = loop {
        let stats = two.stats().await;
        if stats["day"]["ended"]["answered"] == 1 {
            break stats;
        }
        tokio::task::yield_now().await;
    };
    let run = two.run(&id).await;
    let used = &run["used"];
    assert_eq!(stats["alive"], json!({ "total": 0, "waiting": 0, "running": 0, "paused": 0 }));
    let day = &stats["day"];
    assert_eq!((&day["started"], &day["turns"], &day["calls"]), (&1.into(), &2.into(), &2.into()));
    assert_eq!((&day["turns"], &day["calls"]), (&used["turns"], &used["calls"]));
    assert_eq!(day["faults"], json!({ "exit": 1 }));
    assert_eq!((&day["failures"], &day["guards"]), (&json!({}), &json!({})));
    let tokens = day["tokens"].as_object().unwrap().values();
    assert_eq!(tokens.filter_map(Value::as_u64).sum::<u64>(), used["tokens"].as_u64().unwrap());
    assert_eq!((&day["nano_dollars"], &day["cache_share"]), (&used["nano_dollars"], &0.75.into()));
    assert!(day["sandbox_ms"].as_u64().unwrap() > 0, "{stats}");
    assert!(day["started_per_second"].as_f64().unwrap() > 0.0, "{stats}");
    assert_eq!(stats["hour"]["turns"], day["turns"]);
}
