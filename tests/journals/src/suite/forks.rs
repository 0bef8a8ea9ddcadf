//! Runs that begin in the middle of others.
//!
//! Requirements: A16

use belljar_domain::Sequence;
use belljar_journal::event::{Outcome, Request};
use belljar_journal::{Body, CreateError, RunView, State, fork_points};
use tempfile::TempDir;

use super::crash::Process;
use super::{LONG, all, leased, make, run};
use crate::agent::World;
use crate::build;
use crate::place::Place;

pub async fn a_fork_reads_what_was_before_it(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let parent = &lease.address;
    let long = "z".repeat(50_000);
    for text in ["one", &long, "three"] {
        journal.append(&lease, build::said(text).keyed(&text[..3])).await?;
    }
    let blob = journal.put_blob(parent, b"kept".to_vec()).await?;
    let child = make(&journal, build::fork(parent, 4)).await?;
    journal.request(parent, build::want(Request::Cancel), None).await?;
    let parents = all(&journal, parent).await?;
    let childs = all(&journal, &child).await?;
    assert_eq!((childs.len(), &childs[..4]), (5, &parents[..4]));
    assert!(matches!(childs[4].body, Body::ForkedFrom(_)));
    assert_eq!(journal.get_blob(&child, &blob).await?, b"kept");
    // What was written under a key there may be written here.
    let own = journal.claim(&child, "other", LONG).await?;
    let appended = journal.append(&own, build::said("3").keyed("thr")).await?;
    assert_eq!(appended.seq(), Sequence(7));
    let grandchild = make(&journal, build::fork(&child, 7)).await?;
    let early = make(&journal, build::fork(&child, 2)).await?;
    assert_eq!(all(&journal, &grandchild).await?[..7], all(&journal, &child).await?[..7]);
    assert_eq!(journal.get_blob(&grandchild, &blob).await?, b"kept");
    let events = all(&journal, &early).await?;
    assert_eq!((events.len(), &events[..2]), (3, &parents[..2]));
    assert_eq!(journal.read(&grandchild, Sequence(4), 3).await?.len(), 3);
    assert_eq!(journal.read(&grandchild, Sequence(9), 3).await?, []);
    let row = journal.find(&grandchild).await?;
    assert_eq!((row.state, row.head), (State::Waiting, Sequence(8)));
    assert_eq!(row.parent.map(|parent| parent.after), Some(Sequence(7)));
    for nowhere in [0, 100] {
        let forked = journal.create(&build::fork(parent, nowhere)).await;
        assert!(matches!(forked, Err(CreateError::NoParent)), "{forked:?}");
    }
    Ok(())
}

/// A fork after every event of a run, in the middle of calls and after its end,
/// goes on to an end of its own and does again what was not finished.
pub async fn a_run_can_be_forked_anywhere(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let parent = run(&journal).await?;
    let world = TempDir::new()?;
    Process::work(place, &parent, world.path(), 3, None)?.done()?;
    let events = all(&journal, &parent).await?;
    for at in 1..=events.len() {
        let child = make(&journal, build::fork(&parent, at as u64)).await?;
        let own = TempDir::new()?;
        Process::work(place, &child, own.path(), 3, None)?.done()?;
        let view = RunView::of(&all(&journal, &child).await?);
        assert_eq!(view.finished.as_ref().map(|end| end.outcome), Some(Outcome::Answered));
        assert_eq!(view.turns, 3, "forked after {at}");
        let done = events[..at].iter().filter(|e| matches!(e.body, Body::ToolFinished(_))).count();
        let again = World::new(own.path())?.executions().len();
        assert_eq!(done + again, 3, "forked after {at}");
    }
    let turns: Vec<_> = fork_points(&events).iter().map(|point| point.turn).collect();
    assert_eq!(turns, [1, 2, 3]);
    assert_eq!(all(&journal, &parent).await?, events);
    Ok(())
}
