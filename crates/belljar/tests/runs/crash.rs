//! kill -9 of the worker, at every event.
//!
//! A worker of its own process dies just before or just after it has written an event;
//! another one takes the run over. What comes of it must be what comes of an
//! undisturbed run, and what was done in the sandbox must have been done once.
//!
//! Requirements: A13, P5

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use belljar_agent::Left;
use belljar_journal::{Address, Body, Directory, Event, Journal, NewEvent, essence, read_all};
use belljar_scripted::{Model, Options, Script};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::hooked::{Hook, Hooked};
use crate::world::{self, World, finished, turns};

/// The argument that makes this executable a worker.
pub(crate) const WORKER: &str = "--as-worker";

/// How many runs are disturbed at the same time.
const AT_ONCE: usize = 4;

/// Ten turns; every call leaves a line in a file, and the last one hands it in.
const TEN: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 1 >> count; echo one" } }]
    [[turn]]
    call = [{ tool = "execute_python", input = { code = "n = 2\nopen('count', 'a').write('2\\n')\nprint(n)" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 3 >> count" } },
            { tool = "shell", input = { command = "echo 4 >> count; exit 4" } }]
    [[turn]]
    call = [{ tool = "execute_python", input = { code = "n += 3\nopen('count', 'a').write(f'{n}\\n')\nn" } }]
    [[turn]]
    call = [{ tool = "write_file", input = { path = "note.txt", content = "six" } }]
    [[turn]]
    call = [{ tool = "execute_python", input = { code = "open('count', 'a').write('6\\n')", fresh = true } }]
    [[turn]]
    call = [{ tool = "read_file", input = { path = "note.txt" } }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "{broken" } }, { tool = "none", input = {} }]
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 7 >> count; seq 3000" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "Seven lines.", files = ["count"] } }]
"#;

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// What it says has been done, and is not written down.
    Before,
    /// It is written down, and nothing follows.
    After,
}

/// Kills its process at one of its appends.
#[derive(Debug)]
struct Deadly {
    left: AtomicU32,
    when: When,
}

impl Deadly {
    fn strike(&self, when: When) {
        if when == self.when && self.left.load(Ordering::SeqCst) == 1 {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
    }
}

impl Hook for Deadly {
    fn before<'a>(
        &'a self,
        _: &'a Directory,
        _: &'a Address,
        _: &'a NewEvent,
    ) -> BoxFuture<'a, ()> {
        self.strike(When::Before);
        Box::pin(std::future::ready(()))
    }

    fn after(&self) {
        self.strike(When::After);
        let _ =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    }
}

/// `--as-worker DIRECTORY RUN SERVER MODEL NUMBER before|after`
pub(crate) async fn worker(arguments: &[String]) {
    let [directory, run, server, model, number, when] = arguments else { panic!("{arguments:?}") };
    let directory = Path::new(directory);
    let hook = Deadly {
        left: AtomicU32::new(number.parse().unwrap()),
        when: if when == "before" { When::Before } else { When::After },
    };
    let journal = Hooked { inner: Directory::open(directory).unwrap(), hook };
    let address = Address { tenant: "one".into(), run: run.parse().unwrap() };
    let (server, model) = (server.parse().unwrap(), model.parse().unwrap());
    let worker = world::worker(Arc::new(journal), server, model, &directory.join("shelf"));
    assert_eq!(worker.work(&address).await.unwrap(), Left::Finished);
}

