//! Whatever an upstream does, its credential does not come back.
//!
//! Requirements: G1

use belljar_domain::network::{Decision, Reason};
use http::StatusCode;

use crate::world::{HELLO, KEY, STREAMED, World, messages};

fn echo(place: &str) -> String {
    format!("[[turn]]\nsay = \"a b c\"\n[turn.fault]\nkind = \"echo\"\nplace = \"{place}\"\n")
}

#[tokio::test]
async fn a_credential_that_comes_back_is_cut() {
    for place in ["body", "headers", "text", "split"] {
        for body in [HELLO, STREAMED] {
            let world = World::start(&echo(place), "").await;
            let sandbox = world.sandbox("a");
            let answer = sandbox.ask(messages(&world.token(&sandbox), body)).await;
            answer.has_no_key();
            let text: String = answer
                .body
                .split("\"text\":\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .collect();
            assert!(!text.contains(&KEY[..8]), "{place}: {}", answer.body);
            let is_whole = !answer.body.contains("event:");
            if is_whole {
                assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{place}: {answer:?}");
            } else {
                assert!(answer.cut || answer.body.contains("event: error"), "{place}: {answer:?}");
            }
            let row = world.rows(&sandbox, 1).await.remove(0);
            assert_eq!(
                (row.decision, row.reason),
                (Decision::Failed, Reason::BadAnswer),
                "{place}"
            );
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_not_passed_on() {
    let elsewhere = World::start("[[turn]]\nsay = \"never\"\n", "").await;
    let script = format!(
        "[[turn]]\n[turn.fault]\nkind = \"redirect\"\nstatus = 307\nto = \"http://{}/v1/messages\"\n",
        elsewhere.model.address()
    );
    let world = World::start(&script, "").await;
    let sandbox = world.sandbox("a");
    let answer = sandbox.ask(messages(&world.token(&sandbox), HELLO)).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{answer:?}");
    assert!(!answer.headers.contains_key("location"));
    assert_eq!(elsewhere.model.record().total(), 0);
}

#[tokio::test]
async fn what_cannot_be_searched_is_not_passed_on() {
    for fault in ["kind = \"gzip\"", "kind = \"gzip-bomb\"\nmegabytes = 4"] {
        let script = format!("[[turn]]\nsay = \"x\"\n[turn.fault]\n{fault}\n");
        let world = World::start(&script, "").await;
        let sandbox = world.sandbox("a");
        let answer = sandbox.ask(messages(&world.token(&sandbox), HELLO)).await;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{fault}: {answer:?}");
    }
}

#[tokio::test]
async fn an_endless_answer_ends() {
    for what in ["events", "line"] {
        let script =
            format!("[[turn]]\nsay = \"x\"\n[turn.fault]\nkind = \"endless\"\nwhat = \"{what}\"\n");
        let world = World::start(&script, "max_answer = 300000\n").await;
        let sandbox = world.sandbox("a");
        let answer = sandbox.ask(messages(&world.token(&sandbox), STREAMED)).await;
        assert!(answer.body.len() <= 301_000, "{}", answer.body.len());
        assert!(answer.cut || answer.body.contains("event: error"), "{what}");
        let row = world.rows(&sandbox, 1).await.remove(0);
        assert_eq!((row.decision, row.reason), (Decision::Failed, Reason::BadAnswer), "{what}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_says_so() {
    let script = "[[turn]]\nsay = \"a b c\"\n[turn.fault]\nkind = \"cut\"\nafter = 4\n";
    let world = World::start(script, "").await;
    let sandbox = world.sandbox("a");
    let answer = sandbox.ask(messages(&world.token(&sandbox), STREAMED)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.cut || answer.body.contains("event: error"), "{answer:?}");
    let row = world.rows(&sandbox, 1).await.remove(0);
    assert_eq!((row.decision, row.reason), (Decision::Failed, Reason::Upstream));
    assert!(row.charge.is_some_and(|charge| charge.assumed));
}

#[tokio::test]
async fn a_wrong_credential_is_the_operators_trouble() {
    let script = "[[turn]]\n[turn.fault]\nkind = \"status\"\nstatus = 401\n";
    let world = World::start(script, "").await;
    let sandbox = world.sandbox("a");
    let answer = sandbox.ask(messages(&world.token(&sandbox), HELLO)).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{answer:?}");
    assert_eq!(answer.headers["x-should-retry"], "false");
}
