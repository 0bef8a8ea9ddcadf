//! Questions for which the first attempt had not enough.
//!
//! Requirements: A3

use belljar_agent::{More, try_again};
use belljar_journal::event::{Body, Budget, Event, Injected, Lack, Outcome};
use belljar_journal::{RunView, read_all};

use crate::ask::{belljar, scripted};
use crate::world::{World, finished, turns};

/// Four steps, and then it knows.
const STEPS: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 1 >> steps; cat steps" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 2 >> steps; cat steps" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 3 >> steps; cat steps" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "Three steps." } }]
"#;

fn told(events: &[Event], kind: Injected) -> usize {
    let is = |event: &&Event| matches!(&event.body, Body::InjectedMessage(it) if it.kind == kind);
    events.iter().filter(is).count()
}

pub(crate) async fn a_run_that_was_short_of_turns_goes_on_in_another_with_more(world: &World) {
    let bounded = Budget { nano_dollars: Some(1_000_000_000), ..turns(2) };
    let stage = world.stage(STEPS, bounded).await;
    let first = stage.finish().await;
    assert_eq!(finished(&first).outcome, Outcome::Exhausted);
    let spent = RunView::of(&first).spent.nano_dollars;
    let more = More { attempts: 2, memory_bytes: None };
    let next = try_again(&*stage.journal, &stage.address, more).await.unwrap().unwrap();
    // Whoever asks again, such as after a crash, is told the same run.
    let same = try_again(&*stage.journal, &stage.address, more).await.unwrap().unwrap();
    assert_eq!(next, same);
    let asked = stage.bodies().len();
    stage.worker().work(&next).await.unwrap();
    let events = read_all(&*stage.journal, &next).await.unwrap();
    assert_eq!(finished(&events).result.as_deref(), Some("Three steps."));
    let view = RunView::of(&events);
    assert_eq!(view.retry.as_ref().unwrap().lacked, [Lack::Turns]);
    assert_eq!((view.turns, view.budget.turns), (4, Some(4)));
    assert_eq!(view.budget.nano_dollars, Some(1_000_000_000 - spent));
    // What the first one did is not done again, and the model knows where it stands.
    assert_eq!((view.spent.calls, view.inherited.calls), (2, 2));
    let bodies = &stage.bodies()[asked..];
    assert!(bodies[0].contains("The budget has changed. Budget: 4 turns"), "{}", bodies[0]);
    assert!(bodies[0].contains("files of earlier calls are gone"), "{}", bodies[0]);
    assert!(!bodies[0].contains("No tool can be called any more"), "{}", bodies[0]);
    assert_eq!(told(&events, Injected::Final), 0);
    // There is no third attempt.
    assert_eq!(try_again(&*stage.journal, &next, more).await.unwrap(), None);
}

pub(crate) async fn ask_tries_again_with_more_turns_and_both_runs_say_so(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(STEPS).await;
    let url = format!("http://{}", model.address());
    let ask = ["ask", "How many steps?", "--model", crate::world::MODEL, "--model-url", &url];
    let bounded = ["--template", crate::world::TEMPLATE, "--turns", "2", "--out", "out"];
    let once = belljar(place, &[&ask[..], &bounded[..], &["--retries", "0"]].concat()).await;
    assert_eq!(once.status, Some(3), "{}{}", once.stdout, once.stderr);
    let asked = belljar(place, &[&ask[..], &bounded[..]].concat()).await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    assert_eq!(asked.stdout.trim(), "Three steps.");
    assert!(asked.stderr.contains("ran out of turns: now 4 turns"), "{}", asked.stderr);
    let listed = belljar(place, &["runs", "list", "--json"]).await;
    let rows: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let (second, first) = (rows[0]["run"].as_str().unwrap(), rows[1]["run"].as_str().unwrap());
    assert_eq!(rows[0]["parent"]["run"], first);
    let outcomes = [&rows[0]["outcome"], &rows[1]["outcome"]];
    assert_eq!(outcomes, ["answered", "exhausted"], "{rows}");
    let shown = belljar(place, &["runs", "show", first]).await;
    assert!(shown.stdout.contains(&format!("retried as {second}")), "{}", shown.stdout);
    let shown = belljar(place, &["runs", "show", second]).await;
    assert!(shown.stdout.contains(&format!("after {first} ran out of")), "{}", shown.stdout);
}

pub(crate) async fn ask_tries_again_with_more_memory(world: &World) {
    // What does not fit into 512 MB fits into 1 GB.
    const HUNGRY: &str = r#"
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "held = b'x' * (600 << 20)\nprint(len(held))" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "held = b'x' * (600 << 20)\nprint(len(held))" } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "held = b'x' * (600 << 20)\nprint(len(held))" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "Held: {{result}}" } }]
    "#;
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(HUNGRY).await;
    let url = format!("http://{}", model.address());
    let asked = belljar(
        place,
        &[
            "ask",
            "How much?",
            "--model",
            crate::world::MODEL,
            "--model-url",
            &url,
            "--template",
            crate::world::TEMPLATE,
            "--turns",
            "2",
            "--memory",
            "512M",
            "--out",
            "out",
        ],
    )
    .await;
    assert_eq!(asked.status, Some(0), "{}{}", asked.stdout, asked.stderr);
    assert_eq!(asked.stdout.trim(), "Held: 629145600", "{}", asked.stderr);
    let now = "ran out of turns and memory: now 4 turns, 1024 MB of memory";
    assert!(asked.stderr.contains(now), "{}", asked.stderr);
    // Each run says what its sandbox had.
    let listed = belljar(place, &["runs", "list", "--json"]).await;
    let rows: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    for (nth, memory) in [(0, 1 << 30), (1, 512 << 20)] {
        let run = rows[nth]["run"].as_str().unwrap();
        let shown = belljar(place, &["runs", "show", run, "--json"]).await;
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        let environment = &shown["environment"];
        assert_eq!(environment["limits"]["memory_bytes"], memory, "{shown}");
        assert_eq!(environment["tier"], "jail", "{shown}");
    }
}
