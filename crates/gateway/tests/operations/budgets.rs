//! Budgets hold, however many ask at once and however they ask.
//!
//! Requirements: G5

use std::sync::Arc;

use belljar_domain::network::{Decision, Reason};
use belljar_peer_proto::gateway::Budget;
use http::{Method, StatusCode};

use crate::world::{HELLO, STREAMED, World, messages, request};

/// 1000 tokens in, 50 out: what the script says that it used.
const COST: u64 = 1000 * 3000 + 50 * 15_000;
const SCRIPT: &str = "[[turn]]\nsay = \"hello there\"\n";

fn dollars(nano_dollars: u64) -> Option<Budget> {
    Some(Budget { nano_dollars: Some(nano_dollars), ..Budget::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once_never_overspend() {
    // Room for seven, had they come one after the other.
    let budget = COST * 7 + COST / 2;
    let world = Arc::new(World::start(SCRIPT, "").await);
    let sandbox = Arc::new(world.sandbox("a"));
    let token = world.token_for(&sandbox, &["llm"], 300, dollars(budget));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..1000 {
        let (sandbox, token) = (Arc::clone(&sandbox), token.clone());
        let body = if number % 2 == 0 { HELLO } else { STREAMED };
        tasks.spawn(async move { sandbox.ask(messages(&token, body)).await.status });
    }
    let statuses = tasks.join_all().await;
    let served = statuses.iter().filter(|status| **status == StatusCode::OK).count();
    let refused = |status: &&StatusCode| {
        **status == StatusCode::PAYMENT_REQUIRED || **status == StatusCode::TOO_MANY_REQUESTS
    };
    assert_eq!(served + statuses.iter().filter(refused).count(), 1000, "{statuses:?}");
    assert!((1..=7).contains(&served), "{served}");
    assert_eq!(world.model.record().total(), served as u64);
    let rows = world.rows(&sandbox, 1000).await;
    let spent: u64 =
        rows.iter().filter_map(|row| row.charge.as_ref()).map(|c| c.nano_dollars).sum();
    assert_eq!(spent, COST * served as u64);
    assert!(spent <= budget);
    // What they gave back is there again, to the last token.
    let mut more = 0;
    while sandbox.ask(messages(&token, HELLO)).await.status == StatusCode::OK {
        more += 1;
    }
    let end = sandbox.ask(messages(&token, HELLO)).await;
    assert_eq!(end.status, StatusCode::PAYMENT_REQUIRED, "{end:?}");
    assert_eq!(end.json()["error"]["type"], "billing_error");
    assert_eq!(end.headers["x-should-retry"], "false");
    assert!(served + more <= 7, "{served} + {more}");
}

#[tokio::test]
async fn streamed_and_whole_answers_cost_the_same() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let chat = r#"{"model":"gpt-x","messages":[{"role":"user","content":"hi"}]}"#;
    let chat_streamed =
        r#"{"model":"gpt-x","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let responses = r#"{"model":"gpt-x","input":"hi"}"#;
    let responses_streamed = r#"{"model":"gpt-x","stream":true,"input":"hi"}"#;
    let asked = [
        ("/v1/messages", HELLO),
        ("/v1/messages", STREAMED),
        ("/v1/chat/completions", chat),
        ("/v1/chat/completions", chat_streamed),
        ("/v1/responses", responses),
        ("/v1/responses", responses_streamed),
    ];
    for (nth, (path, body)) in asked.into_iter().enumerate() {
        let answer = sandbox.ask(request(Method::POST, path, &token, body)).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
        let row = world.rows(&sandbox, nth + 1).await.remove(nth);
        let charge = row.charge.unwrap();
        assert!(!charge.assumed, "{path} {body}");
        assert_eq!((charge.input, charge.output), (1000, 50), "{path} {body}");
        assert_eq!(charge.nano_dollars, COST, "{path} {body}");
        assert!(row.first_byte_micros.is_some());
        assert_eq!(row.bytes.into, answer.body.len() as u64);
    }
}

#[tokio::test]
async fn usage_that_was_asked_for_by_us_is_not_shown() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let body = r#"{"model":"gpt-x","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = sandbox.ask(request(Method::POST, "/v1/chat/completions", &token, body)).await;
    assert!(answer.body.contains("[DONE]") && answer.body.contains("there"), "{}", answer.body);
    assert!(!answer.body.contains("prompt_tokens"), "{}", answer.body);
    let kept = world.model.record().all().remove(0).body.unwrap();
    assert!(kept.contains("include_usage"), "{kept}");
}

#[tokio::test]
async fn without_a_price_nothing_goes_out() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let body = HELLO.replace("claude-x", "nobody-knows-1");
    let answer = sandbox.ask(messages(&token, &body)).await;
    assert_eq!(answer.status, StatusCode::PAYMENT_REQUIRED, "{answer:?}");
    let row = world.rows(&sandbox, 1).await.remove(0);
    assert_eq!((row.decision, row.reason), (Decision::Denied, Reason::UnknownPrice));
    assert_eq!(world.model.record().total(), 0);
}

