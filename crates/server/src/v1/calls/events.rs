//! A call's doings, as server-sent events.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use belljar_api::call as api;
use belljar_sandboxes::Stream as Origin;
use futures_util::{Stream, stream};

use super::gather::ended;
use super::source::{Doing, Source};
use crate::v1::hint::Hints;
use crate::v1::output::{self, Writing, event};

/// What comes next.
enum Step {
    Begin,
    Go,
    /// What was held back of each stream, then the end.
    Last(Vec<api::CallEvent>),
}

struct Told {
    call: (u32, u32),
    source: Source,
    stdout: Writing,
    stderr: Writing,
    hints: Hints,
    step: Step,
}

pub(super) fn stream(
    call: (u32, u32),
    source: Source,
    encoding: api::Encoding,
    hints: Hints,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (stdout, stderr) = (Writing::new(encoding), Writing::new(encoding));
    let told = Told { call, source, stdout, stderr, hints, step: Step::Begin };
    let events = stream::unfold(told, async |mut told| {
        let next = told.next().await?;
        let name = name(&next);
        Some((Ok(event(name, &next)), told))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

impl Told {
    async fn next(&mut self) -> Option<api::CallEvent> {
        loop {
            match &mut self.step {
                Step::Begin => {
                    self.step = Step::Go;
                    let (id, number) = self.call;
                    return Some(api::CallEvent::Started { id, number });
                }
                Step::Last(rest) => return rest.pop(),
                Step::Go => {}
            }
            match self.source.next().await {
                Doing::Output(Origin::Stderr, bytes) => {
                    self.hints.push(&bytes);
                    if let Some(chunk) = self.stderr.push(&bytes) {
                        return Some(api::CallEvent::Stderr(chunk));
                    }
                }
                Doing::Output(_, bytes) => {
                    self.hints.push(&bytes);
                    if let Some(chunk) = self.stdout.push(&bytes) {
                        return Some(api::CallEvent::Stdout(chunk));
                    }
                }
                Doing::Omitted(amount) => {
                    return Some(api::CallEvent::Omitted(output::omitted(amount)));
                }
                Doing::Ended(end) => {
                    let mut rest = vec![api::CallEvent::End(ended(end, &self.hints))];
                    rest.extend(self.stderr.finish().map(api::CallEvent::Stderr));
                    rest.extend(self.stdout.finish().map(api::CallEvent::Stdout));
                    self.step = Step::Last(rest);
                }
            }
        }
    }
}

fn name(event: &api::CallEvent) -> &'static str {
    match event {
        api::CallEvent::Started { .. } => "started",
        api::CallEvent::Stdout(_) => "stdout",
        api::CallEvent::Stderr(_) => "stderr",
        api::CallEvent::Omitted(_) => "omitted",
        api::CallEvent::End(_) => "end",
    }
}
