//! OpenTelemetry of programs inside, on its way to collectors.
//!
//! Requirements: O1, G4

use belljar_domain::network::{Decision, Reason};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::plain::{Seen, upstream};
use crate::world::{Answer, KEY, Sandbox, World, request};

const OWN_KEY: &str = "sk-of-tenant-b-9f2c";

struct Collectors {
    world: World,
    usual: Seen,
    of_b: Seen,
}

/// A collector for all, and one of the tenant `b`.
async fn collectors() -> Collectors {
    collectors_with("").await
}

/// `more` is of the operation.
async fn collectors_with(more: &str) -> Collectors {
    let ((usual, seen), (own, of_b)) = (upstream().await, upstream().await);
    let folder = tempfile::tempdir().unwrap();
    let (key, own_key) = (folder.path().join("key"), folder.path().join("own"));
    std::fs::write(&key, KEY).unwrap();
    std::fs::write(&own_key, OWN_KEY).unwrap();
    let settings = format!(
        "[operations.other]\nkind = \"otlp\"\nplaintext = true\nupstream = \"http://{usual}/all\"\n\
         credential = {{ file = {key:?}, as = \"bearer\" }}\nmax_body = 10000\n\
         tenant_budget = {{ requests = 3 }}\n{more}\
         [operations.other.tenants.b]\nplaintext = true\nupstream = \"http://{own}\"\n\
         credential = {{ file = {own_key:?}, header = \"x-team\" }}\n\
         [operations.other.tenants.c]\nplaintext = true\nupstream = \"http://{own}\"\n"
    );
    let world = World::start("[[turn]]\nsay = \"x\"\n", &settings).await;
    Collectors { world, usual: seen, of_b }
}

fn spans() -> Value {
    let forged = json!({ "key": "belljar.tenant", "value": { "stringValue": "another" } });
    json!({ "resourceSpans": [{ "resource": { "attributes": [forged] }, "scopeSpans": [] }] })
}

async fn post(world: &World, sandbox: &Sandbox, path: &str, body: &str) -> Answer {
    let token = world.token_for(sandbox, &["other"], 300, None);
    let path = format!("/operations/other{path}");
    sandbox.ask(request(Method::POST, &path, &token, body)).await
}

/// The attributes that came, of the first resource.
fn attributes(answer: &Answer) -> Value {
    let (_, body) = answer.body.split_once(" {").unwrap_or_else(|| panic!("{answer:?}"));
    let body: Value = serde_json::from_str(&format!("{{{body}")).unwrap();
    body["resourceSpans"][0]["resource"]["attributes"].clone()
}

/// O1: what a program exports says whose it is, and goes to its tenant's collector.
#[tokio::test]
async fn telemetry_is_attributed_and_goes_to_its_tenants_collector() {
    let Collectors { world, usual, of_b } = collectors().await;
    for (tenant, target) in [("a", "/all/v1/traces"), ("b", "/v1/traces"), ("c", "/v1/traces")] {
        let sandbox = world.sandbox(tenant);
        let answer = post(&world, &sandbox, "/v1/traces?x=1", &spans().to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        assert!(answer.body.starts_with(&format!("POST {target} ")), "{answer:?}");
        let text =
            |name: &str, text: &str| json!({ "key": name, "value": { "stringValue": text } });
        let want = [text("belljar.tenant", tenant), text("belljar.sandbox", sandbox.id.as_str())];
        assert_eq!(attributes(&answer), json!(want));
        let row = world.rows(&sandbox, 1).await.remove(0);
        assert_eq!((row.decision, row.reason), (Decision::Allowed, Reason::Operation));
    }
    let usual = usual.lock().unwrap();
    let [(_, headers)] = &usual[..] else { panic!("{usual:?}") };
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    let of_b = of_b.lock().unwrap();
    let [(_, b), (_, c)] = &of_b[..] else { panic!("{of_b:?}") };
    assert_eq!(b["x-team"], OWN_KEY);
    // The operation's credential is for its own upstream.
    assert!(!b.contains_key("authorization") && !c.contains_key("authorization"));
    assert!(!c.contains_key("x-team"));
}

#[tokio::test]
async fn what_is_no_telemetry_goes_nowhere() {
    let Collectors { world, usual, .. } = collectors().await;
    let sandbox = world.sandbox("a");
    let spans = spans().to_string();
    let large = format!("{spans}{}", " ".repeat(10_000));
    for (nth, (path, body, status, reason)) in [
        ("/v1/traces", "{", 400, Reason::Malformed),
        ("/v1/logs", &*spans, 400, Reason::Malformed),
        ("/v1/traces", &*large, 413, Reason::Malformed),
        ("/v1/profiles", &*spans, 403, Reason::Path),
        ("/", &*spans, 403, Reason::Path),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = post(&world, &sandbox, path, body).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {answer:?}");
        let row = world.rows(&sandbox, nth + 1).await.remove(nth);
        assert_eq!((row.decision, row.reason), (Decision::Denied, reason), "{path}");
    }
    assert!(usual.lock().unwrap().is_empty());
}

#[tokio::test]
async fn requests_count_against_the_budget() {
    let Collectors { world, usual, .. } = collectors().await;
    let sandbox = world.sandbox("a");
    for nth in 0..5 {
        let answer = post(&world, &sandbox, "/v1/traces", &spans().to_string()).await;
        let row = world.rows(&sandbox, nth + 1).await.remove(nth);
        if nth < 3 {
            assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        } else {
            assert_eq!(answer.status, StatusCode::PAYMENT_REQUIRED, "{answer:?}");
            assert_eq!((row.decision, row.reason), (Decision::Denied, Reason::Budget));
        }
    }
    assert_eq!(usual.lock().unwrap().len(), 3);
}

/// A tenant with a collector of its own draws on the budgets of the operation, like all others.
#[tokio::test]
async fn a_tenants_own_collector_has_no_budget_of_its_own() {
    let Collectors { world, usual, of_b } = collectors_with("budget = { requests = 4 }\n").await;
    let (a, b) = (world.sandbox("a"), world.sandbox("b"));
    let spans = spans().to_string();
    for nth in 0..4 {
        let answer = post(&world, &b, "/v1/traces", &spans).await;
        let want = if nth < 3 { StatusCode::OK } else { StatusCode::PAYMENT_REQUIRED };
        assert_eq!(answer.status, want, "{nth}: {answer:?}");
    }
    // The operation has one left for all.
    assert_eq!(post(&world, &a, "/v1/traces", &spans).await.status, StatusCode::OK);
    let answer = post(&world, &a, "/v1/traces", &spans).await;
    assert_eq!(answer.status, StatusCode::PAYMENT_REQUIRED, "{answer:?}");
    assert_eq!((of_b.lock().unwrap().len(), usual.lock().unwrap().len()), (3, 1));
}

/// To read a body costs something, so it is put aside before.
#[tokio::test]
async fn bodies_that_cannot_be_read_count_against_the_budget() {
    let Collectors { world, usual, .. } = collectors().await;
    let sandbox = world.sandbox("a");
    for nth in 0..4 {
        let answer = post(&world, &sandbox, "/v1/traces", "{").await;
        let want = if nth < 3 { StatusCode::BAD_REQUEST } else { StatusCode::PAYMENT_REQUIRED };
        assert_eq!(answer.status, want, "{nth}: {answer:?}");
    }
    assert!(usual.lock().unwrap().is_empty());
}
