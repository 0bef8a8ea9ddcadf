//! The end of a run that is recorded: it takes its time, and something may happen meanwhile.
//!
//! Requirements: A13, P5

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_agent::Left;
use belljar_journal::event::{
    Body, Brief, ControlRequested, Environment, Outcome, Request, RunCreated, Wish,
};
use belljar_journal::{Address, Directory, Journal, NewEvent, read_all};
use belljar_scripted::{Model, Options, Script};
use futures_util::future::BoxFuture;

use crate::hooked::{Hook, Hooked};
use crate::world::{self, TEMPLATE, World, finished, question, turns};

const ANSWER: &str = r#"
    [[turn]]
    say = "It is 4."
"#;

fn recorded() -> RunCreated {
    let brief = Brief { record: Some("closing".into()), ..Brief::default() };
    let wish = Wish {
        template: TEMPLATE.into(),
        environment: Environment::default(),
        network: Box::default(),
        brief: Box::new(brief),
        operation: None,
        request: None,
        questions: false,
        traceparent: None,
    };
    RunCreated { wish: Some(wish), ..question(turns(3)) }
}

async fn model() -> Model {
    let options = Options { script: Script::parse(ANSWER).unwrap(), ..Options::default() };
    Model::start(options).await.unwrap()
}

/// The recording cannot be kept at first. The answer is there by then.
pub(crate) async fn an_answer_is_written_before_the_run_is_recorded(world: &World) {
    let model = model().await;
    let directory = tempfile::tempdir_in(world.directory.path()).unwrap();
    let journal: Arc<dyn Journal> = Arc::new(Directory::open(directory.path()).unwrap());
    let address = world::begin(&*journal, recorded()).await;
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (server, at) = (world.served.address, model.address());
    let worker = world::worker(journal.clone(), server, at, &file.join("shelf"));
    worker.work(&address).await.unwrap_err();
    let events = read_all(&*journal, &address).await.unwrap();
    assert_eq!(count(&events, "llm_responded"), 1, "{events:?}");
    assert_eq!(count(&events, "finished"), 0);
    let worker = world::worker(journal.clone(), server, at, &directory.path().join("shelf"));
    assert_eq!(worker.work(&address).await.unwrap(), Left::Finished);
    let events = read_all(&*journal, &address).await.unwrap();
    assert_eq!(finished(&events).outcome, Outcome::Answered);
    assert_eq!(count(&events, "recording_made"), 1);
    assert_eq!(model.record().all().len(), 1, "the answer was paid for once");
}

/// Cancels the run just before its recording is written.
#[derive(Debug, Default)]
struct Cancels(AtomicBool);

impl Hook for Cancels {
    fn before<'a>(
        &'a self,
        journal: &'a Directory,
        run: &'a Address,
        event: &'a NewEvent,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let is_recorded = matches!(event.body, Body::RecordingMade(_));
            if is_recorded && !self.0.swap(true, Ordering::SeqCst) {
                let request = ControlRequested { request: Request::Cancel, by: "test".into() };
                journal.request(run, request, None).await.unwrap();
            }
        })
    }
}

pub(crate) async fn a_request_that_comes_while_a_run_ends_is_obeyed(world: &World) {
    let model = model().await;
    let directory = tempfile::tempdir_in(world.directory.path()).unwrap();
    let inner = Directory::open(directory.path()).unwrap();
    let journal: Arc<dyn Journal> = Arc::new(Hooked { inner, hook: Cancels::default() });
    let address = world::begin(&*journal, recorded()).await;
    let (server, shelf) = (world.served.address, directory.path().join("shelf"));
    let worker = world::worker(journal.clone(), server, model.address(), &shelf);
    assert_eq!(worker.work(&address).await.unwrap(), Left::Finished);
    let events = read_all(&*journal, &address).await.unwrap();
    assert_eq!(finished(&events).outcome, Outcome::Cancelled, "{events:?}");
    assert_eq!((count(&events, "cancelled"), count(&events, "recording_made")), (1, 1));
    assert_eq!(model.record().all().len(), 1);
}

fn count(events: &[belljar_journal::Event], kind: &str) -> usize {
    events.iter().filter(|event| event.body.kind() == kind).count()
}
