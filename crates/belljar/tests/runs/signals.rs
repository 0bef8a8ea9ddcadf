//! Workers count the events that they write, each once.
//!
//! Requirements: O4

use std::sync::{Arc, Mutex};

use belljar_agent::{Left, Observer, Signal, Signals};
use belljar_domain::Sequence;
use belljar_journal::event::Body;
use belljar_journal::{Address, RunView, Watch};

use crate::world::{World, turns};

#[derive(Debug, Default)]
struct Collected(Mutex<Vec<Signal>>);

impl Observer for Collected {
    fn observe(&self, _: &Address, signal: &Signal) {
        self.0.lock().unwrap().push(*signal);
    }
}

/// O4: each fact of the transcript is counted once, on any worker.
pub(crate) async fn each_event_is_told_once_also_if_the_worker_is_stopped(world: &World) {
    const SCRIPT: &str = r#"
        [[turn]]
        call = [{ tool = "shell", input = { command = "exit 3" } }]
        usage = { input = 1000, output = 50, cached = 3000 }
        [[turn]]
        call = [{ tool = "shell", input = { command = "while [ ! -e go ]; do sleep 0.02; done" } }]
        [[turn]]
        call = [{ tool = "finish", input = { answer = "done" } }]
    "#;
    let stage = world.stage(SCRIPT, turns(5)).await;
    let (first, second) = (Arc::<Collected>::default(), Arc::<Collected>::default());
    // The first worker is stopped while the second command runs.
    let mut watch = Watch::new(stage.journal.clone(), stage.address.clone(), Sequence(1));
    let stop = async move {
        let mut started = 0;
        while started < 2 {
            let event = watch.next().await.unwrap().unwrap();
            started += u32::from(matches!(event.body, Body::ToolStarted(_)));
        }
    };
    let worker = stage.worker().observed_by(first.clone());
    assert_eq!(worker.work_until(&stage.address, stop).await.unwrap(), Left::Stopped);
    let sandbox = RunView::of(&stage.events().await).sandbox.unwrap();
    let dial = belljar_client::Dial::new(
        &format!("http://{}", world.served.address),
        belljar_testkit::Served::KEYS[0],
        &belljar_client::Trust::Host,
    );
    let client = belljar_client::Client::new(dial.unwrap());
    client.sandbox(sandbox.as_str()).write_file("go", "").await.unwrap();
    let worker = stage.worker().observed_by(second.clone());
    assert_eq!(worker.work(&stage.address).await.unwrap(), Left::Finished);

    let (mut view, mut signals) = (RunView::default(), Signals::default());
    let mut want = Vec::new();
    for event in &stage.events().await {
        want.extend(signals.hear(&view, event));
        view.apply(event);
    }
    let told = [first.0.lock().unwrap().clone(), second.0.lock().unwrap().clone()];
    assert!(told.iter().all(|told| !told.is_empty()), "{told:?}");
    assert_eq!(told.concat(), want);
}
