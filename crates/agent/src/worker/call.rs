//! Does what the model called for.
//!
//! `tool_started` is written before the sandbox is asked, and the sandbox does what it
//! is asked under one exec id once. So collecting a call is the same as making it.

use std::time::Duration;

use belljar_client::{Cell, Command, Error, Key, Sandbox};
use belljar_domain::{Attribution, EndReason, ExecId, SandboxId};
use belljar_journal::event::{
    Artifact, ArtifactAdded, Body, CallRef, Cut, GuardReported, Limit, Output, PausePoint, Paused,
    RunCreated, ToolFinished, ToolIntended, ToolStarted,
};
use belljar_journal::{Call, NewEvent};
use belljar_objects::Digest;

use super::stage::classify;
use super::{Work, WorkError, chain, millis};
use crate::output::{Heard, Picture};
use crate::room;
use crate::shorten::{MOST_SHOWN, shorten};
use crate::tools::{Asked, Finish, LONGEST, Question, Unfit};

/// Where the code finds what was too long to be shown.
const OUTPUTS: &str = ".belljar/outputs";
/// The most CPU time that can be asked for: a day, in milliseconds.
pub(super) const MOST_CPU: u64 = 86_400_000;
/// Files of a result, each at most.
pub(super) const MOST_FILE: usize = 64 << 20;
/// What is read of a file that is shown.
const MOST_READ: usize = 16 << 20;

