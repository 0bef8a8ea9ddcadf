//! Tool calls in answers of models, which wait until a human has decided.
//!
//! Requirements: A19, G4

use std::time::Duration;

use belljar_domain::approval::{ApprovalAction, ApprovalAnswer};
use belljar_domain::network::{CassetteId, Decision, Miss, Policy, Reason, Tape};
use belljar_gateway::Config;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;

use crate::world::{Answer, Sandbox, World, messages, request};

const SCRIPT: &str = "[[turn]]\nsay = \"Looking\"\n\
                      call = [{ tool = \"Bash\", input = { command = \"ls -l\" } }]\n";
const STREAMED: &str = r#"{"model":"claude-x","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"Bash","input_schema":{"type":"object"}}]}"#;
const WHOLE: &str = r#"{"model":"claude-x","max_tokens":100,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"Bash","input_schema":{"type":"object"}}]}"#;
const RESPONSES: &str = r#"{"model":"gpt-x","stream":true,"input":"hi","tools":[{"type":"function","name":"Bash","parameters":{"type":"object"}}]}"#;
const CHAT: &str = r#"{"model":"gpt-x","stream":true,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"Bash","parameters":{"type":"object"}}}]}"#;

fn answer(is_approved: bool, message: Option<&str>) -> ApprovalAnswer {
    ApprovalAnswer { is_approved, message: message.map(str::to_owned) }
}

/// Asks the model; the first call is decided so.
async fn asked(
    world: &World,
    sandbox: &Sandbox,
    (path, body): (&str, &str),
    decision: ApprovalAnswer,
) -> Answer {
    let token = world.held_token(sandbox, "Bash", 60);
    let number = world.asked() + 1;
    let asking = sandbox.ask(request(Method::POST, path, &token, body));
    let deciding = async {
        let (question, asked) = world.approval(number).await;
        assert_eq!((asked.action, asked.operation.as_str()), (ApprovalAction::ToolCall, "llm"));
        let tool = asked.tool.unwrap();
        assert_eq!(tool.tool, "Bash");
        assert_eq!(tool.bytes, tool.input.len() as u64);
        let input: serde_json::Value = serde_json::from_str(&tool.input).unwrap();
        assert_eq!(input["command"], "ls -l");
        world.gateway.answer_approval(question, decision);
    };
    tokio::join!(asking, deciding).0
}

#[tokio::test]
async fn an_approved_call_reaches_the_client_as_the_model_made_it() {
    let world = World::start(SCRIPT, "").await;
    for (path, body) in [
        ("/v1/messages", STREAMED),
        ("/v1/messages", WHOLE),
        ("/v1/responses", RESPONSES),
        ("/v1/chat/completions", CHAT),
    ] {
        let sandbox = world.sandbox("a");
        let answered = asked(&world, &sandbox, (path, body), answer(true, None)).await;
        assert_eq!((answered.status, answered.cut), (StatusCode::OK, false), "{path}");
        assert!(answered.body.contains("Looking"), "{}", answered.body);
        assert!(answered.body.contains("ls -l"), "{}", answered.body);
        let rows = world.rows(&sandbox, 2).await;
        let charged = rows.iter().filter(|row| row.charge.is_some()).count();
        assert_eq!(charged, 1, "the answer is paid for once");
        let reasons: Vec<_> = rows.iter().map(|row| (row.decision, row.reason)).collect();
        assert!(reasons.contains(&(Decision::Allowed, Reason::Approved)), "{reasons:?}");
    }
}

#[tokio::test]
async fn a_denied_call_ends_the_turn_with_the_reason() {
    let world = World::start(SCRIPT, "").await;
    for (path, body) in [
        ("/v1/messages", STREAMED),
        ("/v1/messages", WHOLE),
        ("/v1/responses", RESPONSES),
        ("/v1/chat/completions", CHAT),
    ] {
        let sandbox = world.sandbox("a");
        let no = answer(false, Some("not in this repository"));
        let answered = asked(&world, &sandbox, (path, body), no).await;
        assert_eq!((answered.status, answered.cut), (StatusCode::OK, false), "{path}");
        assert!(answered.body.contains("Looking"), "{}", answered.body);
        assert!(answered.body.contains("not in this repository"), "{}", answered.body);
        assert!(!answered.body.contains("ls -l"), "{}", answered.body);
        if path == "/v1/messages" {
            assert!(answered.body.contains("\"end_turn\""), "{}", answered.body);
            assert!(!answered.body.contains("\"tool_use\""), "{}", answered.body);
        }
        let rows = world.rows(&sandbox, 2).await;
        let reasons: Vec<_> = rows.iter().map(|row| (row.decision, row.reason)).collect();
        assert!(reasons.contains(&(Decision::Denied, Reason::NotApproved)), "{reasons:?}");
    }
}

