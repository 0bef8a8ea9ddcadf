use belljar_domain::ModelParameters;
use belljar_domain::approval::{ApprovalPolicy, ToolApprovals, ToolCall};
use belljar_objects::Digest;
use belljar_pipeline::{AgentKind, CodeArtifact, Message};
use expect_test::expect;
use serde_json::json;

use super::*;

fn event(body: serde_json::Value) -> serde_json::Result<Event> {
    let mut value = json!({"seq": 7, "at": "2026-01-02T03:04:05Z", "lease": 2, "key": "k"});
    value.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    serde_json::from_value(value)
}

#[test]
fn what_a_newer_version_wrote_is_carried_along_unchanged() {
    let body = json!({"kind": "dreamt", "v": FORMAT + 1, "of": {"sheep": 3}});
    let read = event(body.clone()).unwrap();
    let Body::Unknown(unknown) = &read.body else { panic!("{read:?}") };
    assert_eq!((unknown.kind.as_str(), unknown.version), ("dreamt", FORMAT + 1));
    assert_eq!(serde_json::to_value(&read.body).unwrap(), body);
    let again: Event = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
    assert_eq!(again, read);
}

#[test]
fn a_newer_shape_of_a_known_kind_is_not_taken_for_the_old_one() {
    let body = json!({"kind": "resumed", "v": FORMAT + 1, "answers": 3});
    assert!(matches!(event(body).unwrap().body, Body::Unknown(_)));
}

#[test]
fn an_unknown_kind_of_our_own_format_is_damage() {
    assert!(event(json!({"kind": "dreamt", "v": 1})).is_err());
    assert!(event(json!({"kind": "resumed", "v": 1})).is_err());
    assert!(event(json!({"kind": "resumed", "answers": 3})).is_err());
    assert!(event(json!({"v": 1})).is_err());
}

#[test]
fn fields_that_are_new_are_passed_over() {
    let read = event(json!({"kind": "resumed", "v": 1, "answers": 3, "mood": "good"})).unwrap();
    assert_eq!(
        read.body,
        Body::Resumed(Resumed { answers: Sequence(3), until: None, reply: None, decision: None })
    );
}

fn created_without_wish() -> RunCreated {
    RunCreated {
        question: "why?".into(),
        datasets: vec![],
        model: "m".into(),
        prompt: Prompt { name: "p".into(), version: "1".into(), sha256: Digest::of(b"p") },
        budget: Budget::default(),
        now: OffsetDateTime::UNIX_EPOCH,
        wish: None,
    }
}

/// What older versions wrote is read, and what is as they knew it is written as they did.
#[test]
fn logs_of_older_versions_have_no_environment() {
    let wish = json!({"template": "t"});
    let read: Wish = serde_json::from_value(wish.clone()).unwrap();
    assert!(read.environment.is_default());
    assert_eq!(serde_json::to_value(&read).unwrap(), wish);
    let environment = json!({"tier": "oci/runsc", "limits": {"memory_bytes": 5, "wall_ms": 6}});
    let wish = json!({"template": "t", "environment": environment});
    let read: Wish = serde_json::from_value(wish.clone()).unwrap();
    assert_eq!(read.environment.limits.memory_bytes, Some(5));
    assert_eq!(serde_json::to_value(&read).unwrap(), wish);

    // An older worker reads a run that chose nothing, and leaves one alone that did.
    let mut created = created_without_wish();
    let written = |created: &RunCreated| serde_json::to_value(Body::from(created.clone())).unwrap();
    assert_eq!(written(&created)["v"], 1);
    created.wish = Some(Wish { environment: Environment::default(), ..read.clone() });
    assert_eq!(written(&created)["v"], 1);
    created.wish = Some(read);
    assert_eq!(written(&created)["v"], 2);
    assert_eq!(event(written(&created)).unwrap().body, Body::from(created));

    // The same of the model's brief.
    let wish: Wish = serde_json::from_value(json!({"template": "t"})).unwrap();
    let parameters = ModelParameters { output_tokens: Some(5), ..ModelParameters::default() };
    let brief = Box::new(Brief { parameters, ..Brief::default() });
    let briefed = RunCreated { wish: Some(Wish { brief, ..wish }), ..created_without_wish() };
    assert_eq!(written(&briefed)["v"], 3);
    assert_eq!(written(&briefed)["wish"]["brief"], json!({"parameters": {"output_tokens": 5}}));
    assert_eq!(event(written(&briefed)).unwrap().body, Body::from(briefed));

    let sandbox = belljar_domain::SandboxId::from_random([1; 16]);
    let old = json!({"kind": "sandbox_attached", "v": 1, "sandbox": sandbox, "number": 1,
        "template": "t"});
    let Body::SandboxAttached(read) = event(old.clone()).unwrap().body else { panic!() };
    assert_eq!(read.environment, None);
    assert_eq!(serde_json::to_value(Body::from(read)).unwrap(), old);
    let mut new = old;
    new["environment"] = environment;
    let Body::SandboxAttached(read) = event(new.clone()).unwrap().body else { panic!() };
    assert_eq!(read.environment.unwrap().tier, Some(belljar_domain::Tier::GVISOR));
}