/// A run that is disturbed after so many events, or never. Answers its events and
/// what its calls left behind.
async fn played(world: &World, model: &Model, number: u32, when: When) -> (Vec<Event>, String) {
    let directory = tempfile::tempdir_in(world.directory.path()).unwrap();
    let journal = Directory::open(directory.path()).unwrap();
    let address = world::create(&journal, turns(12)).await;
    let work = |number: u32| {
        let mut command = tokio::process::Command::new("/proc/self/exe");
        let word = if when == When::Before { "before" } else { "after" };
        command.arg(WORKER).arg(directory.path()).arg(address.run.as_str());
        command.arg(world.served.address.to_string()).arg(model.address().to_string());
        command.arg(number.to_string()).arg(word).stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    let first = work(number).status().await.unwrap();
    if number > 0 {
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(first.signal(), Some(9), "event {number} {when:?}: {first}");
        // Another worker died while it kept an answer.
        std::fs::write(folder_of(directory.path(), &address).join(".tmpOld"), "half").unwrap();
        let second = work(0).status().await.unwrap();
        assert!(second.success(), "event {number} {when:?}: {second}");
    } else {
        assert!(first.success(), "{first}");
    }
    let left = kept_answers(&folder_of(directory.path(), &address));
    assert_eq!(left, [] as [String; 0], "event {number} {when:?}");
    let events = read_all(&journal, &address).await.unwrap();
    let view = belljar_journal::RunView::of(&events);
    let count = view.artifacts.iter().find(|artifact| artifact.name == "count").unwrap();
    let count = journal.get_blob(&address, &count.content).await.unwrap();
    (events, String::from_utf8(count).unwrap())
}

/// The folder of a run: that of its tenant has a name that is made of the tenant's.
fn folder_of(directory: &Path, address: &Address) -> PathBuf {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut folders = entries.map(|entry| entry.path().join(address.run.as_str()));
    folders.find(|folder| folder.is_dir()).unwrap()
}

/// The names of answers that are kept, whole or in part.
fn kept_answers(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".answer") || name.starts_with(".tmp")).collect()
}

/// The essence, without names that are made anew for every run.
fn plain(events: &[Event]) -> Vec<Value> {
    let mut all = essence(events);
    for event in &mut all {
        let fields = event.as_object_mut().unwrap();
        for made_up in ["sandbox", "exec", "upstream_request"] {
            fields.remove(made_up);
        }
    }
    all
}

pub(crate) async fn a_worker_may_be_killed_at_every_event(world: &World) {
    let options = Options { script: Script::parse(TEN).unwrap(), ..Options::default() };
    let model = Model::start(options).await.unwrap();
    let (undisturbed, lines) = played(world, &model, 0, When::After).await;
    assert_eq!(lines, LINES);
    assert_eq!(finished(&undisturbed).result.as_deref(), Some("Seven lines."));
    let expected = plain(&undisturbed);
    // The first events, of the creation and of the lease, are not the worker's own.
    let own = u32::try_from(undisturbed.len()).unwrap() - 2;
    let points = (1..=own).flat_map(|number| [(number, When::Before), (number, When::After)]);
    // After the last one there is nothing to take over.
    let points = points.filter(|point| *point != (own, When::After));
    let (model, expected) = (&model, &expected);
    let all = futures_util::stream::iter(points).map(|(number, when)| async move {
        let (events, lines) = played(world, model, number, when).await;
        assert_eq!(lines, LINES, "killed {when:?} event {number}");
        let found = plain(&events);
        let differs = found.iter().zip(expected).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("killed {when:?} event {number}: {:#} is not {:#}", found[at], expected[at]);
        }
        assert_eq!(found.len(), expected.len(), "killed {when:?} event {number}");
    });
    let done = all.buffer_unordered(AT_ONCE).count().await;
    println!("  killed {done} times over {own} events");
}

/// Two turns, with one request each.
const TWO: &str = r#"
    strict = true
    [[turn]]
    call = [{ tool = "shell", input = { command = "echo 1 >> count" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "One line.", files = ["count"] } }]
"#;

/// The worker dies with an answer of the model, before it has written that. The next one uses the
/// answer: the provider itself counts one request for each turn.
pub(crate) async fn an_answer_that_was_kept_is_not_bought_again(world: &World) {
    let model = || async {
        let options = Options { script: Script::parse(TWO).unwrap(), ..Options::default() };
        Model::start(options).await.unwrap()
    };
    let first = model().await;
    let (undisturbed, _) = played(world, &first, 0, When::After).await;
    let is_answer = |event: &&Event| matches!(event.body, Body::LlmResponded(_));
    let answers: Vec<u64> = undisturbed.iter().filter(is_answer).map(|it| it.seq.0).collect();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        let model = model().await;
        // The first two events are not the worker's own.
        let number = u32::try_from(answer).unwrap() - 2;
        let (events, lines) = played(world, &model, number, When::Before).await;
        assert_eq!(lines, "1\n");
        let asked = model.record().all().len();
        assert_eq!(asked, 2, "killed before event {answer}");
        let failed = events.iter().any(|event| matches!(event.body, Body::LlmFailed(_)));
        assert!(!failed, "the answer before event {answer} is lost: {events:?}");
        assert_eq!(events.iter().filter(is_answer).count(), 2);
    }
}
