//! Every budget, used up in the middle of the work; and the warnings before.
//!
//! Requirements: A3

use std::cell::Cell;
use std::time::{Duration, Instant};

use belljar_agent::{Left, Settings, WorkError};
use belljar_domain::EndReason;
use belljar_journal::event::{
    Body, Budget, BudgetPatch, Event, Injected, Limit, LimitHit, Outcome, Request,
};
use belljar_journal::{ClaimError, RunView, Watch};

use crate::world::{Stage, World, finished, turns};

/// Goes on for as long as it may; each call takes some of everything.
const ENDLESS: &str = r#"
    [[turn]]
    say = "I go on."
    call = [{ tool = "shell", input = { command = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; seq 40" } }]
"#;

/// Milliseconds, whole seconds of them, in which a run makes its first call for sure: a
/// few times what one took just now.
async fn plenty_for_a_call(world: &World) -> u64 {
    let stage = world.stage(ENDLESS, turns(1)).await;
    let begin = Instant::now();
    stage.finish().await;
    1000 * (begin.elapsed() * 4).as_secs().clamp(2, 119)
}

fn limits(events: &[Event]) -> Vec<&LimitHit> {
    let mut found = Vec::new();
    for event in events {
        if let Body::LimitHit(hit) = &event.body {
            found.push(hit);
        }
    }
    found
}

fn injected(events: &[Event], kind: Injected) -> usize {
    let is = |event: &&Event| matches!(&event.body, Body::InjectedMessage(it) if it.kind == kind);
    events.iter().filter(is).count()
}

pub(crate) async fn each_budget_ends_the_work_and_the_model_answers_without_tools(world: &World) {
    let budget = Budget::default();
    let wall = plenty_for_a_call(world).await;
    let seconds = format!("{} seconds on the clock", wall / 1000);
    for (limit, budget, reason) in [
        (Limit::Turns, turns(2), "2 turns"),
        (Limit::Tokens, Budget { tokens: Some(2000), ..budget }, "2,000 tokens"),
        (Limit::Output, Budget { output_bytes: Some(200), ..budget }, "200 bytes of output"),
        (Limit::Cpu, Budget { cpu_ms: Some(10), ..budget }, "10 ms of computing"),
        (Limit::Wall, Budget { wall_ms: Some(wall), ..budget }, &seconds),
    ] {
        let stage = world.stage(ENDLESS, budget).await;
        let events = stage.finish().await;
        let end = finished(&events);
        assert_eq!(end.outcome, Outcome::Exhausted, "{limit:?}: {end:?}");
        assert_eq!(end.result.as_deref(), Some("I go on."), "{limit:?}");
        let why = end.message.as_deref().unwrap_or_default();
        assert!(why.contains(reason), "{limit:?}: {why}");
        let hits = limits(&events);
        assert_eq!(hits.len(), 1, "{limit:?}: {hits:?}");
        assert!(hits[0].limit == limit && hits[0].used >= hits[0].allowed, "{hits:?}");
        assert_eq!(injected(&events, Injected::Final), 1, "{limit:?}");
        // It was told all along what it may use, and at last that it is over.
        let bodies = stage.bodies();
        let last = bodies.last().unwrap();
        assert!(bodies.iter().all(|body| body.contains(reason)), "{limit:?}: {}", bodies[0]);
        assert!(bodies.len() > 1 && last.contains("No tool can be called any more"), "{limit:?}");
        assert!(last.contains(r#""tool_choice":{"type":"none"}"#), "{limit:?}: {last}");
        let calls = RunView::of(&events).spent.calls;
        assert_eq!(u64::try_from(bodies.len()).unwrap(), calls + 1, "{limit:?}");
    }
}

pub(crate) async fn a_call_takes_no_longer_than_the_run_may(world: &World) {
    const SLOW: &str = r#"
        [[turn]]
        call = [{ tool = "shell", input = { command = "echo begun; sleep 500", timeout_seconds = 600 } }]
        [[turn]]
        call = [{ tool = "execute_python", input = { code = "print(1)" } }]
    "#;
    let wall = plenty_for_a_call(world).await;
    let budget = Budget { wall_ms: Some(wall), ..Budget::default() };
    let stage = world.stage(SLOW, budget).await;
    let events = stage.finish().await;
    assert_eq!(finished(&events).outcome, Outcome::Exhausted);
    let call = events.iter().find_map(|event| match &event.body {
        Body::ToolFinished(finished) => Some(finished),
        _ => None,
    });
    let call = call.unwrap();
    assert_eq!(call.fault.as_ref().unwrap().category, "timeout");
    assert!(call.shown.starts_with("begun"), "{}", call.shown);
    assert_eq!(RunView::of(&events).spent.calls, 1, "what was not begun in time is not begun");
}

pub(crate) async fn a_call_computes_no_more_than_the_run_may(world: &World) {
    let python = r#"{ tool = "execute_python", input = { code = "while True: pass" } }"#;
    let fresh =
        r#"{ tool = "execute_python", input = { code = "while True: pass", fresh = true } }"#;
    let shell = r#"{ tool = "shell", input = { command = "while :; do :; done" } }"#;
    for call in [python, fresh, shell] {
        let script = format!("[[turn]]\ncall = [{call}]\n[[turn]]\ncall = [{call}]\n");
        // Without a bound of its own, code goes on for as long as its sandbox lets it.
        let budget = Budget { cpu_ms: Some(1500), wall_ms: Some(600_000), ..Budget::default() };
        let stage = world.stage(&script, budget).await;
        let late = Cell::new(Duration::ZERO);
        let events = tokio::select! {
            events = stage.finish() => events,
            () = lateness(&late) => unreachable!("it goes on for ever"),
        };
        assert_eq!(finished(&events).outcome, Outcome::Exhausted, "{call}");
        let ended = events.iter().find_map(|event| match &event.body {
            Body::ToolFinished(finished) => Some(finished),
            _ => None,
        });
        let ended = ended.unwrap();
        assert_eq!(ended.reason, EndReason::TimeoutCpu, "{call}: {ended:?}");
        let used = Duration::from_micros(ended.used.cpu_micros);
        // Whoever ends it looks now and then, and may come late to that.
        let most = Duration::from_millis(1500) + Duration::from_secs(2) + 2 * late.get();
        assert!(used >= Duration::from_millis(1500) && used < most, "{call}: {used:?}");
        assert_eq!(RunView::of(&events).spent.calls, 1, "{call}: no other begins");
    }
}

/// Keeps how late the latest of many looks at the clock was, as this runtime is busy or
/// the machine stands still.
async fn lateness(worst: &Cell<Duration>) {
    const LOOK: Duration = Duration::from_millis(50);
    loop {
        let begin = Instant::now();
        tokio::time::sleep(LOOK).await;
        worst.set(worst.get().max(begin.elapsed().saturating_sub(LOOK)));
    }
}

/// How often each warning is in the log, and in how many requests it was sent.
fn warned(stage: &Stage<'_>, events: &[Event]) -> [(usize, usize); 3] {
    let bodies = stage.bodies();
    let sent = |words: &str| bodies.iter().filter(|body| body.contains(words)).count();
    [
        (injected(events, Injected::TurnsLeft3), sent("You have only 3 turns remaining")),
        (injected(events, Injected::TurnsLeft1), sent("FINAL WARNING")),
        (injected(events, Injected::Final), sent("No tool can be called any more")),
    ]
}

pub(crate) async fn warnings_come_once_each_however_often_the_run_is_taken_up(world: &World) {
    const PLAIN: &str = r#"
        [[turn]]
        say = "I go on."
        call = [{ tool = "shell", input = { command = "echo again" } }]
    "#;
    let undisturbed = world.stage(PLAIN, turns(5)).await;
    let events = undisturbed.finish().await;
    let expected = warned(&undisturbed, &events);
    assert_eq!(expected, [(1, 4), (1, 2), (1, 1)]);
    // Whoever works dies after every single event, and somebody else goes on.
    let stage = world.stage(PLAIN, turns(5)).await;
    let short = Settings { lease: Duration::from_millis(50), ..Settings::default() };
    let mut deaths = 0;
    loop {
        let seen = stage.events().await.len();
        let worker = stage.worker_with(short.clone());
        tokio::select! {
            left = worker.work(&stage.address) => match left {
                Ok(left) => break assert_eq!(left, Left::Finished),
                Err(WorkError::Claim(ClaimError::Held { .. })) => stage.free().await,
                Err(WorkError::Claim(ClaimError::Finished)) => break,
                Err(error) => panic!("{error}"),
            },
            () = grown(&stage, seen) => deaths += 1,
        }
    }
    assert!(deaths > 10, "{deaths}");
    let events = stage.events().await;
    assert_eq!(finished(&events).outcome, Outcome::Exhausted);
    assert_eq!(warned(&stage, &events).map(|(log, _)| log), expected.map(|(log, _)| log));
}

/// Waits until a run has more events than so many, and one of them is progress: who
/// dies without any three times in a row takes the run along.
async fn grown(stage: &Stage<'_>, seen: usize) {
    let mut watch = Watch::new(
        stage.journal.clone(),
        stage.address.clone(),
        belljar_domain::Sequence(seen as u64 + 1),
    );
    while let Some(event) = watch.next().await.unwrap() {
        if event.body.is_progress() || matches!(event.body, Body::InjectedMessage(_)) {
            return;
        }
    }
}

pub(crate) async fn who_gets_more_turns_after_a_warning_is_not_warned_again(world: &World) {
    const STEPS: &str = r#"
        [[turn]]
        call = [{ tool = "shell", input = { command = "echo one" } }]
        [[turn]]
        call = [{ tool = "shell", input = { command = "echo two" } }]
        [[turn]]
        call = [{ tool = "shell", input = { command = "echo three" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "Three steps." } }]
    "#;
    let stage = world.stage(STEPS, turns(3)).await;
    let change = BudgetPatch(Budget { turns: Some(4), ..Budget::default() });
    let more = async {
        grown(&stage, 1).await;
        stage.ask(Request::Budget { change }).await;
    };
    let worker = stage.worker();
    let (left, ()) = tokio::join!(worker.work(&stage.address), more);
    assert_eq!(left.unwrap(), Left::Finished);
    let events = stage.events().await;
    assert_eq!(finished(&events).result.as_deref(), Some("Three steps."));
    let counts = [Injected::TurnsLeft3, Injected::TurnsLeft1, Injected::Final]
        .map(|kind| injected(&events, kind));
    assert_eq!(counts, [1, 1, 0]);
}
