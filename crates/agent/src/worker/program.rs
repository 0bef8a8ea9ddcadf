//! A published program as one call of its run.
//!
//! ```text
//!   token ─► tool_started ─► sandbox: program ─┬─ lines ─► turns, calls, results
//!                 │                            └─ gateway ─► rows ─► tokens and cost of each turn
//!                 └ the same key ─► the program that runs already, heard from its beginning
//! ```
//!
//! The call has an execution id, so the sandbox begins it once. Each event that it leads to has a
//! key that follows from the program's output. A worker that takes over hears all of the output
//! again, and writes what is not written yet.

mod charge;
mod hear;
mod session;

use std::time::{Duration, Instant};

use belljar_api::network::{Budget, CreateToken};
use belljar_client::{Command, Error, Key, Outcome, Sandbox};
use belljar_domain::data::FOLDER;
use belljar_domain::{Attribution, ExecId, SandboxId};
use belljar_journal::event::{Body, Injected, InjectedMessage, Limit, SessionSaved, ToolStarted};
use belljar_journal::{Call, NewEvent, RunView};

use self::hear::Hearing;
use super::call::MOST_CPU;
use super::network::{TOKEN_RENEWAL, TOKEN_SECONDS};
use super::{Work, WorkError, chain, millis};
use crate::budget::turns_left;
use crate::output::Heard;
use crate::program::{CONTINUE, GATEWAY, Known, Program, Task, Turns, program, user_line};
use crate::room::{self, TOKEN_FILE};

/// The time of a program whose run bounds no time.
const DEFAULT_TIME: Duration = Duration::from_secs(30 * 60);
/// Connections to one call that may break off in a row, and the pause after each. A node that is
/// lost is known to be so before they are over.
const MAX_RECONNECTS: u32 = 60;
const RECONNECT_DELAY: Duration = Duration::from_secs(2);
/// The time after which a connection that breaks off is the first one again.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// The lifetime of a token that is made only to renew the others.
const UNUSED_TOKEN_SECONDS: u64 = 1;

/// Reads the token out of its file. It is in no argument and in no event.
const LAUNCH: &str = "BELLJAR_TOKEN=$(cat \"$1\") || exit 1\n\
                      export BELLJAR_TOKEN\n\
                      export ANTHROPIC_AUTH_TOKEN=\"$BELLJAR_TOKEN\" OPENAI_API_KEY=\"$BELLJAR_TOKEN\"\n\
                      shift\n\
                      exec \"$@\"";

/// An error of the journal, or of the sandbox.
#[derive(Debug)]
enum ProgramError {
    Work(WorkError),
    Call(Error),
}

impl From<WorkError> for ProgramError {
    fn from(error: WorkError) -> Self {
        Self::Work(error)
    }
}

