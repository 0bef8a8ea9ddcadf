//! How runs end, and what the model is told on the way.
//!
//! Requirements: A3, A4, A7

use belljar_agent::MOST_SHOWN;
use belljar_journal::RunView;
use belljar_journal::event::{Body, Budget, Event, Injected, Outcome};

use crate::world::{World, finished, turns};

const PLAIN: &str = r#"
    [[turn]]
    say = "I count."
    call = [{ tool = "execute_python", input = { code = "n = 6 * 7\nprint(n)" } }]
    [[turn]]
    say = "I write it down."
    call = [{ tool = "execute_python", input = { code = "open('table.csv', 'w').write(f'n\\n{n}\\n')\nn + 1" } },
            { tool = "write_file", input = { path = "result.md", content = "It is 42!" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "It is {{result.1}}", files = ["table.csv"] } }]
"#;

pub(crate) async fn a_run_answers_with_code_and_files(world: &World) {
    let stage = world.stage(PLAIN, turns(9)).await;
    let events = stage.finish().await;
    let end = finished(&events);
    assert_eq!(end.outcome, Outcome::Answered, "{end:?}");
    assert_eq!(end.result.as_deref().unwrap().trim(), "It is 42", "{end:?}");
    assert_eq!(stage.artifact("table.csv").await, "n\n42\n");
    assert_eq!(stage.artifact("result.md").await, "It is 42!");
    let view = RunView::of(&events);
    assert_eq!((view.turns, view.spent.calls), (3, 4));
    assert!(view.spent.nano_dollars > 0 && view.spent.cpu_micros > 0, "{:?}", view.spent);
    // State is kept from call to call, and the value of the last expression is shown.
    assert!(
        events
            .iter()
            .any(|event| matches!(&event.body, Body::ToolFinished(it) if it.shown.trim() == "43"))
    );
    // What was sent before is sent again, byte for byte, and more after it.
    let mut before = 0;
    for event in &events {
        if let Body::PromptBuilt(built) = &event.body {
            assert!(built.shared_prefix_bytes * 100 >= before * 95, "{built:?} after {before}");
            before = built.bytes;
        }
    }
    let bodies = stage.bodies();
    assert!(bodies[0].contains("Now is Friday, March 20, 2026"), "{}", bodies[0]);
    assert!(bodies[1].contains("[turn 1 of 9 is done]"), "{}", bodies[1]);
}

const ENDLESS: &str = r#"
    [[turn]]
    say = "I go on and on."
    call = [{ tool = "shell", input = { command = "echo again" } }]
"#;

fn injected(events: &[Event], kind: Injected) -> usize {
    let is = |event: &&Event| matches!(&event.body, Body::InjectedMessage(it) if it.kind == kind);
    events.iter().filter(is).count()
}

