//! Whatever a model or its provider does, a run has a result, and its outcome says
//! what that is worth. Every case in every dialect, over the real wire.
//!
//! Requirements: A8

use belljar_journal::RunView;
use belljar_journal::event::{Body, ErrorCategory, Event, LlmTrouble, Outcome};
use belljar_llm::Dialect;

use crate::world::{Stage, World, finished, question, turns};

const DIALECTS: [Dialect; 3] =
    [Dialect::AnthropicMessages, Dialect::OpenAiResponses, Dialect::OpenAiChat];

/// A first turn that leaves something in the sandbox, before the trouble begins.
const WORK: &str = r#"
    [[turn]]
    say = "I begin."
    call = [{ tool = "write_file", input = { path = "result.md", content = "So far: 41." } }]
"#;

/// What came of a run: how it ended, why, and the result.
#[derive(Debug, PartialEq, Eq)]
struct End<'a> {
    outcome: Outcome,
    error: Option<ErrorCategory>,
    result: &'a str,
}

fn end(events: &[Event]) -> End<'_> {
    let end = finished(events);
    let result = end.result.as_deref().unwrap_or_default().trim();
    assert!(!result.is_empty(), "{end:?}");
    End { outcome: end.outcome, error: end.error, result }
}

fn answered(result: &str) -> End<'_> {
    End { outcome: Outcome::Answered, error: None, result }
}

