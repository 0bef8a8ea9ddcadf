//! What people outside do to runs.
//!
//! Requirements: O3, A19

use belljar_agent::Left;
use belljar_domain::Sequence;
use belljar_journal::event::{Body, Budget, BudgetPatch, Event, Injected, Outcome, Request};
use belljar_journal::{RunView, Watch};

use crate::world::{Stage, World, finished, turns};

/// Each turn waits until it is let go on.
const SLOW: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "while [ ! -e go ]; do sleep 0.02; done; echo one" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo two" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "done" } }]
"#;

/// Waits for an event of a run that somebody works on.
async fn wait_for(stage: &Stage<'_>, is: impl Fn(&Body) -> bool) {
    let mut watch = Watch::new(stage.journal.clone(), stage.address.clone(), Sequence(1));
    while let Some(event) = watch.next().await.unwrap() {
        if is(&event.body) {
            return;
        }
    }
    panic!("the run is over");
}

async fn let_go(stage: &Stage<'_>) {
    try_let_go(stage).await.unwrap();
}

async fn try_let_go(stage: &Stage<'_>) -> Result<(), belljar_client::Error> {
    let view = RunView::of(&stage.events().await);
    let id = view.sandbox.unwrap();
    let dial = belljar_client::Dial::new(
        &format!("http://{}", stage.world.served.address),
        belljar_testkit::Served::KEYS[0],
        &belljar_client::Trust::Host,
    );
    let client = belljar_client::Client::new(dial.unwrap());
    client.sandbox(id.as_str()).write_file("go", "").await.map(drop)
}

fn position(events: &[Event], is: impl Fn(&Body) -> bool) -> usize {
    events.iter().position(|event| is(&event.body)).unwrap()
}

pub(crate) async fn a_run_waits_is_told_and_goes_on(world: &World) {
    let stage = world.stage(SLOW, turns(9)).await;
    let worker = stage.worker();
    let steering = async {
        wait_for(&stage, |body| matches!(body, Body::ToolStarted(_))).await;
        stage.ask(Request::Pause).await;
        stage.ask(Request::Tell { text: "Mind the gap.".into() }).await;
        let_go(&stage).await;
    };
    let (left, ()) = tokio::join!(worker.work(&stage.address), steering);
    // What runs is not broken off; what is said waits until the run goes on.
    assert_eq!(left.unwrap(), Left::Paused);
    let events = stage.events().await;
    // The pause may take effect before the message is written, and nothing else after it.
    let paused = position(&events, |body| matches!(body, Body::Paused(_)));
    let told = |event: &Event| matches!(event.body, Body::ControlRequested(_));
    assert!(events[paused + 1..].iter().all(told), "{:?}", events.last());
    assert!(!events.iter().any(|event| matches!(event.body, Body::InjectedMessage(_))));
    // Nothing wants to be worked on.
    assert_eq!(worker.work(&stage.address).await.unwrap(), Left::Paused);
    stage.ask(Request::Resume).await;
    let events = stage.finish().await;
    assert_eq!(finished(&events).outcome, Outcome::Answered);
    let told = position(
        &events,
        |body| matches!(body, Body::InjectedMessage(it) if it.kind == Injected::Operator),
    );
    assert!(position(&events, |body| matches!(body, Body::Resumed(_))) < told);
    let after: Vec<_> = stage.bodies().iter().map(|body| body.contains("Mind the gap.")).collect();
    assert_eq!(after, [false, true, true]);
    // The sandbox was the same all along.
    assert_eq!(RunView::of(&events).sandboxes, 1);
}

pub(crate) async fn a_run_is_cancelled_between_two_actions(world: &World) {
    let stage = world.stage(SLOW, turns(9)).await;
    let worker = stage.worker();
    let steering = async {
        wait_for(&stage, |body| matches!(body, Body::ToolStarted(_))).await;
        stage.ask(Request::Cancel).await;
        // The cancellation may take effect before the call does: then the sandbox is gone.
        match try_let_go(&stage).await {
            Ok(()) => {}
            Err(belljar_client::Error::Problem(problem)) => {
                assert_eq!(problem.said.code, "sandbox_gone");
            }
            Err(error) => panic!("{error}"),
        }
    };
    let (left, ()) = tokio::join!(worker.work(&stage.address), steering);
    assert_eq!(left.unwrap(), Left::Finished);
    let events = stage.events().await;
    let end = finished(&events);
    assert_eq!(end.outcome, Outcome::Cancelled);
    assert!(end.result.is_some());
    assert_eq!(stage.bodies().len(), 1);
}

pub(crate) async fn a_budget_can_be_changed_while_the_run_goes_on(world: &World) {
    let stage = world.stage(SLOW, turns(9)).await;
    let worker = stage.worker();
    let steering = async {
        wait_for(&stage, |body| matches!(body, Body::ToolStarted(_))).await;
        let change = BudgetPatch(Budget { turns: Some(1), ..Budget::default() });
        stage.ask(Request::Budget { change }).await;
        let_go(&stage).await;
    };
    let (left, ()) = tokio::join!(worker.work(&stage.address), steering);
    assert_eq!(left.unwrap(), Left::Finished);
    let events = stage.events().await;
    assert_eq!(finished(&events).outcome, Outcome::Exhausted);
    let bodies = stage.bodies();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[1].contains("The budget has changed. Budget: 1 turn."), "{}", bodies[1]);
    assert!(bodies[1].contains("No tool can be called any more"), "{}", bodies[1]);
}

pub(crate) async fn a_sandbox_that_is_lost_is_replaced_and_the_model_is_told(world: &World) {
    let stage = world.stage(SLOW, turns(9)).await;
    let worker = stage.worker();
    let losing = async {
        wait_for(&stage, |body| matches!(body, Body::ToolStarted(_))).await;
        let view = RunView::of(&stage.events().await);
        let dial = belljar_client::Dial::new(
            &format!("http://{}", stage.world.served.address),
            belljar_testkit::Served::KEYS[0],
            &belljar_client::Trust::Host,
        );
        let client = belljar_client::Client::new(dial.unwrap());
        client.sandbox(view.sandbox.unwrap().as_str()).end().await.unwrap();
    };
    let (left, ()) = tokio::join!(worker.work(&stage.address), losing);
    assert_eq!(left.unwrap(), Left::Finished);
    let events = stage.events().await;
    assert_eq!(finished(&events).outcome, Outcome::Answered);
    assert_eq!(RunView::of(&events).sandboxes, 2);
    let bodies = stage.bodies();
    assert!(bodies[1].contains("The sandbox was lost while this ran"), "{}", bodies[1]);
    assert!(bodies[2].contains("has been replaced by a new one"), "{}", bodies[2]);
}