pub(crate) async fn warnings_come_once_each_and_the_last_turn_has_no_tools(world: &World) {
    let stage = world.stage(ENDLESS, turns(5)).await;
    let events = stage.finish().await;
    for kind in [Injected::TurnsLeft3, Injected::TurnsLeft1, Injected::Final] {
        assert_eq!(injected(&events, kind), 1, "{kind:?}");
    }
    let end = finished(&events);
    assert_eq!(end.outcome, Outcome::Exhausted);
    assert_eq!(end.result.as_deref(), Some("I go on and on."));
    let bodies = stage.bodies();
    assert_eq!(bodies.len(), 6, "five turns with tools, and one without");
    let count = |words: &str| bodies.iter().filter(|body| body.contains(words)).count();
    assert_eq!(count("You have only 3 turns remaining"), 4);
    assert_eq!(count("FINAL WARNING"), 2);
    assert_eq!(count("No tool can be called any more"), 1);
    assert!(bodies[5].contains(r#""tool_choice":{"type":"none"}"#), "{}", bodies[5]);
}

/// Models that misbehave in every way that the script knows, and every budget.
pub(crate) async fn no_run_ends_without_a_result(world: &World) {
    let silent = "[[turn]]\nsay = \" \"\n";
    let refused = "[[turn]]\nfault = { kind = \"status\", status = 400 }\n";
    let no_money = "[[turn]]\nfault = { kind = \"status\", status = 402 }\n";
    let garbled = "[[turn]]\ncall = [{ tool = \"shell\", arguments = \"{broken\" }]\n[[turn]]\nsay = \"So be it.\"\n";
    let later = format!("{ENDLESS}\n[[turn]]\nfault = {{ kind = \"status\", status = 400 }}\n");
    let bounded = |budget: Budget| Budget { turns: Some(4), ..budget };
    let few = bounded(Budget { tokens: Some(1000), ..Budget::default() });
    let poor = bounded(Budget { nano_dollars: Some(1000), ..Budget::default() });
    let terse = bounded(Budget { output_bytes: Some(3), ..Budget::default() });
    let hasty = bounded(Budget { wall_ms: Some(1), ..Budget::default() });
    for (name, script, budget, outcome) in [
        ("silent", silent, turns(9), Outcome::Failed),
        ("refused", refused, turns(9), Outcome::Failed),
        ("no money", no_money, turns(9), Outcome::Exhausted),
        ("garbled", garbled, turns(9), Outcome::Answered),
        ("refused later", &later, turns(9), Outcome::Failed),
        ("one turn", ENDLESS, turns(1), Outcome::Exhausted),
        ("tokens", ENDLESS, few, Outcome::Exhausted),
        ("money", ENDLESS, poor, Outcome::Exhausted),
        ("output", ENDLESS, terse, Outcome::Exhausted),
        ("time", ENDLESS, hasty, Outcome::Exhausted),
    ] {
        let stage = world.stage(script, budget).await;
        let events = stage.finish().await;
        let end = finished(&events);
        assert_eq!(end.outcome, outcome, "{name}: {end:?}");
        assert!(end.result.as_deref().is_some_and(|result| !result.trim().is_empty()), "{name}");
        assert!(!stage.artifact("result.md").await.trim().is_empty(), "{name}");
    }
}

pub(crate) async fn fifty_megabytes_cost_the_model_four_thousand_characters(world: &World) {
    const LONG: &str = r#"
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "import sys\nsys.stdout.write('x' * 50_000_000)\nprint('the end')" } }]
        [[turn]]
        call = [{ tool = "shell", input = { command = "wc -c < .belljar/outputs/turn-1-call-1.txt" } }]
        [[turn]]
        say = "It was long."
    "#;
    let stage = world.stage(LONG, turns(9)).await;
    let events = stage.finish().await;
    let results: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.body {
            Body::ToolFinished(finished) => Some(finished),
            _ => None,
        })
        .collect();
    let long = results[0];
    assert!(long.shown.chars().count() <= MOST_SHOWN);
    assert!(long.shown.starts_with("xxx") && long.shown.trim_end().ends_with("the end"));
    let cut = long.cut.unwrap();
    assert_eq!(cut.total_chars, 50_000_008);
    let missing = cut.total_chars - cut.shown_chars;
    assert!(long.shown.replace(',', "").contains(&format!("{missing} of 50000008 characters")));
    // All of it is kept, and the code finds it as well.
    assert_eq!(long.outputs[0].content.bytes, 50_000_008);
    assert_eq!(results[1].shown.trim(), "50000008");
    let (first, second) = (stage.bodies()[0].len(), stage.bodies()[1].len());
    assert!(second - first < MOST_SHOWN + 1000, "{first}, {second}");
}

pub(crate) async fn every_kind_of_mistake_is_counted_and_told(world: &World) {
    let mistakes = [
        ("import nothing_like_this", "missing_module"),
        ("def f(:", "syntax"),
        ("len(3)", "type"),
        ("{}['id']", "missing_key"),
        ("nobody", "name"),
        ("open('/no/such')", "file"),
        ("1 / 0", "exception"),
    ];
    let mut script = String::new();
    for (code, _) in mistakes {
        script.push_str(&format!(
            "[[turn]]\ncall = [{{ tool = \"execute_python\", input = {{ code = {code:?} }} }}]\n"
        ));
    }
    script.push_str(
        "[[turn]]\ncall = [{ tool = \"execute_python\", input = { code = 'import time; time.sleep(60)', timeout_seconds = 1 } }]\n\
         [[turn]]\ncall = [{ tool = \"shell\", input = { command = \"exit 3\" } }]\n\
         [[turn]]\ncall = [{ tool = \"read_file\", input = { path = \"none.txt\" } }]\n\
         [[turn]]\ncall = [{ tool = \"finish\", input = { answer = \"a\", files = [\"none.txt\"] } }]\n\
         [[turn]]\nsay = \"Enough.\"\n",
    );
    let stage = world.stage(&script, turns(20)).await;
    let events = stage.finish().await;
    let faults: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.body {
            Body::ToolFinished(finished) => {
                Some(finished.fault.as_ref().unwrap().category.as_str())
            }
            _ => None,
        })
        .collect();
    let mut expected: Vec<&str> = mistakes.iter().map(|(_, category)| *category).collect();
    expected.extend(["timeout", "exit", "file", "file"]);
    assert_eq!(faults, expected);
    assert_eq!(finished(&events).result.as_deref(), Some("Enough."));
}