/// What is written today must be readable for ever: a change here is a new format.
#[test]
fn shapes_stay_as_they_are() {
    let call = CallRef { turn: 2, id: "c1".into() };
    let run = belljar_domain::RunId::from_bits([1; 16]);
    let exec = call.exec(&run, 1);
    let bodies: Vec<Body> = vec![
        ForkedFrom {
            parent: run,
            after: Sequence(9),
            model: Some("m".into()),
            prompt: None,
            budget: Some(Budget { turns: Some(3), ..Budget::default() }),
            retry: None,
        }
        .into(),
        LeaseTaken { generation: Generation(2), owner: "a".into(), took_over: Some("b".into()) }
            .into(),
        LlmResponded {
            turn: 2,
            asked: Sequence(4),
            blocks: vec![
                Block::Text { text: "hm\0".into() },
                Block::ToolUse { id: "c1".into(), name: "shell".into(), input: json!({"a": 1}) },
            ],
            stop: "tool_use".into(),
            tokens: Tokens { input: 1, cache_read: 2, cache_write: 3, output: 4 },
            nano_dollars: 5,
            assumed: false,
            upstream_request: None,
            raw: None,
            first_token_micros: None,
            micros: 6,
        }
        .into(),
        ToolFinished {
            call,
            exec: Some(exec),
            reason: belljar_domain::EndReason::Done,
            exit_code: Some(0),
            shown: "1".into(),
            cut: Some(Cut { shown_chars: 1, total_chars: 2 }),
            outputs: vec![],
            fault: None,
            used: Used::default(),
        }
        .into(),
        ControlRequested { request: Request::Tell { text: "t".into() }, by: "ann".into() }.into(),
        InjectedMessage { kind: Injected::TurnsLeft3, turn: 2, text: "t".into(), answers: None }
            .into(),
        Finished { outcome: Outcome::Answered, error: None, message: None, result: None }.into(),
    ];
    let bodies = [bodies, recorded_bodies(), pipeline_bodies()].concat();
    let lines: Vec<_> = bodies.iter().map(|body| serde_json::to_string(body).unwrap()).collect();
    for (line, body) in lines.iter().zip(&bodies) {
        assert_eq!(serde_json::from_str::<Body>(line).unwrap(), *body);
    }
    expect![[r#"
        {"kind":"forked_from","v":1,"parent":"abaeaqcaibaeaqcaibaeaqcaib","after":9,"model":"m","budget":{"turns":3}}
        {"kind":"lease_taken","v":1,"generation":2,"owner":"a","took_over":"b"}
        {"kind":"llm_responded","v":1,"turn":2,"asked":4,"blocks":[{"type":"text","text":"hm\u0000"},{"type":"tool_use","id":"c1","name":"shell","input":{"a":1}}],"stop":"tool_use","tokens":{"input":1,"cache_read":2,"cache_write":3,"output":4},"nano_dollars":5,"micros":6}
        {"kind":"tool_finished","v":1,"call":{"turn":2,"id":"c1"},"exec":"bj3m5bizubz3lz3lpejcjsbhe7","reason":"done","exit_code":0,"shown":"1","cut":{"shown_chars":1,"total_chars":2},"used":{"wall_micros":0,"cpu_micros":0,"written_bytes":0,"output_bytes":0}}
        {"kind":"control_requested","v":1,"request":"tell","text":"t","by":"ann"}
        {"kind":"injected_message","v":1,"why":"turns_left_3","turn":2,"text":"t"}
        {"kind":"finished","v":1,"outcome":"answered"}
        {"kind":"recording_made","v":3,"name":"q3","recording":{"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","bytes":2}}
        {"kind":"parameter_deviated","v":3,"turn":2,"parameter":"output_tokens","asked":"9","applied":"5","cause":"budget"}
        {"kind":"finished","v":3,"outcome":"failed","error":"replay"}
        {"kind":"stage_message","v":4,"turn":2,"round":1,"attempt":1,"message":{"type":"code","filename":"main.py","code":"print(1)","install_command":null,"run_command":"python main.py"}}
        {"kind":"snapshot_refused","v":4,"after":7,"reason":"no"}"#]].assert_eq(&lines.join("\n"));
}

/// The shapes of format 3.
fn recorded_bodies() -> Vec<Body> {
    let deviated = ParameterDeviated {
        turn: 2,
        parameter: "output_tokens".into(),
        asked: "9".into(),
        applied: Some("5".into()),
        cause: DeviationCause::Budget,
    };
    let finished = Finished {
        outcome: Outcome::Failed,
        error: Some(ErrorCategory::Replay),
        message: None,
        result: None,
    };
    let recording = crate::BlobRef::of(b"{}");
    let made = RecordingMade { name: "q3".into(), recording, cassette: None, incomplete: None };
    vec![made.into(), deviated.into(), finished.into()]
}

/// The shapes of format 4.
fn pipeline_bodies() -> Vec<Body> {
    let artifact = CodeArtifact {
        filename: "main.py".into(),
        code: "print(1)".into(),
        install_command: None,
        run_command: "python main.py".into(),
        install_seconds: None,
        run_seconds: None,
        memory_bytes: None,
    };
    let message = Message::Code(artifact);
    let sent = StageMessage { turn: 2, round: 1, attempt: 1, message };
    let refused = SnapshotRefused { after: Sequence(7), reason: "no".into() };
    vec![sent.into(), refused.into()]
}

/// An older worker would take a pipeline for a run of another kind.
#[test]
fn a_run_of_another_agent_is_of_format_4() {
    let wish: Wish = serde_json::from_value(json!({"template": "t"})).unwrap();
    let brief = Box::new(Brief { agent: AgentKind::Pipeline, ..Brief::default() });
    let created = RunCreated { wish: Some(Wish { brief, ..wish }), ..created_without_wish() };
    assert!(created.can_ask());
    let written = serde_json::to_value(Body::from(created.clone())).unwrap();
    assert_eq!(written["v"], 4);
    assert_eq!(written["wish"]["brief"], json!({"agent": "pipeline"}));
    assert_eq!(event(written).unwrap().body, Body::from(created));
}

/// An older worker would make the calls without asking.
#[test]
fn a_run_whose_calls_wait_for_approval_is_of_format_5() {
    let wish: Wish = serde_json::from_value(json!({"template": "t"})).unwrap();
    let policy = ApprovalPolicy::Tools(vec!["shell".to_owned()]);
    let approvals = ToolApprovals { policy, seconds: 60 };
    let brief = Box::new(Brief { approvals, ..Brief::default() });
    let created = RunCreated { wish: Some(Wish { brief, ..wish }), ..created_without_wish() };
    let written = serde_json::to_value(Body::from(created.clone())).unwrap();
    assert_eq!(written["v"], 5);
    let brief = json!({"approvals": {"policy": {"tools": ["shell"]}, "seconds": 60}});
    assert_eq!(written["wish"]["brief"], brief);
    assert_eq!(event(written).unwrap().body, Body::from(created));
}

/// An older worker leaves a run alone that has to wait where it would go on.
#[test]
fn what_only_this_version_waits_for_is_of_its_format() {
    let call = CallRef { turn: 2, id: "c1".into() };
    let asked = |request| Body::from(ControlRequested { request, by: "t".into() });
    let resumed = Resumed { answers: Sequence(3), until: None, reply: None, decision: None };
    let paused = Paused { answers: None, at: None };
    let (verdict, message) = (Verdict::Denied, Some("no".to_owned()));
    let decision = CallDecision { call: call.clone(), verdict, message };
    let tool = ToolCall::new("shell", Some("c1"), "{}", "00".to_owned());
    let until = OffsetDateTime::UNIX_EPOCH;
    let approval = PausePoint::Approval { call: call.clone(), tool, until };
    for (body, version) in [
        (asked(Request::Pause), 1),
        (asked(Request::Tell { text: "a".into() }), 1),
        (asked(Request::Step), 3),
        (asked(Request::Answer { text: "a".into() }), 3),
        (asked(Request::Breakpoints { breakpoints: Breakpoints { turns: true, calls: false } }), 3),
        (paused.clone().into(), 1),
        (Paused { at: Some(PausePoint::Turn { turn: 2 }), ..paused.clone() }.into(), 3),
        (Paused { at: Some(PausePoint::Question { call, text: "?".into() }), ..paused }.into(), 3),
        (resumed.clone().into(), 1),
        (Resumed { until: Some(2), ..resumed.clone() }.into(), 3),
        (Resumed { reply: Some("a".into()), ..resumed.clone() }.into(), 3),
        (asked(Request::Decide { decision: decision.clone() }), 5),
        (Paused { at: Some(approval), answers: None }.into(), 5),
        (Resumed { decision: Some(decision), ..resumed }.into(), 5),
    ] {
        let written = serde_json::to_value(&body).unwrap();
        assert_eq!(written["v"], version, "{written}");
        assert_eq!(event(written).unwrap().body, body);
    }
}
