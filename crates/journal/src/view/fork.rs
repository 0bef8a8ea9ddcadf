//! Where a run can be forked.

use belljar_domain::Sequence;

use super::RunView;
use crate::event::{Body, Event, SnapshotTaken};

/// The end of a turn: its calls are done, and nothing of the next one has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkPoint {
    pub turn: u32,
    /// What [`ForkedFrom`](crate::event::ForkedFrom) names.
    pub after: Sequence,
    /// The last snapshot of the sandbox before it. It is of this point if nothing was
    /// done in the sandbox since.
    pub snapshot: Option<SnapshotTaken>,
}

/// One for each turn that is over, in order.
pub fn fork_points(events: &[Event]) -> Vec<ForkPoint> {
    let mut view = RunView::default();
    let mut points: Vec<ForkPoint> = Vec::new();
    // Whether what comes now may still be about the last turn that is over.
    let mut is_open = false;
    for event in events {
        view.apply(event);
        let is_over = view.turns > 0 && view.asked.is_none() && view.unfinished().is_none();
        let is_end = is_over && matches!(event.body, Body::LlmResponded(_) | Body::ToolFinished(_));
        if is_end {
            points.push(ForkPoint { turn: view.turns, after: event.seq, snapshot: None });
        }
        is_open = is_end || (is_open && is_about_the_past(&event.body));
        if let Some(point) = points.last_mut().filter(|_| is_open) {
            point.after = event.seq;
            point.snapshot.clone_from(&view.snapshot);
        }
    }
    points
}

/// What is written down about a turn after its last call.
fn is_about_the_past(body: &Body) -> bool {
    matches!(
        body,
        Body::SnapshotTaken(_)
            | Body::ArtifactAdded(_)
            | Body::NetworkUsed(_)
            | Body::GuardReported(_)
            | Body::SessionSaved(_)
    )
}
