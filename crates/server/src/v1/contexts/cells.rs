//! What a cell shows, in the words of the API.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use belljar_api::context as api;
use belljar_node::{Display, Origin};
use belljar_sandboxes::{Ending, Execution, Flaw, Listening, Output, Problem, Told};
use futures_util::{Stream, stream};

use crate::v1::hint::Hints;
use crate::v1::output::{self, event};

/// Where what a cell shows comes from.
pub(super) enum Source {
    /// From the cell itself, which ends when nobody listens.
    Live(Execution),
    /// From what is written down of it.
    Kept(Listening<Output>),
}

impl Source {
    async fn next(&mut self) -> Option<Told<Output>> {
        match self {
            Self::Live(execution) => execution.next().await.map(Told::Said),
            Self::Kept(listening) => listening.next().await,
        }
    }
}

/// Waits for the end, and keeps everything.
pub(super) async fn collect(mut source: Source, mut hints: Hints) -> Result<api::Cell, Problem> {
    let (mut stdout, mut stderr, mut displays) = (String::new(), String::new(), Vec::new());
    let (mut count, mut number, mut result) = (None, None, None);
    let (mut error, mut omitted) = (None, None::<belljar_api::call::Omitted>);
    loop {
        let said = match source.next().await {
            Some(Told::Said(said)) => Some(said),
            Some(Told::Omitted(amount)) => {
                output::note(&mut stdout, amount.stdout);
                output::note(&mut stderr, amount.stderr);
                *omitted.get_or_insert_default() += output::omitted(amount);
                continue;
            }
            None => None,
        };
        match said {
            Some(Output::Begun { count: so_manieth, call }) => {
                (count, number) = (Some(so_manieth), Some(call));
            }
            Some(Output::Stdout(text)) => {
                hints.push(text.as_bytes());
                stdout.push_str(&text);
            }
            Some(Output::Stderr(text)) => {
                hints.push(text.as_bytes());
                stderr.push_str(&text);
            }
            Some(Output::Display(display)) => displays.push(shown(display)),
            Some(Output::Result(data)) => result = Some(data),
            Some(Output::Flaw(flaw)) => {
                hints.push(flaw.value.as_bytes());
                error = Some(flawed(flaw));
            }
            Some(Output::Ended(ending)) => {
                let end = end(&ending, &hints);
                return Ok(api::Cell {
                    count,
                    number,
                    stdout,
                    stderr,
                    displays,
                    result,
                    error,
                    end,
                    omitted,
                });
            }
            Some(Output::Gone) | None => return Err(Problem::gone()),
        }
    }
}

/// Tells everything as it happens. A stream that stops without an end: the
/// sandbox was ended under it.
pub(super) fn stream(
    source: Source,
    hints: Hints,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold(Some((source, hints)), async |state| {
        let (mut source, mut hints) = state?;
        let next = match source.next().await? {
            Told::Omitted(amount) => api::CellEvent::Omitted(output::omitted(amount)),
            Told::Said(Output::Begun { count, call }) => {
                api::CellEvent::Begun { count, number: call }
            }
            Told::Said(Output::Stdout(data)) => api::CellEvent::Stdout { data },
            Told::Said(Output::Stderr(data)) => api::CellEvent::Stderr { data },
            Told::Said(Output::Display(display)) => api::CellEvent::Display(shown(display)),
            Told::Said(Output::Result(data)) => api::CellEvent::Result { data },
            Told::Said(Output::Flaw(flaw)) => api::CellEvent::Error(flawed(flaw)),
            Told::Said(Output::Ended(ending)) => api::CellEvent::End(end(&ending, &hints)),
            Told::Said(Output::Gone) => return None,
        };
        match &next {
            api::CellEvent::Stdout { data } | api::CellEvent::Stderr { data } => {
                hints.push(data.as_bytes());
            }
            api::CellEvent::Error(error) => hints.push(error.value.as_bytes()),
            _ => {}
        }
        let over = matches!(next, api::CellEvent::End(_));
        Some((Ok(event(name(&next), &next)), (!over).then_some((source, hints))))
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
        api::CellEvent::Omitted(_) => "omitted",
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

fn end(ending: &Ending, hints: &Hints) -> api::CellEnd {
    api::CellEnd {
        reason: ending.reason,
        ok: ending.ok,
        usage: ending.usage.into(),
        origin: match ending.origin {
            Origin::Executed => api::Origin::Executed,
            Origin::Forked => api::Origin::Forked,
            Origin::Copied => api::Origin::Copied,
        },
        hint: (!ending.ok).then(|| hints.finish()).flatten(),
    }
}
