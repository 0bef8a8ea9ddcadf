//! Cells: code in a context.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar_api::Operation;
use belljar_api::call::Omitted;
use belljar_api::context::{self as api, CellEvent};

use crate::error::Error;
use crate::events::Events;
use crate::key::Key;
use crate::sandbox::Sandbox;

/// Code to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    pub code: String,
    /// Variables that are set while it runs.
    pub env: BTreeMap<String, String>,
    /// The sandbox's own if nothing is said.
    pub timeout: Option<Duration>,
    /// CPU time that it may use.
    pub cpu: Option<Duration>,
}

/// A cell, heard from its beginning on. To drop it is to interrupt the cell, unless
/// it bears a key: then it goes on, and can be asked for again.
#[derive(Debug)]
pub struct CellRun {
    events: Events<CellEvent>,
    is_repeated: bool,
    is_over: bool,
}

impl Cell {
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), ..Self::default() }
    }
}

impl Sandbox {
    /// Runs a cell. With a key it is executed once, however often it is asked for:
    /// a repetition is told what was said so far, and what is still to come.
    pub async fn run_cell(
        &self,
        context: &str,
        cell: &Cell,
        key: Option<&Key>,
    ) -> Result<CellRun, Error> {
        let wish = api::RunCell {
            code: cell.code.clone().try_into()?,
            env: cell.env.clone(),
            timeout_ms: cell.timeout.map(millis).transpose()?,
            cpu_ms: cell.cpu.map(millis).transpose()?,
        };
        let asking = self.ask_of(Operation::RunCell, context).json(&wish)?.once(key).streamed();
        let answer = self.client.open(asking).await?;
        let is_repeated = is_repeated(&answer);
        Ok(CellRun { events: Events::new(answer.into_body()), is_repeated, is_over: false })
    }
}

impl CellRun {
    /// Whether it was asked for before.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// What comes next; none after its end.
    pub async fn next(&mut self) -> Result<Option<CellEvent>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let event = self.events.next().await?.ok_or(Error::SandboxGone)?;
        self.is_over = matches!(event, CellEvent::End(_));
        Ok(Some(event))
    }

    /// Waits for its end, and keeps everything.
    pub async fn finish(mut self) -> Result<api::Cell, Error> {
        let (mut stdout, mut stderr, mut displays) = (String::new(), String::new(), Vec::new());
        let (mut count, mut number, mut result, mut error) = (None, None, None, None);
        let mut omitted: Option<Omitted> = None;
        loop {
            match self.next().await?.ok_or(Error::SandboxGone)? {
                CellEvent::Begun { count: so_manieth, number: call } => {
                    (count, number) = (Some(so_manieth), Some(call));
                }
                CellEvent::Stdout { data } => stdout.push_str(&data),
                CellEvent::Stderr { data } => stderr.push_str(&data),
                CellEvent::Display(display) => displays.push(display),
                CellEvent::Result { data } => result = Some(data),
                CellEvent::Error(raised) => error = Some(raised),
                CellEvent::Omitted(more) => *omitted.get_or_insert_default() += more,
                CellEvent::End(end) => {
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
            }
        }
    }
}

pub(crate) fn millis(time: Duration) -> Result<belljar_api::bounds::Millis, Error> {
    Ok(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).try_into()?)
}

pub(crate) fn is_repeated<B>(answer: &http::Response<B>) -> bool {
    answer.headers().contains_key("idempotency-replayed")
}