#[tokio::test]
async fn a_call_without_a_decision_is_denied() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.held_token(&sandbox, "always", 1);
    let answered = sandbox.ask(messages(&token, STREAMED)).await;
    assert!(answered.body.contains("within 1 seconds"), "{}", answered.body);
    assert!(!answered.body.contains("ls -l"), "{}", answered.body);
    let rows = world.rows(&sandbox, 2).await;
    assert!(rows.iter().any(|row| row.reason == Reason::NotApproved));
}

/// A decision can take hours. The answer is paid for before, and its row is there.
#[tokio::test]
async fn an_answer_is_settled_while_its_call_waits() {
    let world = World::start(SCRIPT, "tenant_budget = { requests = 1 }\n").await;
    for (tenant, body) in [("a", STREAMED), ("b", WHOLE)] {
        let sandbox = world.sandbox(tenant);
        let number = world.asked() + 1;
        let token = world.held_token(&sandbox, "always", 60);
        let (_, answer_body) = sandbox.begin(messages(&token, body)).await;
        world.approval(number).await;
        let rows = world.rows(&sandbox, 1).await;
        assert_eq!(rows.len(), 1, "the question has no row yet: {rows:?}");
        assert_eq!((rows[0].decision, rows[0].reason), (Decision::Allowed, Reason::Operation));
        assert!(rows[0].charge.is_some(), "{rows:?}");
        // Nothing is under way that may give back something: 402, and not 429.
        let more = sandbox.ask(messages(&token, body)).await;
        assert_eq!(more.status, StatusCode::PAYMENT_REQUIRED, "{more:?}");
        drop(answer_body);
    }
}

/// Nothing of the call is there while it waits, and a client that leaves takes its question back.
#[tokio::test]
async fn a_client_that_leaves_has_seen_nothing_of_the_call() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.held_token(&sandbox, "always", 60);
    let (head, mut body) = sandbox.begin(messages(&token, STREAMED)).await;
    assert_eq!(head.status, StatusCode::OK);
    let (question, _) = world.approval(1).await;
    let mut seen = Vec::new();
    while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_millis(300), body.frame()).await
    {
        seen.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("Looking") && !seen.contains("Bash"), "{seen}");
    drop(body);
    // A decision that comes too late is about nothing.
    let rows = world.rows(&sandbox, 2).await;
    assert!(rows.iter().any(|row| row.reason == Reason::Ended), "{rows:?}");
    world.gateway.answer_approval(question, answer(true, None));
    assert_eq!(world.asked(), 1);
}

#[tokio::test]
async fn tools_that_the_policy_does_not_name_do_not_wait() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    for token in [world.held_token(&sandbox, "Write,Edit", 60), world.token(&sandbox)] {
        let answered = sandbox.ask(messages(&token, STREAMED)).await;
        assert!(answered.body.contains("ls -l"), "{}", answered.body);
    }
    assert_eq!(world.asked(), 0);
}

/// A cassette has the call as the model made it, and it waits again when it is played.
#[tokio::test]
async fn calls_of_a_replay_wait_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("[gateway]\ncassettes = {:?}\n", folder.path());
    let world = World::start(SCRIPT, &settings).await;
    let cassette: CassetteId = "talk".parse().unwrap();
    let play = |tape| Policy { tape, ..Policy::default() };
    let sandbox = world.sandbox("a");
    let tape = Tape::Record { cassette: cassette.clone() };
    world.gateway.change(&sandbox.id, play(tape)).unwrap();
    let path = ("/v1/messages", STREAMED);
    let denied = asked(&world, &sandbox, path, answer(false, None)).await;
    assert!(!denied.body.contains("ls -l"), "{}", denied.body);
    world.rows(&sandbox, 2).await;
    world.gateway.close(&sandbox.id).unwrap();

    let sandbox = world.sandbox("a");
    let tape = Tape::Replay { cassette, miss: Miss::Strict };
    world.gateway.change(&sandbox.id, play(tape.clone())).unwrap();
    let allowed = asked(&world, &sandbox, path, answer(true, None)).await;
    assert!(allowed.body.contains("ls -l"), "{}", allowed.body);
    assert_eq!(world.model.record().total(), 1, "the model is not asked again");

    // Without its operation, nothing says how to find a call in an answer that is played.
    let sandbox = world.sandbox("a");
    world.gateway.change(&sandbox.id, play(tape)).unwrap();
    let token = world.held_token(&sandbox, "Bash", 60);
    world.gateway.reload(Config::parse(&settings).unwrap()).unwrap();
    let refused = sandbox.ask(messages(&token, STREAMED)).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
    assert!(!refused.body.contains("ls -l"), "{}", refused.body);
}
