//! One cell, as whoever asked for it sees it.

use belljar_domain::{EndReason, Usage};
use belljar_guest_proto::context::{Bundle, Display};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::Origin;

/// What a cell does, in order; the end comes last and once.
#[derive(Debug, Clone, PartialEq)]
pub enum CellEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Display(Display),
    /// The value of the last expression.
    Result {
        data: Bundle,
        metadata: Map<String, Value>,
    },
    Error(CellError),
    End(CellEnd),
}

/// An exception that nothing caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellError {
    pub name: String,
    pub value: String,
    pub traceback: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellEnd {
    /// `done` when the cell came to its end, with an exception or without.
    pub reason: EndReason,
    /// Whether it ended without an exception.
    pub ok: bool,
    /// How many cells the interpreter has run.
    pub count: u64,
    pub usage: Usage,
    /// Whether the context can run another cell.
    pub alive: bool,
}

impl CellEnd {
    pub(crate) fn lost(reason: EndReason) -> Self {
        Self { reason, ok: false, count: 0, usage: Usage::default(), alive: false }
    }
}

/// A cell that runs, or waits for its turn.
#[derive(Debug)]
pub struct Running {
    number: u32,
    events: mpsc::Receiver<CellEvent>,
    origin: Origin,
}

impl Running {
    pub(super) fn new(number: u32, events: mpsc::Receiver<CellEvent>, origin: Origin) -> Self {
        Self { number, events, origin }
    }

    /// The cell's number among the calls of its sandbox.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How the interpreter came to be that runs it.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The next event; after the end there is none.
    pub async fn next(&mut self) -> CellEvent {
        let event = self.events.recv().await;
        event.unwrap_or_else(|| CellEvent::End(CellEnd::lost(EndReason::Lost)))
    }

    pub async fn collect(mut self) -> Ran {
        let mut ran = Ran::new(self.origin);
        loop {
            match self.next().await {
                CellEvent::Stdout(bytes) => ran.stdout.extend(bytes),
                CellEvent::Stderr(bytes) => ran.stderr.extend(bytes),
                CellEvent::Display(display) => ran.displays.push(display),
                CellEvent::Result { data, .. } => ran.result = Some(data),
                CellEvent::Error(error) => ran.error = Some(error),
                CellEvent::End(end) => {
                    ran.end = end;
                    return ran;
                }
            }
        }
    }
}

/// A cell that is over, with everything it showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub displays: Vec<Display>,
    pub result: Option<Bundle>,
    pub error: Option<CellError>,
    pub end: CellEnd,
    pub origin: Origin,
}

impl Ran {
    fn new(origin: Origin) -> Self {
        Self {
            stdout: Vec::new(),
            stderr: Vec::new(),
            displays: Vec::new(),
            result: None,
            error: None,
            end: CellEnd::lost(EndReason::Lost),
            origin,
        }
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}