impl From<Error> for ProgramError {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

/// A program as it is begun: the same for each worker that asks for it.
struct Launch {
    program: &'static Program,
    /// Turns of the run before it.
    turns: u32,
    /// Turns that it may take.
    turns_left: Option<u32>,
    /// All that it is told.
    message: String,
    token_file: String,
    command: Command,
}

impl Work<'_> {
    /// The program that does the run's work.
    pub(super) fn program(&self) -> Option<&'static Program> {
        self.story.program.as_ref().and_then(|run| program(run.agent))
    }

    /// Has the program go on, after its sandbox was lost or its run forked.
    pub(super) async fn continue_program(&self) -> Result<(), WorkError> {
        let view = &self.story.view;
        let (kind, turn) = (Injected::Restored, view.turns + 1);
        let message = InjectedMessage { kind, turn, text: CONTINUE.to_owned(), answers: None };
        let key = format!("program:continue:{}", view.calls.len() + 1);
        self.append(NewEvent::new(message).keyed(&key)).await.map(drop)
    }

    /// Finds a sandbox with the program's session, and records that the program is begun in it.
    pub(super) async fn start_program(&mut self, call: &Call) -> Result<(), WorkError> {
        let Some(sandbox) = self.sandbox().await? else { return self.attach().await };
        if let Some(saved) = self.session_elsewhere().cloned() {
            self.flush().await?;
            let room = self.worker.rooms.at(&sandbox, self.lease.generation);
            match self.restore_session(&room, &saved).await {
                Ok(()) => {}
                Err(ProgramError::Work(error)) => return Err(error),
                Err(ProgramError::Call(error)) if room::is_gone(&error) => {
                    // Another one is made in the next round.
                    self.is_seen = false;
                    return Ok(());
                }
                Err(ProgramError::Call(error)) if is_stale(&error) => {
                    return Err(WorkError::Fenced);
                }
                Err(ProgramError::Call(error)) => {
                    let why = format!("the session cannot be restored: {}", chain(&error));
                    return self.finish(call, None, Heard::fault("sandbox", why)).await;
                }
            }
        }
        let exec = call.call.exec(&self.lease.address.run, 1);
        if !self.prepare_token(call, &exec, &sandbox).await? {
            return Ok(());
        }
        let bound = self.story.view.environment.limits.wall_ms.map(Duration::from_millis);
        let time = bound.unwrap_or(DEFAULT_TIME);
        let time = self.time_left().map_or(time, |left| left.min(time));
        let started = ToolStarted {
            call: call.call.clone(),
            exec,
            attempt: 1,
            sandbox,
            generation: self.lease.generation,
            timeout_ms: Some(millis(time).max(1)),
            cpu_ms: self.left(Limit::Cpu).map(|left| left.clamp(1, MOST_CPU)),
        };
        self.append(NewEvent::new(started)).await.map(drop)
    }

    /// Gives a call its token before `tool_started` is written: that event says that the call has
    /// been given one, and no worker makes another. False: the call cannot start now.
    async fn prepare_token(
        &mut self,
        call: &Call,
        exec: &ExecId,
        sandbox: &SandboxId,
    ) -> Result<bool, WorkError> {
        let Some(program) = self.program() else { return Ok(true) };
        self.flush().await?;
        self.catch_up().await?;
        let launch = self.launch(program, call, exec);
        let room = self.worker.rooms.at(sandbox, self.lease.generation);
        let mut attempts = 0;
        loop {
            let Err(error) = self.give_program_token(&room, &launch).await else {
                return Ok(true);
            };
            if is_stale(&error) {
                return Err(WorkError::Fenced);
            }
            if room::is_gone(&error) {
                // Another sandbox is made in the next round.
                self.is_seen = false;
                return Ok(false);
            }
            if error.outcome() == Outcome::Refused || attempts >= MAX_RECONNECTS {
                let why = format!("the program cannot get its token: {}", chain(&error));
                self.finish(call, None, Heard::fault("sandbox", why)).await?;
                return Ok(false);
            }
            attempts += 1;
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    /// Runs the program to its end, or goes on hearing the one that runs.
    pub(super) async fn collect_program(
        &mut self,
        call: &Call,
        exec: &ExecId,
        sandbox: &SandboxId,
    ) -> Result<(), WorkError> {
        let Some(program) = self.program() else { return Ok(()) };
        if self.story.view.sandbox.as_ref() != Some(sandbox) {
            return self.end_program(call, exec, None, Heard::lost()).await;
        }
        let launch = self.launch(program, call, exec);
        let room = self.worker.rooms.at(sandbox, self.lease.generation);
        let (mut reconnects, mut pid) = (0, None);
        loop {
            let began = Instant::now();
            let mut hearing = Hearing::new(&launch, &room, call);
            let error = match Box::pin(self.run_program(&launch, &mut hearing, exec)).await {
                Ok(Some(heard)) => {
                    return self.end_program(call, exec, Some(&mut hearing), heard).await;
                }
                // Something came in between: the next round decides with it.
                Ok(None) => return Ok(()),
                Err(ProgramError::Work(error)) => return Err(error),
                Err(ProgramError::Call(error)) => error,
            };
            pid = hearing.pid.or(pid);
            if is_stale(&error) {
                return Err(WorkError::Fenced);
            }
            if room::is_gone(&error) {
                return self.end_program(call, exec, None, Heard::lost()).await;
            }
            if began.elapsed() >= STABLE_AFTER {
                reconnects = 0;
            }
            if error.outcome() == Outcome::Refused || reconnects >= MAX_RECONNECTS {
                if let Some(pid) = pid {
                    // Later requests are charged to no turn.
                    let _ = room.end_call(pid).await;
                }
                let why = format!("the program cannot be run: {}", chain(&error));
                return self.end_program(call, exec, None, Heard::fault("sandbox", why)).await;
            }
            reconnects += 1;
            tokio::time::sleep(RECONNECT_DELAY).await;
            self.catch_up().await?;
        }
    }

    /// Begins the program, or finds it, and hears it. None: it is to be heard anew.
    async fn run_program(
        &mut self,
        launch: &Launch,
        hearing: &mut Hearing<'_>,
        exec: &ExecId,
    ) -> Result<Option<Heard>, ProgramError> {
        self.renew_program_token(hearing.room).await?;
        let attribution = Attribution {
            run: self.lease.address.run.clone(),
            turn: hearing.call.call.turn,
            call: Some(exec.clone()),
        };
        let trace = self.reporter.spans.trace(&self.lease.address);
        let traceparent = trace.call(&hearing.call.call).to_string();
        let room = hearing.room.clone().attributed(attribution).traced(traceparent);
        let key: Option<Key> = exec.as_str().parse().ok();
        let run = room.run(&launch.command, key.as_ref()).await?;
        self.hear_program(run, hearing).await
    }

    /// Derives the launch of the program from the events before its start alone.
    fn launch(&self, program: &'static Program, call: &Call, exec: &ExecId) -> Launch {
        let is_start = |body: &Body| matches!(body, Body::ToolStarted(it) if it.exec == *exec);
        let at = self.events.iter().position(|event| is_start(&event.body));
        let before = &self.events[..at.unwrap_or(self.events.len())];
        let view = RunView::of(before);
        let session = before.iter().rev().find_map(|event| match &event.body {
            Body::SessionSaved(saved) => Some(saved.session.clone()),
            _ => None,
        });
        let turns_left = turns_left(&view);
        let message = self.message(call, session.is_some());
        let known = Known {
            task: &message,
            model: &view.model,
            gateway: GATEWAY,
            turns: turns_left,
            session: session.as_deref(),
        };
        let token_file = format!("{TOKEN_FILE}-{exec}");
        let head = ["sh", "-c", LAUNCH, "sh", token_file.as_str()].map(str::to_owned);
        let argv = head.into_iter().chain(program.argv(&known));
        let allowance = self.allowance(exec);
        let stays_open = program.task == Task::Message;
        let mut command = Command {
            stdin: stays_open.then(|| user_line(&message)),
            stdin_open: stays_open,
            timeout: allowance.time,
            cpu: allowance.cpu,
            ..Command::argv(argv)
        };
        command.env = program.env(&known).map(|(name, value)| (name.to_owned(), value)).collect();
        command.env.insert("ANTHROPIC_BASE_URL".to_owned(), GATEWAY.to_owned());
        command.env.insert("OPENAI_BASE_URL".to_owned(), format!("{GATEWAY}/v1"));
        Launch { program, turns: view.turns, turns_left, message, token_file, command }
    }

    /// All that the program is told: the task, unless its session has it already.
    fn message(&self, call: &Call, has_session: bool) -> String {
        let said = call.input["message"].as_str().unwrap_or_default();
        if has_session {
            return said.to_owned();
        }
        let created = self.story.view.created.as_ref();
        let question = created.map(|created| created.question.as_str()).unwrap_or_default();
        let mut task = question.to_owned();
        if let Some(instructions) = &self.brief.instructions {
            task = format!("{task}\n\n{}", instructions.trim());
        }
        if !self.data.is_empty() {
            task = format!("{task}\n\nData files are in {FOLDER}. {}", self.facts.data.trim());
        }
        if said != question && said != CONTINUE {
            task = format!("{task}\n\n{said}");
        }
        task
    }

    /// Puts a token for the program into the sandbox, once: it may spend what is left of the run's
    /// budget, and another one could spend that again. Only for a call that has not started: a
    /// program that runs may remove the file.
    async fn give_program_token(&self, room: &Sandbox, launch: &Launch) -> Result<(), Error> {
        match room.stat_file(&launch.token_file).await {
            // The worker before made it, and did not come to start the call.
            Ok(_) => return self.renew_program_token(room).await,
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error),
        }
        let requests = match launch.program.turns {
            Turns::Requests => launch.turns_left.map(u64::from),
            Turns::Arguments(_) => None,
        };
        let left = |limit| self.left(limit).and_then(|left| left.try_into().ok());
        // The gateway holds the tool calls of the program's model.
        let approvals = &self.brief.approvals;
        let policy = !approvals.is_never();
        let budget = Budget {
            requests: requests.and_then(|requests| requests.try_into().ok()),
            tokens: left(Limit::Tokens),
            nano_dollars: left(Limit::Money),
            requests_per_minute: None,
        };
        let wish = CreateToken {
            operations: self.operation_names()?,
            seconds: TOKEN_SECONDS.try_into().ok(),
            renew_seconds: None,
            agent: launch.program.name.to_owned().try_into().ok(),
            budget: Some(budget),
            approvals: policy.then(|| approvals.policy.clone().try_into()).transpose()?,
            approval_seconds: policy.then(|| approvals.seconds.try_into()).transpose()?,
        };
        let token = room.create_token(&wish).await?;
        room.write_file(&launch.token_file, token.token).await.map(drop)
    }

    /// Lets the program's token live on. The one that is made for that may spend nothing.
    async fn renew_program_token(&self, room: &Sandbox) -> Result<(), Error> {
        let wish = CreateToken {
            operations: self.operation_names()?,
            seconds: UNUSED_TOKEN_SECONDS.try_into().ok(),
            renew_seconds: TOKEN_SECONDS.try_into().ok(),
            agent: None,
            approvals: None,
            approval_seconds: None,
            budget: Some(Budget { requests: 0_u64.try_into().ok(), ..Budget::default() }),
        };
        room.create_token(&wish).await.map(drop)
    }

    /// The last session that was kept, if it is not in the run's sandbox.
    fn session_elsewhere(&self) -> Option<&SessionSaved> {
        let attached = |body: &Body| matches!(body, Body::SandboxAttached(_));
        let at = self.events.iter().rposition(|event| attached(&event.body))?;
        let saved = |event: &&belljar_journal::Event| matches!(event.body, Body::SessionSaved(_));
        if self.events[at..].iter().any(|event| saved(&event)) {
            return None;
        }
        self.events[..at].iter().rev().find_map(|event| match &event.body {
            Body::SessionSaved(saved) => Some(saved),
            _ => None,
        })
    }
}

/// Returns true if a file is certain not to be there. Other errors say nothing of it.
fn is_missing(error: &Error) -> bool {
    error.code() == Some("file_not_found")
}

/// Returns true if another worker has the run.
fn is_stale(error: &Error) -> bool {
    error.code() == Some("stale_generation")
}

#[cfg(test)]
mod tests {
    use belljar_client::{Protocol, Transport};

    use super::*;

    #[test]
    fn an_error_is_no_sign_that_a_call_has_no_token() {
        let silent = Transport::Silent(Duration::from_secs(1));
        for error in [Error::from(silent), Error::from(Protocol::NotBegun), Error::SandboxGone] {
            assert!(!is_missing(&error), "{error:?}");
        }
    }
}
