//! What a cell shows, in the words of the API.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use belljar_actions::{Ending, Execution, Flaw, Output, Problem};
use belljar_api::context as api;
use belljar_node::{Display, Origin};
use futures_util::{Stream, stream};

use crate::v1::output::event;

/// Waits for the end, and keeps everything.
pub(super) async fn collect(mut execution: Execution) -> Result<api::Cell, Problem> {
    let (mut stdout, mut stderr, mut displays) = (String::new(), String::new(), Vec::new());
    let (mut count, mut result, mut error) = (None, None, None);
    loop {
        match execution.next().await {
            Some(Output::Begun(number)) => count = Some(number),
            Some(Output::Stdout(text)) => stdout.push_str(&text),
            Some(Output::Stderr(text)) => stderr.push_str(&text),
            Some(Output::Display(display)) => displays.push(shown(display)),
            Some(Output::Result(data)) => result = Some(data),
            Some(Output::Flaw(flaw)) => error = Some(flawed(flaw)),
            Some(Output::Ended(ending)) => {
                let end = end(&ending);
                return Ok(api::Cell { count, stdout, stderr, displays, result, error, end });
            }
            Some(Output::Gone) | None => return Err(Problem::gone()),
        }
    }
}

/// Tells everything as it happens. A stream that stops without an end: the
/// sandbox was ended under it.
pub(super) fn stream(execution: Execution) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold(Some(execution), async |state| {
        let mut execution = state?;
        let next = match execution.next().await? {
            Output::Begun(count) => api::CellEvent::Begun { count },
            Output::Stdout(data) => api::CellEvent::Stdout { data },
            Output::Stderr(data) => api::CellEvent::Stderr { data },
            Output::Display(display) => api::CellEvent::Display(shown(display)),
            Output::Result(data) => api::CellEvent::Result { data },
            Output::Flaw(flaw) => api::CellEvent::Error(flawed(flaw)),
            Output::Ended(ending) => api::CellEvent::End(end(&ending)),
            Output::Gone => return None,
        };
        let over = matches!(next, api::CellEvent::End(_));
        Some((Ok(event(name(&next), &next)), (!over).then_some(execution)))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

fn name(event: &api::CellEvent) -> &'static str {
    match event {
        api::CellEvent::Begun { .. } => "begun",
        api::CellEvent::Stdout { .. } => "stdout",
        api::CellEvent::Stderr { .. } => "stderr",
        api::CellEvent::Display(_) => "display",
        api::CellEvent::Result { .. } => "result",
        api::CellEvent::Error(_) => "error",
        api::CellEvent::End(_) => "end",
    }
}

fn shown(display: Display) -> api::Display {
    let Display { data, metadata, display_id, update } = display;
    api::Display { data, metadata, display_id, update }
}

fn flawed(flaw: Flaw) -> api::CellError {
    let Flaw { name, value, traceback } = flaw;
    api::CellError { name, value, traceback }
}

fn end(ending: &Ending) -> api::CellEnd {
    api::CellEnd {
        reason: ending.reason,
        ok: ending.ok,
        usage: ending.usage.into(),
        origin: match ending.origin {
            Origin::Executed => api::Origin::Executed,
            Origin::Forked => api::Origin::Forked,
            Origin::Copied => api::Origin::Copied,
        },
    }
}
