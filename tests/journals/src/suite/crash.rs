//! Processes that die.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};

use belljar_journal::event::{ErrorCategory, Injected};
use belljar_journal::{Address, Body, Journal, Next, RunView, essence};
use futures_util::StreamExt as _;
use serde_json::Value;
use tempfile::TempDir;

use super::{all, make, run};
use crate::agent::World;
use crate::build;
use crate::place::Place;

/// Where the program is; a test says so first.
pub static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

const TURNS: u32 = 10;
/// Deaths that are tried beside each other: most of their time is waiting for a disk.
const AT_ONCE: usize = 4;

/// Another process, which ends with this one's patience at the latest.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    fn start(place: &impl Place, run: &Address, words: &[&str]) -> anyhow::Result<Self> {
        let program = PROGRAM.get().expect("the test says where the program is");
        let child = Command::new(program)
            .args([&place.name(), &run.tenant, run.run.as_str()])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        Ok(Self(child))
    }

    /// Works on a run; `death`: when it dies.
    pub fn work(
        place: &impl Place,
        run: &Address,
        world: &Path,
        turns: u32,
        death: Option<(&str, u32)>,
    ) -> anyhow::Result<Self> {
        let (world, turns) = (world.display().to_string(), turns.to_string());
        let mut words = vec!["work", &world, &turns];
        let count = death.map(|(_, count)| count.to_string()).unwrap_or_default();
        words.extend(death.iter().flat_map(|(when, _)| [*when, &count]));
        Self::start(place, run, &words)
    }

    fn wait(mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.0.wait()?)
    }

    /// Waits for its good end.
    pub fn done(self) -> anyhow::Result<()> {
        let status = self.wait()?;
        anyhow::ensure!(status.success(), "the other process: {status}");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A writer is killed again and again, somewhere in the middle of something.
pub async fn what_was_acknowledged_survives_kill_9(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let address = run(&journal).await?;
    let mut acknowledged = Vec::new();
    for _ in 0..12 {
        let mut writer = Process::start(place, &address, &["write"])?;
        let out = writer.0.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(out).lines();
        let until = usize::from(build::random()[0] % 32);
        for line in lines.by_ref().take(until + 1) {
            acknowledged.push(line?);
        }
        writer.0.kill()?;
        writer.wait()?;
        // What it said while it was being killed counts, too.
        for line in lines {
            acknowledged.push(line?);
        }
    }
    let journal = place.open().await?;
    let events = all(&journal, &address).await?;
    for line in &acknowledged {
        let (seq, name) = line.split_once(' ').expect("a number and a name");
        let event = &events[seq.parse::<usize>()? - 1];
        assert_eq!(event.key.as_ref().map(|key| key.as_str()), Some(name));
        let Body::InjectedMessage(message) = &event.body else { panic!("{event:?}") };
        assert!(message.text.starts_with(&format!("{name} ")));
    }
    assert!(acknowledged.len() > 12, "{} acknowledged", acknowledged.len());
    // Not more than one event of each that died was written and not acknowledged.
    let others = events.len() - acknowledged.len() - 1 - 12;
    assert!(others <= 12, "{others} events that nobody was told of");
    Ok(())
}

/// A worker dies before or after each event of a run of ten turns; another one
/// takes over. Nobody can tell afterwards.
pub async fn death_at_any_event_changes_nothing(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let whole = run(&journal).await?;
    let world = TempDir::new()?;
    Process::work(place, &whole, world.path(), TURNS, None)?.done()?;
    let events = all(&journal, &whole).await?;
    let expected = essence(&events);
    let calls = World::new(world.path())?.executions().len();
    assert!(calls > 10 && events.len() > 60, "{calls} calls, {} events", events.len());
    let appends = u32::try_from(events.len() - 2)?;
    let before = (0..appends).map(|count| ("before", count));
    let after = (1..=appends).map(|count| ("after", count));
    let points = before.chain(after).map(|(when, count)| {
        let (journal, expected) = (&journal, &expected);
        async move { dies_once(place, journal, expected, calls, (when, count)).await }
    });
    let mut deaths = futures_util::stream::iter(points).buffer_unordered(AT_ONCE);
    while let Some(death) = deaths.next().await {
        death?;
    }
    Ok(())
}

/// Waits without keeping the other deaths from going on.
async fn ended(process: Process) -> anyhow::Result<ExitStatus> {
    tokio::task::spawn_blocking(move || process.wait()).await?
}

/// One worker dies at one point; the next one ends the run as if nothing had happened.
async fn dies_once(
    place: &impl Place,
    journal: &Arc<dyn Journal>,
    expected: &[Value],
    calls: usize,
    (when, count): (&str, u32),
) -> anyhow::Result<()> {
    let address = make(journal, build::new("ann")).await?;
    let world = TempDir::new()?;
    let first = Process::work(place, &address, world.path(), TURNS, Some((when, count)))?;
    assert!(!ended(first).await?.success(), "it dies {when} {count}");
    let second = Process::work(place, &address, world.path(), TURNS, None)?;
    let status = ended(second).await?;
    anyhow::ensure!(status.success(), "the second process, {when} {count}: {status}");
    let events = all(journal, &address).await?;
    assert_eq!(essence(&events), expected, "{when} {count}");
    let mut executions = World::new(world.path())?.executions();
    let count_of_all = executions.len();
    executions.sort();
    executions.dedup();
    assert_eq!((count_of_all, executions.len()), (calls, calls), "{when} {count}");
    let said = |kind| {
        let is = |e: &&belljar_journal::Event| matches!(&e.body, Body::InjectedMessage(message) if message.kind == kind);
        events.iter().filter(is).count()
    };
    assert_eq!((said(Injected::TurnsLeft3), said(Injected::TurnsLeft1)), (1, 1));
    Ok(())
}

pub async fn a_run_that_kills_everybody_is_given_up(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let address = run(&journal).await?;
    let world = TempDir::new()?;
    Process::work(place, &address, world.path(), TURNS, Some(("after", 7)))?.wait()?;
    for _ in 1..belljar_journal::CRASHES {
        Process::work(place, &address, world.path(), TURNS, Some(("before", 0)))?.wait()?;
    }
    Process::work(place, &address, world.path(), TURNS, None)?.done()?;
    let view = RunView::of(&all(&journal, &address).await?);
    let error = view.finished.as_ref().and_then(|end| end.error);
    assert_eq!((error, view.next()), (Some(ErrorCategory::RuntimeCrash), Next::Nothing));
    Ok(())
}
