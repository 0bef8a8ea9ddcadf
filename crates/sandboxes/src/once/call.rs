//! Commands that are executed once.

use std::sync::Arc;

use belljar_domain::{End, EndReason, Usage};
use serde::{Deserialize, Serialize};

use super::log::{Amount, Log, Piece};
use super::recorded::Recorded;
use super::{Asked, Heard, Kept};
use crate::problem::Problem;
use crate::processes::{Happened, Process, ProcessInput, Selector, StartProcess, Stream};
use crate::sandbox::{Live, Sandbox};
use crate::start::Actions;

/// What a command says. `Ended` or `Refused` comes last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Said {
    /// Its main process runs, under this pid; rows of its traffic name the number.
    Started {
        pid: u32,
        number: u32,
    },
    Output(Stream, #[serde(with = "super::written::bytes")] Arc<[u8]>),
    Ended(End),
    /// It did not start: nothing was executed.
    #[serde(skip)]
    Refused(Problem),
}

/// A command, and what it is given.
#[derive(Debug, Clone)]
pub struct OnceCommand {
    pub start: StartProcess,
    /// What it reads first, if anything.
    pub stdin: Option<Vec<u8>>,
    /// Whether its input ends after that.
    pub closes: bool,
    /// Whether what it writes is kept.
    pub keeps_output: bool,
}

impl Said {
    /// Nobody saw how it ended.
    pub(super) fn lost() -> Self {
        let (reason, usage) = (EndReason::Lost, Usage::default());
        Self::Ended(End { reason, exit_code: None, signal: None, usage })
    }
}

impl Piece for Said {
    fn amount(&self) -> Amount {
        let mut amount = Amount::default();
        match self {
            Self::Output(Stream::Stderr, bytes) => amount.stderr = bytes.len() as u64,
            Self::Output(_, bytes) => amount.stdout = bytes.len() as u64,
            Self::Started { .. } | Self::Ended(_) | Self::Refused(_) => {}
        }
        amount
    }

    fn is_essential(&self) -> bool {
        matches!(self, Self::Started { .. }) || self.is_last()
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Refused(_))
    }
}

impl Actions {
    /// Runs a command that bears a key: executed once, and told as often as it is
    /// asked for.
    pub async fn call_once(
        &self,
        sandbox: &Arc<Sandbox>,
        asked: &Asked,
        command: OnceCommand,
    ) -> Result<Heard<Said>, Problem> {
        if let Some(Kept::Call(call)) = sandbox.once.finished(asked)? {
            return Ok(Heard::again(&call));
        }
        let live = self.wake(sandbox).await?;
        let begin = || {
            let call = Recorded::new(Log::default());
            let (actions, recorded) = (self.clone(), call.clone());
            let (sandbox, asked) = (sandbox.clone(), asked.clone());
            tokio::spawn(async move {
                actions.record(&sandbox, &live, &asked, command, &recorded).await;
            });
            Ok(Kept::Call(call))
        };
        match sandbox.once.attach_or(asked, begin)? {
            (Kept::Call(call), is_new) => Ok(Heard::of(&call, is_new)),
            (Kept::Cell(_), _) => Err(super::mismatch()),
        }
    }

    /// Starts a command and writes down what it says, whoever listens.
    async fn record(
        &self,
        sandbox: &Arc<Sandbox>,
        live: &Arc<Live>,
        asked: &Asked,
        command: OnceCommand,
        call: &Arc<Recorded<Said>>,
    ) {
        let OnceCommand { start, stdin, closes, keeps_output } = command;
        let mut following = match self.start_process(sandbox, live, start).await {
            Ok(following) => following,
            Err(problem) => {
                // First: whoever comes again may try again.
                sandbox.once.forget(asked);
                return call.say(Said::Refused(problem)).await;
            }
        };
        let (pid, number) = (following.pid(), following.number());
        call.say(Said::Started { pid, number }).await;
        if let (Some(stdin), Ok(process)) = (stdin, live.processes.find(&Selector::Pid(pid))) {
            // A program that writes before it reads must be heard meanwhile.
            tokio::spawn(give(process, stdin, closes));
        }
        loop {
            match following.next().await {
                Happened::Output(..) if !keeps_output => {}
                Happened::Output(stream, bytes) => call.say(Said::Output(stream, bytes)).await,
                Happened::Ended(end) => {
                    call.say(Said::Ended(end.end)).await;
                    return sandbox.once.enforce();
                }
            }
        }
    }
}

/// Gives a process its first input. One that is over already reads nothing.
async fn give(process: Arc<Process>, stdin: Vec<u8>, closes: bool) {
    let _ = process.write(ProcessInput::Stdin(stdin)).await;
    if closes {
        let _ = process.close_stdin();
    }
}