#[tokio::test]
async fn an_answer_without_usage_costs_what_was_put_aside() {
    let script = "[[turn]]\nsay = \"hello\"\n[turn.fault]\nkind = \"no-usage\"\n";
    let world = World::start(script, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    for (nth, body) in [HELLO, STREAMED].into_iter().enumerate() {
        assert_eq!(sandbox.ask(messages(&token, body)).await.status, StatusCode::OK);
        let charge = world.rows(&sandbox, nth + 1).await.remove(nth).charge.unwrap();
        assert!(charge.assumed && charge.output == 100 && charge.nano_dollars > 0, "{charge:?}");
    }
}

#[tokio::test]
async fn an_error_of_the_upstream_is_passed_on_and_costs_nothing() {
    let script = "[[turn]]\n[turn.fault]\nkind = \"status\"\nstatus = 429\nretry-after = 7\n";
    let world = World::start(script, "").await;
    let sandbox = world.sandbox("a");
    let answer = sandbox.ask(messages(&world.token(&sandbox), HELLO)).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers["retry-after"], "7");
    let charge = world.rows(&sandbox, 1).await.remove(0).charge.unwrap();
    assert_eq!((charge.nano_dollars, charge.assumed), (0, false));
}

#[tokio::test]
async fn leaving_at_the_last_byte_is_paid_for() {
    let script = "[[turn]]\nsay = \"a b c d\"\n[turn.fault]\nkind = \"stall\"\nafter = 5\n";
    let world = World::start(script, "").await;
    let sandbox = world.sandbox("a");
    let (_, mut body) = sandbox.begin(messages(&world.token(&sandbox), STREAMED)).await;
    let mut text = String::new();
    while !text.contains("text_delta") {
        let frame = http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
    drop(body);
    let row = world.rows(&sandbox, 1).await.remove(0);
    assert_eq!((row.decision, row.reason), (Decision::Failed, Reason::Ended));
    let charge = row.charge.unwrap();
    assert!(charge.assumed && charge.input == 1000 && charge.output > 0, "{charge:?}");
}

#[tokio::test]
async fn leaving_before_the_answer_is_paid_for() {
    let world = World::start(SCRIPT, "").await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.move_model(silent.local_addr().unwrap());
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let came = async {
        let (mut stream, _) = silent.accept().await.unwrap();
        let mut first = [0];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first).await.unwrap();
        stream
    };
    let _stream = tokio::select! {
        head = sandbox.begin(messages(&token, STREAMED)) => panic!("nobody answers: {head:?}"),
        stream = came => stream,
    };
    let row = world.rows(&sandbox, 1).await.remove(0);
    assert_eq!(row.decision, Decision::Failed);
    assert!(row.charge.is_some_and(|charge| charge.assumed && charge.nano_dollars > 0));
}

#[tokio::test]
async fn tenants_and_operations_have_budgets_of_their_own() {
    let settings = "budget = { requests = 3 }\ntenant_budget = { requests = 2 }\n";
    let world = World::start(SCRIPT, settings).await;
    let (a, b) = (world.sandbox("a"), world.sandbox("b"));
    let (of_a, of_b) = (world.token(&a), world.token(&b));
    assert_eq!(a.ask(messages(&of_a, HELLO)).await.status, StatusCode::OK);
    assert_eq!(a.ask(messages(&of_a, HELLO)).await.status, StatusCode::OK);
    assert_eq!(a.ask(messages(&of_a, HELLO)).await.status, StatusCode::PAYMENT_REQUIRED);
    assert_eq!(b.ask(messages(&of_b, HELLO)).await.status, StatusCode::OK);
    assert_eq!(b.ask(messages(&of_b, HELLO)).await.status, StatusCode::PAYMENT_REQUIRED);
    // Reading settings again is no way to a new budget, but a larger one is.
    world.reload(settings);
    assert_eq!(b.ask(messages(&of_b, HELLO)).await.status, StatusCode::PAYMENT_REQUIRED);
    world.reload("budget = { requests = 4 }\ntenant_budget = { requests = 2 }\n");
    assert_eq!(b.ask(messages(&of_b, HELLO)).await.status, StatusCode::OK);
    assert_eq!(world.model.record().total(), 4);
}

#[tokio::test]
async fn requests_of_a_minute_are_bounded() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let budget = Budget { requests_per_minute: Some(2), ..Budget::default() };
    let token = world.token_for(&sandbox, &["llm"], 300, Some(budget));
    let began = std::time::Instant::now();
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.status, StatusCode::OK);
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.status, StatusCode::OK);
    let answer = sandbox.ask(messages(&token, HELLO)).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    let passed = began.elapsed().as_secs() + 1;
    assert!((60..=62 + passed).contains(&(wait + passed)), "{wait} after {passed} s at most");
}
