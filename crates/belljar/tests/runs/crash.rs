//! kill -9 of the worker, at every event.
//!
//! A worker of its own process dies just before or just after it has written an event;
//! another one takes the run over. What comes of it must be what comes of an
//! undisturbed run, and what was done in the sandbox must have been done once.
//!
//! Requirements: A13, P5

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use belljar_agent::Left;
use belljar_journal::event::ControlRequested;
use belljar_journal::{
    Address, AppendError, Appended, Bells, BlobError, BlobRef, ClaimError, CreateError, Created,
    Directory, Event, Journal, Key, Lease, LeaseError, ListQuery, Listed, NewEvent, NewRun,
    ReadError, RequestError, RunRow, essence, read_all,
};
use belljar_model::Sequence;
use belljar_scripted::{Model, Options, Script};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;

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

/// A journal that kills its process at one of its appends.
#[derive(Debug)]
struct Deadly {
    inner: Directory,
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

impl Journal for Deadly {
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        event: NewEvent,
    ) -> BoxFuture<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            self.strike(When::Before);
            let appended = self.inner.append(lease, event).await;
            self.strike(When::After);
            let _ = self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            appended
        })
    }

    fn create<'a>(&'a self, new: &'a NewRun) -> BoxFuture<'a, Result<Created, CreateError>> {
        self.inner.create(new)
    }

    fn find<'a>(&'a self, run: &'a Address) -> BoxFuture<'a, Result<RunRow, ReadError>> {
        self.inner.find(run)
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> BoxFuture<'a, Result<Listed, ReadError>> {
        self.inner.list(query)
    }

    fn claimable(&self, most: usize) -> BoxFuture<'_, Result<Vec<Address>, ReadError>> {
        self.inner.claimable(most)
    }

    fn claim<'a>(
        &'a self,
        run: &'a Address,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ClaimError>> {
        self.inner.claim(run, owner, time)
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), LeaseError>> {
        self.inner.renew(lease, time)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), LeaseError>> {
        self.inner.release(lease)
    }

    fn request<'a>(
        &'a self,
        run: &'a Address,
        request: ControlRequested,
        key: Option<Key>,
    ) -> BoxFuture<'a, Result<Appended, RequestError>> {
        self.inner.request(run, request, key)
    }

    fn read<'a>(
        &'a self,
        run: &'a Address,
        from: Sequence,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, ReadError>> {
        self.inner.read(run, from, most)
    }

    fn put_blob<'a>(
        &'a self,
        run: &'a Address,
        content: Vec<u8>,
    ) -> BoxFuture<'a, Result<BlobRef, BlobError>> {
        self.inner.put_blob(run, content)
    }

    fn get_blob<'a>(
        &'a self,
        run: &'a Address,
        blob: &'a BlobRef,
    ) -> BoxFuture<'a, Result<Vec<u8>, BlobError>> {
        self.inner.get_blob(run, blob)
    }

    fn bells(&self) -> &Bells {
        self.inner.bells()
    }
}

/// `--as-worker DIRECTORY RUN SERVER MODEL NUMBER before|after`
pub(crate) async fn worker(arguments: &[String]) {
    let [directory, run, server, model, number, when] = arguments else { panic!("{arguments:?}") };
    let directory = Path::new(directory);
    let journal = Deadly {
        inner: Directory::open(directory).unwrap(),
        left: AtomicU32::new(number.parse().unwrap()),
        when: if when == "before" { When::Before } else { When::After },
    };
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
        let second = work(0).status().await.unwrap();
        assert!(second.success(), "event {number} {when:?}: {second}");
    } else {
        assert!(first.success(), "{first}");
    }
    let events = read_all(&journal, &address).await.unwrap();
    let view = belljar_journal::RunView::of(&events);
    let count = view.artifacts.iter().find(|artifact| artifact.name == "count").unwrap();
    let count = journal.get_blob(&address, &count.content).await.unwrap();
    (events, String::from_utf8(count).unwrap())
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