impl Work<'_> {
    pub(super) async fn intend(&self, call: &Call) -> Result<(), WorkError> {
        let arguments = Digest::of(call.input.to_string().as_bytes());
        let (call, name) = (call.call.clone(), call.name.clone());
        self.append(NewEvent::new(ToolIntended { call, name, arguments }).waiting()).await.map(drop)
    }

    /// Finds a sandbox and writes down that it will be asked, or refuses the call.
    pub(super) async fn start(&mut self, call: &Call) -> Result<(), WorkError> {
        if self.program().is_some() {
            return Box::pin(self.start_program(call)).await;
        }
        if let Some(pipeline) = self.pipeline().cloned() {
            return Box::pin(self.start_stage(call, &pipeline)).await;
        }
        let asked = match Asked::read(&call.name, &call.input) {
            Ok(asked) => asked,
            Err(unfit) => {
                return self.finish(call, None, Heard::fault("arguments", unfit.to_string())).await;
            }
        };
        if let Asked::Question(question) = &asked {
            return self.ask_human(call, question).await;
        }
        if let Asked::Finish(finish) = &asked {
            if !self.may_make(call).await? {
                return Ok(());
            }
            let heard = self.deliver(call, finish).await?;
            return self.finish(call, None, heard).await;
        }
        if !self.may_make(call).await? {
            return Ok(());
        }
        let Some(sandbox) = self.sandbox().await? else { return self.attach().await };
        self.record_start(call, sandbox, &asked).await
    }

    /// Records that the sandbox is asked for a call.
    pub(super) async fn record_start(
        &self,
        call: &Call,
        sandbox: SandboxId,
        asked: &Asked,
    ) -> Result<(), WorkError> {
        let started = ToolStarted {
            call: call.call.clone(),
            exec: call.call.exec(&self.lease.address.run, 1),
            attempt: 1,
            sandbox,
            generation: self.lease.generation,
            timeout_ms: self.time_for(asked),
            cpu_ms: self.cpu_for(asked),
        };
        self.append(NewEvent::new(started)).await.map(drop)
    }

    /// Tells the model a human's answer, or pauses until there is one.
    pub(super) async fn ask_human(
        &self,
        call: &Call,
        question: &Question,
    ) -> Result<(), WorkError> {
        let view = &self.story.view;
        if !view.created.as_ref().is_some_and(RunCreated::can_ask) {
            let unfit = Unfit::Unknown(call.name.clone());
            return self.finish(call, None, Heard::fault("arguments", unfit.to_string())).await;
        }
        if let Some(reply) = view.reply.as_ref().filter(|reply| reply.call == call.call) {
            return self.finish(call, None, Heard::done(reply.text.clone())).await;
        }
        let (call, text) = (call.call.clone(), question.question.clone());
        self.hold(PausePoint::Question { call, text }).await
    }

    /// Pauses by itself, unless something came in between.
    pub(super) async fn hold(&self, at: PausePoint) -> Result<(), WorkError> {
        let paused = NewEvent::new(Paused { answers: None, at: Some(at) });
        self.append(paused.seen(self.story.view.head)).await.map(drop)
    }

    /// How long a call may take: what was asked for, and no longer than the run or than its
    /// owner lets a call take.
    pub(super) fn time_for(&self, asked: &Asked) -> Option<u64> {
        if !matches!(asked, Asked::Python(_) | Asked::Shell(_)) {
            return None;
        }
        let bound = self.story.view.environment.limits.wall_ms.map(Duration::from_millis);
        let time = [asked.timeout(), self.time_left(), bound].into_iter().flatten().min()?;
        Some(millis(time.min(bound.unwrap_or(LONGEST))).max(1))
    }

    /// How much it may compute: what is left for the run.
    pub(super) fn cpu_for(&self, asked: &Asked) -> Option<u64> {
        let is_code = matches!(asked, Asked::Python(_) | Asked::Shell(_));
        self.left(Limit::Cpu).filter(|_| is_code).map(|left| left.clamp(1, MOST_CPU))
    }

    /// The run's sandbox, if it is there. Whoever has just taken over has to look.
    pub(super) async fn sandbox(&mut self) -> Result<Option<SandboxId>, WorkError> {
        let Some(id) = self.story.view.sandbox.clone().filter(|_| !self.story.is_sandbox_lost)
        else {
            return Ok(None);
        };
        if !self.is_seen {
            self.flush().await?;
            let sandbox = self.worker.rooms.at(&id, self.lease.generation);
            match room::keep(&sandbox).await {
                Err(error) if room::is_gone(&error) => return Ok(None),
                // Whatever else is wrong will show when it is used.
                _ => self.is_seen = true,
            }
        }
        Ok(Some(id))
    }

    /// Asks the sandbox to do it, or what became of it.
    pub(super) async fn collect(
        &self,
        call: &Call,
        exec: &ExecId,
        sandbox: &SandboxId,
    ) -> Result<(), WorkError> {
        let is_current = self.story.view.sandbox.as_ref() == Some(sandbox);
        let done = match self.asked(call) {
            Err(unfit) => Ok(Heard::fault("arguments", unfit.to_string())),
            Ok(_) if !is_current => Err(Error::SandboxGone),
            Ok(asked) => {
                let attribution = Attribution {
                    run: self.lease.address.run.clone(),
                    turn: call.call.turn,
                    call: Some(exec.clone()),
                };
                let sandbox = self.worker.rooms.at(sandbox, self.lease.generation);
                let trace = self.reporter.spans.trace(&self.lease.address);
                let traceparent = trace.call(&call.call).to_string();
                let sandbox = sandbox.attributed(attribution).traced(traceparent);
                let call = execute(&sandbox, &asked, exec, self.allowance(exec));
                self.with_token(&sandbox, call).await
            }
        };
        let mut heard = match done {
            Ok(heard) => heard,
            Err(error) if error.code() == Some("stale_generation") => {
                return Err(WorkError::Fenced);
            }
            Err(error) if room::is_gone(&error) => Heard::lost(),
            Err(error) => {
                Heard::fault("sandbox", format!("This could not be done: {}", chain(&error)))
            }
        };
        classify(call, &mut heard);
        self.finish(call, Some(exec), heard).await
    }

    /// What was written down of how much it may take.
    pub(super) fn allowance(&self, exec: &ExecId) -> Allowance {
        let mut events = self.events.iter().rev();
        let started = events.find_map(|event| match &event.body {
            Body::ToolStarted(started) if started.exec == *exec => Some(started),
            _ => None,
        });
        let Some(started) = started else { return Allowance::default() };
        Allowance {
            time: started.timeout_ms.map(Duration::from_millis),
            cpu: started.cpu_ms.map(Duration::from_millis),
        }
    }

    /// Writes down what came of a call.
    pub(super) async fn finish(
        &self,
        call: &Call,
        exec: Option<&ExecId>,
        mut heard: Heard,
    ) -> Result<(), WorkError> {
        let id = &call.call;
        for (index, guard) in heard.guards.iter().enumerate() {
            let (guard, message) = (guard.kind.clone(), guard.message.clone());
            let report = GuardReported { call: id.clone(), guard, message };
            let key = format!("guard:{}:{}:{index}", id.turn, id.id);
            self.append(NewEvent::new(report).keyed(&key).waiting()).await?;
        }
        for (index, picture) in std::mem::take(&mut heard.pictures).into_iter().enumerate() {
            let Picture { media_type, ending, bytes } = picture;
            let name = format!("turn-{}-figure-{}.{ending}", id.turn, index + 1);
            self.keep(Some(id), name, media_type, bytes).await?;
        }
        let text = heard.finish().to_owned();
        let mut text = if text.is_empty() { "(no output)".to_owned() } else { text };
        if let Some(refused) = self.count_network(id).await? {
            // At the end, which the model is always shown.
            text = format!("{}\n{refused}", text.trim_end());
        }
        let mut outputs = Vec::new();
        let mut shown = shorten(&text, MOST_SHOWN, None);
        if shown.is_cut() {
            // The sandbox may let us wait.
            self.flush().await?;
            let path = self.leave(call, &text).await;
            shown = shorten(&text, MOST_SHOWN, path.as_deref());
            let content =
                self.worker.journal.put_blob(&self.lease.address, text.into_bytes()).await?;
            outputs.push(Output { stream: "all".to_owned(), content, path });
        }
        let count = |chars: usize| chars as u64;
        let finished = ToolFinished {
            call: id.clone(),
            exec: exec.cloned(),
            reason: heard.reason.unwrap_or(EndReason::Lost),
            exit_code: heard.exit_code,
            cut: shown
                .is_cut()
                .then(|| Cut { shown_chars: count(shown.shown), total_chars: count(shown.total) }),
            shown: shown.text,
            outputs,
            fault: heard.fault,
            used: heard.used,
        };
        self.append(NewEvent::new(finished).waiting()).await.map(drop)
    }

    /// Puts the whole output where the code can read it; none: there is no sandbox, or
    /// no room in it.
    async fn leave(&self, call: &Call, text: &str) -> Option<String> {
        let id = self.story.view.sandbox.as_ref()?;
        let index = self.story.view.calls.iter().position(|other| other.call == call.call)?;
        let path = format!("{OUTPUTS}/turn-{}-call-{}.txt", call.call.turn, index + 1);
        let sandbox = self.worker.rooms.at(id, self.lease.generation);
        sandbox.write_file(&path, text.to_owned()).await.ok().map(|written| written.path)
    }

    /// Takes the files of a result out of the sandbox.
    async fn deliver(&self, call: &Call, finish: &Finish) -> Result<Heard, WorkError> {
        let mut paths = finish.files.clone();
        if !paths.iter().any(|path| name_of(path) == RESULT) {
            paths.push(RESULT.to_owned());
        }
        let sandbox = self.story.view.sandbox.as_ref().filter(|_| !self.story.is_sandbox_lost);
        let Some(id) = sandbox else {
            return Ok(match finish.files.first() {
                Some(path) => Heard::fault("file", format!("There is no file {path}.")),
                None => Heard::done("The answer is kept."),
            });
        };
        self.flush().await?;
        let sandbox = self.worker.rooms.at(id, self.lease.generation);
        let mut files = Vec::new();
        for path in &paths {
            match read(&sandbox, path, MOST_FILE).await {
                Ok(bytes) => files.push((path, bytes)),
                Err(_) if !finish.files.contains(path) => {}
                Err(error) if error.code() == Some("stale_generation") => {
                    return Err(WorkError::Fenced);
                }
                Err(error) => {
                    let message = format!(
                        "{path} cannot be taken along: {}. Correct `files` and call finish again.",
                        chain(&error)
                    );
                    return Ok(Heard::fault("file", message));
                }
            }
        }
        for (path, bytes) in files {
            self.keep(Some(&call.call), name_of(path), media_type(path), bytes).await?;
        }
        Ok(Heard::done("The answer is kept."))
    }

    /// Keeps something for good, under its name once.
    pub(super) async fn keep(
        &self,
        call: Option<&CallRef>,
        name: String,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<(), WorkError> {
        let content = self.keep_blob(bytes).await?;
        let key = match call {
            Some(call) => format!("artifact:{}:{}:{name}", call.turn, call.id),
            None => format!("artifact:{name}"),
        };
        let artifact = Artifact { name, media_type: media_type.to_owned(), content };
        let added = ArtifactAdded { artifact, call: call.cloned() };
        self.append(NewEvent::new(added).keyed(&key).waiting()).await.map(drop)
    }
}

