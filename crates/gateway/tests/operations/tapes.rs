//! A conversation that is recorded once, and played without a model or money.
//!
//! Requirements: N5

use belljar_domain::network::{Decision, Miss, Policy, Reason, Tape};
use http::{Method, StatusCode};
use serde_json::json;

use crate::plain::upstream;
use crate::world::{HELLO, STREAMED, World, messages, request};

const SCRIPT: &str = "[[turn]]\nsay = \"hello\"\n";

#[tokio::test]
async fn a_recorded_conversation_is_played_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("[gateway]\ncassettes = {:?}\n", folder.path());
    let world = World::start(SCRIPT, &settings).await;
    let cassette: belljar_domain::network::CassetteId = "talk".parse().unwrap();
    let sandbox = world.sandbox("a");
    let tape = Tape::Record { cassette: cassette.clone() };
    world.gateway.change(&sandbox.id, Policy { tape, ..Policy::default() }).unwrap();
    let token = world.token(&sandbox);
    let whole = sandbox.ask(messages(&token, HELLO)).await;
    let streamed = sandbox.ask(messages(&token, STREAMED)).await;
    assert_eq!((whole.status, streamed.status), (StatusCode::OK, StatusCode::OK));
    // What the gateway refuses is not part of the world.
    assert_eq!(sandbox.ask(messages("bjt_wrong", HELLO)).await.status, StatusCode::UNAUTHORIZED);
    let rows = world.rows(&sandbox, 3).await;
    assert!(rows[0].charge.is_some() && rows[1].charge.is_some());
    world.gateway.close(&sandbox.id).unwrap();
    assert_eq!(world.model.record().total(), 2);

    let sandbox = world.sandbox("a");
    let tape = Tape::Replay { cassette, miss: Miss::Strict };
    world.gateway.change(&sandbox.id, Policy { tape, ..Policy::default() }).unwrap();
    let token = world.token(&sandbox);
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.json(), whole.json());
    let again = sandbox.ask(messages(&token, STREAMED)).await;
    assert_eq!((again.body, again.cut), (streamed.body, false));
    let missed = sandbox.ask(messages(&token, &HELLO.replace("hi", "ho"))).await;
    assert_eq!(missed.json()["code"], "not_recorded");
    assert_eq!(sandbox.ask(messages("bjt_wrong", HELLO)).await.status, StatusCode::UNAUTHORIZED);
    let rows = world.rows(&sandbox, 4).await;
    let decided: Vec<_> = rows.iter().map(|row| (row.decision, row.reason)).collect();
    let played = (Decision::Played, Reason::Replayed);
    let wanted = [played, played, (Decision::Denied, Reason::NotRecorded)];
    assert_eq!((&decided[..3], decided[3].1), (&wanted[..], Reason::Token));
    assert!(rows.iter().all(|row| row.charge.is_none()));
    assert_eq!(world.model.record().total(), 2, "the model is not asked again");
}

/// A replay that is judged refuses what was refused when the cassette was recorded, for the same
/// reason and with the same words.
#[tokio::test]
async fn a_judged_replay_refuses_as_the_recording_did() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("[gateway]\ncassettes = {:?}\n", folder.path());
    let world = World::start(SCRIPT, &settings).await;
    let cassette: belljar_domain::network::CassetteId = "talk".parse().unwrap();
    let tapes = [
        Tape::Record { cassette: cassette.clone() },
        Tape::Replay { cassette, miss: Miss::Judged },
    ];
    let mut told = Vec::new();
    for tape in tapes {
        let sandbox = world.sandbox("a");
        world.gateway.change(&sandbox.id, Policy { tape, ..Policy::default() }).unwrap();
        let token = world.token(&sandbox);
        let allowed = sandbox.ask(messages(&token, HELLO)).await;
        let mut other = messages(&token, HELLO);
        *other.uri_mut() = "/operations/nosuch/v1/messages".parse().unwrap();
        let refused = sandbox.ask(other).await;
        let rows = world.rows(&sandbox, 2).await;
        assert_eq!(rows[1].reason, Reason::Scope);
        told.push((allowed.json(), refused.status, refused.json()));
        world.gateway.close(&sandbox.id).unwrap();
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(world.model.record().total(), 1, "the model is not asked again");
}

/// Telemetry goes out while a cassette is recorded, is not on it, and goes nowhere in a replay.
#[tokio::test]
async fn telemetry_is_on_no_tape() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, seen) = upstream().await;
    let settings = format!(
        "[gateway]\ncassettes = {:?}\n[operations.other]\nkind = \"otlp\"\nplaintext = true\n\
         upstream = \"http://{collector}\"\n",
        folder.path()
    );
    let world = World::start(SCRIPT, &settings).await;
    let cassette: belljar_domain::network::CassetteId = "spans".parse().unwrap();
    let tapes = [
        Tape::Record { cassette: cassette.clone() },
        Tape::Replay { cassette: cassette.clone(), miss: Miss::Judged },
        Tape::Replay { cassette, miss: Miss::Strict },
    ];
    let mut span = 0;
    for tape in tapes {
        let is_sealed = tape.is_sealed();
        let sandbox = world.sandbox("a");
        world.gateway.change(&sandbox.id, Policy { tape, ..Policy::default() }).unwrap();
        let token = world.token_for(&sandbox, &["other"], 300, None);
        for nth in 0..2 {
            span += 1;
            let spans = json!([{ "spans": [{ "spanId": format!("{span:016x}") }] }]);
            let body = json!({ "resourceSpans": [{ "scopeSpans": spans }] }).to_string();
            let path = "/operations/other/v1/traces";
            let answer = sandbox.ask(request(Method::POST, path, &token, &body)).await;
            assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
            let row = world.rows(&sandbox, nth + 1).await.remove(nth);
            let decision = if is_sealed { Decision::Played } else { Decision::Allowed };
            assert_eq!((row.decision, row.reason), (decision, Reason::Operation), "{row:?}");
            assert_eq!(row.operation.as_deref(), Some("other"));
            if is_sealed {
                assert_eq!(answer.json(), json!({}));
            }
        }
        // A request that was refused is refused in a replay.
        let wrong = request(Method::POST, "/operations/other/v1/profiles", &token, "{}");
        assert_eq!(sandbox.ask(wrong).await.status, StatusCode::FORBIDDEN);
        world.gateway.close(&sandbox.id).unwrap();
    }
    assert_eq!(seen.lock().unwrap().len(), 2, "only the recording goes out");
}