/// Plays a script in every dialect; `look` sees what came of it.
async fn each(world: &World, script: &str, look: impl Fn(&Stage<'_>, &[Event])) {
    for dialect in DIALECTS {
        let stage = world.stage_in(dialect, script, question(turns(9))).await;
        let events = stage.finish().await;
        let kept = stage.artifact("result.md").await;
        assert!(!kept.trim().is_empty(), "{dialect:?}");
        look(&stage, &events);
    }
}

fn troubles(events: &[Event]) -> Vec<LlmTrouble> {
    let trouble = |event: &Event| match &event.body {
        Body::LlmFailed(failed) => Some(failed.trouble),
        _ => None,
    };
    events.iter().filter_map(trouble).collect()
}

/// What calls were told that were wrong, by category.
fn faults(events: &[Event]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for event in events {
        if let Body::ToolFinished(it) = &event.body
            && let Some(fault) = &it.fault
        {
            found.push((fault.category.as_str(), it.shown.as_str()));
        }
    }
    found
}

pub(crate) async fn a_provider_that_stumbles_is_asked_again_with_the_same_bytes(world: &World) {
    const STUMBLES: &str = r#"
        [[turn]]
        say = "It is 42."
        faults = [
            { kind = "status", status = 429 },
            { kind = "status", status = 529 },
            { kind = "error-event", after = 3 },
            { kind = "cut", after = 3 },
        ]
    "#;
    each(world, STUMBLES, |stage, events| {
        assert_eq!(end(events), answered("It is 42."));
        assert_eq!((RunView::of(events).turns, troubles(events)), (1, vec![]));
        let bodies = stage.bodies();
        assert_eq!(bodies.len(), 5);
        assert!(bodies.iter().all(|body| *body == bodies[0]));
    })
    .await;
}

pub(crate) async fn a_provider_that_never_answers_is_given_up(world: &World) {
    for fault in ["{ kind = \"status\", status = 529 }", "{ kind = \"garbage\" }"] {
        let script = format!("{WORK}\n[[turn]]\nfault = {fault}\n");
        each(world, &script, |stage, events| {
            let want = End {
                outcome: Outcome::Failed,
                error: Some(ErrorCategory::Model),
                result: "So far: 41.",
            };
            assert_eq!(end(events), want, "{fault}");
            assert_eq!(troubles(events), [LlmTrouble::Overloaded], "{fault}");
            let why = finished(events).message.as_deref().unwrap_or_default();
            assert!(why.contains("after 5 attempts"), "{why}");
            assert_eq!(stage.bodies().len(), 6, "{fault}");
        })
        .await;
    }
}

pub(crate) async fn a_request_that_is_refused_is_not_made_again(world: &World) {
    let script = format!("{WORK}\n[[turn]]\nfault = {{ kind = \"status\", status = 403 }}\n");
    each(world, &script, |stage, events| {
        let error = Some(ErrorCategory::Model);
        assert_eq!(end(events), End { outcome: Outcome::Failed, error, result: "So far: 41." });
        assert_eq!(troubles(events), [LlmTrouble::Refused]);
        assert_eq!(stage.bodies().len(), 2);
    })
    .await;
}

pub(crate) async fn a_refusal_is_no_answer(world: &World) {
    const REFUSES: &str = "[[turn]]\nsay = \"I will not help with that.\"\nstop = \"refusal\"\n";
    each(world, REFUSES, |stage, events| {
        let end = end(events);
        assert_eq!((end.outcome, end.error), (Outcome::Failed, Some(ErrorCategory::Model)));
        assert!(end.result.contains("the model refuses to answer"), "{end:?}");
        assert!(end.result.ends_with("I will not help with that."), "{end:?}");
        assert_eq!(stage.bodies().len(), 1);
    })
    .await;
}

pub(crate) async fn an_answer_that_is_cut_off_is_said_to_be(world: &World) {
    const CUT: &str = "[[turn]]\nsay = \"The first of many rows is\"\nstop = \"length\"\n";
    each(world, CUT, |_, events| {
        let (outcome, result) = (Outcome::Exhausted, "The first of many rows is");
        assert_eq!(end(events), End { outcome, error: None, result });
        let why = finished(events).message.as_deref().unwrap_or_default();
        assert!(why.contains("cut off"), "{why}");
    })
    .await;
}

pub(crate) async fn who_is_out_of_money_keeps_what_there_is(world: &World) {
    for fault in [
        "{ kind = \"status\", status = 402 }",
        "{ kind = \"status\", status = 429, code = \"insufficient_quota\", should-retry = false }",
    ] {
        let script = format!("{WORK}\n[[turn]]\nfault = {fault}\n");
        each(world, &script, |stage, events| {
            let (outcome, result) = (Outcome::Exhausted, "So far: 41.");
            assert_eq!(end(events), End { outcome, error: None, result }, "{fault}");
            assert_eq!(troubles(events), [LlmTrouble::OutOfBudget], "{fault}");
            // Once is enough.
            assert_eq!(stage.bodies().len(), 2, "{fault}");
        })
        .await;
    }
}

pub(crate) async fn calls_that_cannot_be_made_are_told_and_the_run_goes_on(world: &World) {
    const SLIPS: &str = r#"
        [[turn]]
        call = [{ tool = "shell", arguments = "{\"command\": \"echo" }]
        [[turn]]
        call = [{ invented = "browse", input = { url = "about:blank" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "print(1)", language = "R" } }]
        [[turn]]
        say = "Now I know: {{result.2}}"
    "#;
    each(world, SLIPS, |_, events| {
        let end = end(events);
        assert_eq!((end.outcome, end.error), (Outcome::Answered, None));
        assert!(end.result.starts_with("Now I know: There is no tool `browse`."), "{end:?}");
        let faults = faults(events);
        assert_eq!(faults.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["arguments"; 3]);
        assert!(faults[0].1.contains("not a JSON object"), "{faults:?}");
        assert!(faults[2].1.contains("unknown field `language`"), "{faults:?}");
        // No sandbox was needed.
        assert_eq!(RunView::of(events).sandboxes, 0);
    })
    .await;
}

pub(crate) async fn a_model_that_says_nothing_is_given_up(world: &World) {
    each(world, "[[turn]]\nsay = \" \"\n", |stage, events| {
        let end = end(events);
        assert_eq!((end.outcome, end.error), (Outcome::Failed, Some(ErrorCategory::NoResult)));
        assert_eq!(stage.bodies().len(), 3, "asked, and told so twice");
    })
    .await;
}

pub(crate) async fn what_is_said_without_a_call_is_the_answer_and_unknown_costs_are_marked(
    world: &World,
) {
    const SAID: &str = "[[turn]]\nsay = \"It is 42.\"\nfault = { kind = \"no-usage\" }\n";
    each(world, SAID, |_, events| {
        assert_eq!(end(events), answered("It is 42."));
        let assumed = |event: &Event| matches!(&event.body, Body::LlmResponded(it) if it.assumed);
        assert_eq!(events.iter().filter(|event| assumed(event)).count(), 1);
    })
    .await;
}