/// What people read first.
pub(super) const RESULT: &str = "result.md";

/// What a call may take.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowance {
    pub(super) time: Option<Duration>,
    pub(super) cpu: Option<Duration>,
}

/// Does a call in the sandbox; again under the same id, it tells what came of it.
async fn execute(
    sandbox: &Sandbox,
    asked: &Asked,
    exec: &ExecId,
    allowance: Allowance,
) -> Result<Heard, Error> {
    let Allowance { time: timeout, cpu } = allowance;
    // Both have the same letters.
    let key: Option<Key> = exec.as_str().parse().ok();
    match asked {
        Asked::Python(python) if python.fresh => {
            let command = Command { timeout, cpu, ..room::fresh(&python.code) };
            Heard::command(sandbox.run(&command, key.as_ref()).await?).await
        }
        Asked::Python(python) => {
            let context = room::python(sandbox).await?;
            let cell = Cell { timeout, cpu, ..Cell::new(python.code.clone()) };
            Heard::cell(sandbox.run_cell(&context, &cell, key.as_ref()).await?).await
        }
        Asked::Shell(shell) => {
            let command =
                Command { timeout, cpu, ..Command::script(room::in_order(&shell.command)) };
            Heard::command(sandbox.run(&command, key.as_ref()).await?).await
        }
        Asked::Read(asked) => Ok(match read(sandbox, &asked.path, MOST_READ).await {
            Ok(bytes) => Heard::done(String::from_utf8_lossy(&bytes)),
            Err(error) if room::is_gone(&error) => return Err(error),
            Err(error) => {
                Heard::fault("file", format!("{} cannot be read: {}", asked.path, chain(&error)))
            }
        }),
        Asked::Write(asked) => {
            let bytes = asked.content.len();
            Ok(match sandbox.write_file(&asked.path, asked.content.clone()).await {
                Ok(written) => Heard::done(format!("{bytes} bytes are in {}", written.path)),
                Err(error) if room::is_gone(&error) => return Err(error),
                Err(error) => Heard::fault(
                    "file",
                    format!("{} cannot be written: {}", asked.path, chain(&error)),
                ),
            })
        }
        // This is not the sandbox's to do.
        Asked::Finish(_) | Asked::Question(_) => Ok(Heard::default()),
    }
}

pub(super) async fn read(sandbox: &Sandbox, path: &str, most: usize) -> Result<Vec<u8>, Error> {
    Ok(sandbox.read_file(path).await?.bytes(most).await?.to_vec())
}

pub(super) fn name_of(path: &str) -> String {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_owned()
}

pub(super) fn media_type(path: &str) -> &'static str {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    match ending.as_str() {
        "md" => "text/markdown",
        "txt" | "log" | "py" => "text/plain",
        "csv" => "text/csv",
        "html" => "text/html",
        "json" => "application/json",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}
