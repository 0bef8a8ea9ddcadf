//! One process, and who follows it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use belljar_node::{PtySize, Writer};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use super::{ProcessEnd, lock};
use crate::problem::{Kind, Problem};

/// A process that somebody started.
#[derive(Debug)]
pub struct Process {
    pub(super) pid: u32,
    /// What rows of its traffic call it.
    pub(super) number: u32,
    pub(super) cmd: String,
    pub(super) args: Vec<String>,
    pub(super) envs: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) terminal: bool,
    /// Gone when it has no standard input, or no more.
    pub(super) stdin: Mutex<Option<Writer>>,
    pub(super) orders: mpsc::Sender<Order>,
    /// Gone when its end is known.
    pub(super) followers: Mutex<Option<Vec<mpsc::Sender<Piece>>>>,
    pub(super) ending: watch::Sender<Option<ProcessEnd>>,
}

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    Stdout,
    Stderr,
    Terminal,
}

/// Input, and what it is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessInput {
    Stdin(Vec<u8>),
    Terminal(Vec<u8>),
}

/// What a follower sees; the end comes last.
#[derive(Debug, Clone)]
pub enum Happened {
    Output(Stream, std::sync::Arc<[u8]>),
    Ended(ProcessEnd),
}

pub(super) type Piece = (Stream, std::sync::Arc<[u8]>);

/// What the drain does beside passing output on.
#[derive(Debug)]
pub(super) enum Order {
    Signal(i32, oneshot::Sender<Result<(), String>>),
    Resize(PtySize, oneshot::Sender<Result<(), String>>),
}

/// Follows a process. Dropped, it follows no longer; the process runs on.
#[derive(Debug)]
pub struct Following {
    pid: u32,
    number: u32,
    pieces: mpsc::Receiver<Piece>,
    ending: watch::Receiver<Option<ProcessEnd>>,
}

/// Pieces of at most 32 KiB that wait for one follower.
const WAITING: usize = 8;

/// The most that follow one process.
const MOST_FOLLOWERS: usize = 64;

impl Process {
    /// As the sandbox counts.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its call's number, by which rows of its traffic name it.
    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn cmd(&self) -> &str {
        &self.cmd
    }

    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// What it was given in addition to the sandbox's own.
    pub fn envs(&self) -> &BTreeMap<String, String> {
        &self.envs
    }

    /// As it was asked for.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    pub fn tag(&self) -> Option<&String> {
        self.tag.as_ref()
    }

    pub fn has_terminal(&self) -> bool {
        self.terminal
    }

    /// How it ended; `None` while it runs.
    pub fn ending(&self) -> Option<ProcessEnd> {
        self.ending.borrow().clone()
    }

    /// Follows it from now on; what it wrote before is not told.
    pub fn follow(&self) -> Result<Following, Problem> {
        let (sender, pieces) = mpsc::channel(WAITING);
        if let Some(followers) = lock(&self.followers).as_mut() {
            followers.retain(|follower| !follower.is_closed());
            if followers.len() >= MOST_FOLLOWERS {
                let message = format!("a process can have at most {MOST_FOLLOWERS} followers");
                return Err(Problem::new(Kind::TooMany, "too_many_followers", message));
            }
            followers.push(sender);
        }
        let Self { pid, number, .. } = *self;
        Ok(Following { pid, number, pieces, ending: self.ending.subscribe() })
    }

    /// Gives it input, as fast as it takes it.
    pub async fn write(&self, input: ProcessInput) -> Result<(), Problem> {
        let (bytes, to) = match input {
            ProcessInput::Stdin(_) if self.terminal => {
                return Err(failed(
                    "error writing to stdin: tty assigned to process — input should be written \
                     to the pty, not the stdin",
                ));
            }
            ProcessInput::Terminal(_) if !self.terminal => {
                return Err(failed(
                    "error writing to tty: tty not assigned to process — input should be \
                     written to the stdin, not the tty",
                ));
            }
            ProcessInput::Stdin(bytes) => (bytes, "stdin"),
            ProcessInput::Terminal(bytes) => (bytes, "tty"),
        };
        let writer = lock(&self.stdin).clone();
        let closed = || failed(&format!("error writing to {to}: {to} not enabled or closed"));
        let writer = writer.ok_or_else(closed)?;
        writer.ready().await;
        writer.write(bytes);
        Ok(())
    }

    pub fn close_stdin(&self) -> Result<(), Problem> {
        if self.terminal {
            return Err(failed(
                "error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) \
                 instead",
            ));
        }
        if let Some(writer) = lock(&self.stdin).take() {
            writer.close();
        }
        Ok(())
    }

    pub async fn signal(&self, signal: i32) -> Result<(), Problem> {
        let done = self.order(|answer| Order::Signal(signal, answer)).await;
        done.map_err(|reason| failed(&format!("error sending signal: {reason}")))
    }

    pub async fn resize(&self, size: PtySize) -> Result<(), Problem> {
        if !self.terminal {
            return Err(failed("error resizing tty: tty not assigned to process"));
        }
        let done = self.order(|answer| Order::Resize(size, answer)).await;
        done.map_err(|reason| failed(&format!("error resizing tty: {reason}")))
    }

    async fn order(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<(), String>>) -> Order,
    ) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let over = || "process already finished".to_owned();
        self.orders.send(order(answer)).await.map_err(|_| over())?;
        answered.await.map_err(|_| over())?
    }
}

fn failed(message: &str) -> Problem {
    Problem::new(Kind::Conflict, "process_refused", message)
}

impl Following {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The process's [`Process::number`].
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What happens next. A future that is dropped has taken nothing.
    pub async fn next(&mut self) -> Happened {
        if let Some((stream, bytes)) = self.pieces.recv().await {
            return Happened::Output(stream, bytes);
        }
        let ending = self.ending.wait_for(Option::is_some).await;
        let ending = ending.ok().and_then(|ending| ending.clone());
        Happened::Ended(ending.unwrap_or_else(ProcessEnd::lost))
    }
}
