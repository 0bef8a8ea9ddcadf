//! The Executor of a pipeline run, and the messages of its other agents.
//!
//! ```text
//!   template ─► install ─► checkpoint ─┬─► fork ─► run      attempt 1
//!                                      └─► fork ─► run      attempt 2, with the same packages
//! ```
//!
//! A sandbox is used for one attempt. Where the tier has no checkpoint, each attempt installs.

use belljar_api::checkpoint::CreateCheckpoint;
use belljar_api::sandbox::Keep;
use belljar_client::Error;
use belljar_domain::{EndReason, SandboxId};
use belljar_journal::event::{
    ErrorCategory, SandboxAttached, SnapshotRefused, SnapshotTaken, StageMessage, ToolFault,
};
use belljar_journal::{Call, INSTALL_CALL, NewEvent, QUESTION_CALL, RUN_CALL, STAGE_CALL_PREFIX};
use belljar_pipeline::{
    Category, CodeArtifact, Message, Role, error_line, read_code, read_diagnosis, read_plan,
};

use super::{Work, WorkError, chain};
use crate::answer::written;
use crate::decide::Closing;
use crate::output::Heard;
use crate::pipeline::Pipeline;
use crate::room::{self, RoomError};
use crate::tools::{Asked, Question, Shell, Unfit};

/// Makes `python` work where no interpreter has this name, as on Debian.
const PYTHON: &str = "command -v python >/dev/null || python() { python3 \"$@\"; }; ";

/// The code of a refusal of limits that are above the maximum.
const TOO_LARGE: &str = "limit_out_of_range";

impl Work<'_> {
    pub(super) fn pipeline(&self) -> Option<&Pipeline> {
        self.story.pipeline.as_ref()
    }

    /// Writes a message of the Executor down, or the question to a human.
    pub(super) async fn send(&self, message: Message) -> Result<(), WorkError> {
        let Some(pipeline) = self.pipeline() else { return Ok(()) };
        let turn = match message {
            Message::Execution(_) => pipeline.current.as_ref().map(|attempt| attempt.turn),
            _ => None,
        };
        let turn = turn.unwrap_or(self.story.view.turns).max(1);
        let (round, attempt) = (pipeline.round, pipeline.next_attempt(&message));
        let sent = StageMessage { turn, round, attempt, message };
        self.append(NewEvent::new(sent).waiting()).await.map(drop)
    }

    /// The request of a call to the sandbox: a tool of the model, or a command of the Executor.
    pub(super) fn asked(&self, call: &Call) -> Result<Asked, Unfit> {
        let current = self.pipeline().and_then(|pipeline| pipeline.current.as_ref());
        match current.and_then(|current| command(&call.call.id, &current.artifact)) {
            Some(shell) => Ok(Asked::Shell(shell)),
            None => Asked::read(&call.name, &call.input),
        }
    }

    /// Begins a call of a pipeline run, or takes an agent's message.
    pub(super) async fn start_stage(
        &mut self,
        call: &Call,
        pipeline: &Pipeline,
    ) -> Result<(), WorkError> {
        match call.call.id.as_str() {
            QUESTION_CALL => {
                let question = call.input["question"].as_str().unwrap_or_default().to_owned();
                self.ask_human(call, &Question { question }).await
            }
            INSTALL_CALL if pipeline.checkpoint().is_some() => {
                let heard = Heard::done("The checkpoint after this installation is used.");
                self.finish(call, None, heard).await
            }
            INSTALL_CALL | RUN_CALL => self.execute_stage(call, pipeline).await,
            _ => self.hand_in(call, pipeline).await,
        }
    }

    /// Takes an agent's message, or says what is wrong with it.
    async fn hand_in(&self, call: &Call, pipeline: &Pipeline) -> Result<(), WorkError> {
        // A worker that was killed had written the message, and not the end of its call.
        if pipeline.has_accepted(call.call.turn) {
            return self.finish(call, None, Heard::done("Accepted.")).await;
        }
        match self.read_message(call, pipeline) {
            Ok(message) => {
                let (turn, round) = (call.call.turn, pipeline.round);
                let attempt = pipeline.next_attempt(&message);
                let sent = StageMessage { turn, round, attempt, message };
                self.append(NewEvent::new(sent).waiting()).await?;
                self.finish(call, None, Heard::done("Accepted.")).await
            }
            Err(refused) => self.finish(call, None, *refused).await,
        }
    }

    fn read_message(&self, call: &Call, pipeline: &Pipeline) -> Result<Message, Box<Heard>> {
        let refused = |why: &dyn std::fmt::Display| {
            Box::new(Heard::fault("arguments", format!("{why} Call the tool again.")))
        };
        let role = pipeline.role();
        if call.name != role.tool() {
            return Err(refused(&format!(
                "There is no tool `{}`, but `{}`.",
                call.name,
                role.tool()
            )));
        }
        let input: serde_json::Value =
            written(&call.input).parse().map_err(|error| refused(&format!("{error}.")))?;
        let created = self.story.view.created.as_ref();
        let request = created.map(|created| created.question.as_str()).unwrap_or_default();
        let message = match role {
            Role::Planner => read_plan(&input, request).map(Message::Plan),
            Role::Coder => read_code(&input).map(Message::Code),
            Role::Debugger => read_diagnosis(&input).map(Message::Diagnosis),
        };
        let message = message.map_err(|why| refused(&why))?;
        if message.artifact().is_some_and(|artifact| pipeline.is_repeated(artifact)) {
            let why = "This program does the same as an earlier one. Change what it does, how it \
                       is installed, or its limits, and call the tool again.";
            return Err(Box::new(Heard::fault("same_code", why)));
        }
        Ok(message)
    }

    /// Finds the sandbox of this attempt and writes down that it will be asked.
    async fn execute_stage(&mut self, call: &Call, pipeline: &Pipeline) -> Result<(), WorkError> {
        let Some(current) = &pipeline.current else {
            return self
                .finish(call, None, Heard::fault("arguments", "There is no program."))
                .await;
        };
        let is_run = call.call.id == RUN_CALL;
        if is_run && pipeline.is_uninstalled() {
            return self.finish(call, None, Heard::done("The installation failed.")).await;
        }
        if is_run && pipeline.lacks_checkpoint() {
            return self.checkpoint().await;
        }
        if !self.may_make(call).await? {
            return Ok(());
        }
        let is_fork = is_run && pipeline.checkpoint().is_some();
        let found = if pipeline.has_sandbox(is_fork) { self.sandbox().await? } else { None };
        let Some(sandbox) = found else {
            let is_installed = is_run && current.artifact.install_command.is_some();
            return match (is_fork, is_installed) {
                (true, _) => self.attach_fork().await,
                // The packages are gone with the sandbox.
                (false, true) => self.finish(call, None, Heard::lost()).await,
                (false, false) => self.attach().await,
            };
        };
        if is_run {
            self.flush().await?;
            let room = self.worker.rooms.at(&sandbox, self.lease.generation);
            let artifact = &current.artifact;
            match room.write_file(&artifact.filename, artifact.code.clone()).await {
                Ok(_) => {}
                Err(error) if is_stale(&error) => return Err(WorkError::Fenced),
                Err(error) if room::is_gone(&error) => {
                    return self.finish(call, None, Heard::lost()).await;
                }
                Err(error) => {
                    let why = format!("{} cannot be written: {}", artifact.filename, chain(&error));
                    return self.finish(call, None, Heard::fault("file", why)).await;
                }
            }
        }
        let asked = match self.asked(call) {
            Ok(asked) => asked,
            Err(unfit) => {
                return self.finish(call, None, Heard::fault("arguments", unfit.to_string())).await;
            }
        };
        self.record_start(call, sandbox, &asked).await
    }

    /// Returns true if the program asks for more memory than a sandbox may have.
    pub(super) fn is_too_large(&self, error: &RoomError) -> bool {
        let current = self.pipeline().and_then(|pipeline| pipeline.current.as_ref());
        let is_asked = current.is_some_and(|current| current.artifact.memory_bytes.is_some());
        match error {
            RoomError::Make { source, .. } => is_asked && source.code() == Some(TOO_LARGE),
            _ => false,
        }
    }

    /// Ends the attempt of such a program.
    pub(super) async fn refuse_memory(&self, error: &RoomError) -> Result<(), WorkError> {
        let Some(call) = self.story.view.unfinished().cloned() else { return Ok(()) };
        self.finish(&call, None, Heard::fault("memory", chain(error))).await
    }

    /// Keeps the sandbox as it is after the installation.
    async fn checkpoint(&mut self) -> Result<(), WorkError> {
        self.flush().await?;
        let after = self.story.view.head;
        let Some(id) = self.story.view.sandbox.clone().filter(|_| !self.story.is_sandbox_lost)
        else {
            let reason = "the sandbox was lost".to_owned();
            return self.append(NewEvent::new(SnapshotRefused { after, reason })).await.map(drop);
        };
        let sandbox = self.worker.rooms.at(&id, self.lease.generation);
        let (mut current, mut reason) = (None, String::new());
        // A microVM's disk cannot be read from outside: it is kept with its memory.
        for keep in [Keep::Files, Keep::Memory] {
            let name = room::checkpoint_name(&self.lease.address).try_into().ok();
            match sandbox.checkpoint(&CreateCheckpoint { name, keep }).await {
                Ok(taken) => {
                    current = Some(taken.id);
                    break;
                }
                Err(error) if is_stale(&error) => return Err(WorkError::Fenced),
                Err(error) => reason = chain(&error),
            }
        }
        let event = match current.clone() {
            Some(snapshot) => NewEvent::new(SnapshotTaken { snapshot, after }),
            None => NewEvent::new(SnapshotRefused { after, reason }),
        };
        self.append(event.waiting()).await?;
        // A worker that lost its lease does not come further: it deletes no checkpoint of the next.
        self.flush().await?;
        self.drop_checkpoints(current.as_deref()).await;
        Ok(())
    }

    /// Makes the attempt's sandbox from the checkpoint after the installation.
    async fn attach_fork(&mut self) -> Result<(), WorkError> {
        self.flush().await?;
        let view = &self.story.view;
        let Some(taken) = view.snapshot.clone() else { return Ok(()) };
        let (number, old) = (view.sandboxes + 1, view.sandbox.clone());
        let rooms = &self.worker.rooms;
        let made = rooms.fork(&self.lease.address, number, &taken.snapshot, &view.network).await;
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                let closing = Closing::failed(ErrorCategory::Sandbox, &chain(&error));
                return self.close(closing).await;
            }
        };
        if let Err(error) = self.insert_tape(&made.id).await {
            let closing = Closing::failed(ErrorCategory::Sandbox, &chain(&error.lasting()?));
            return self.close(closing).await;
        }
        let attached = SandboxAttached {
            sandbox: made.id,
            number,
            template: self.template.clone(),
            restored: Some(taken),
            data: (!self.data.is_empty()).then_some(made.data),
            environment: Some(made.environment),
        };
        self.append(NewEvent::new(attached).waiting()).await?;
        self.is_seen = true;
        self.drop_sandbox(old).await
    }

    /// Ends the sandbox of an earlier attempt, once its successor is written down.
    pub(super) async fn drop_sandbox(&self, old: Option<SandboxId>) -> Result<(), WorkError> {
        let Some(old) = old.filter(|_| self.pipeline().is_some()) else { return Ok(()) };
        self.flush().await?;
        // It would end by itself, only later.
        let _ = self.worker.rooms.at(&old, self.lease.generation).end().await;
        Ok(())
    }

    /// Deletes the checkpoints of a pipeline run but the current one, also one whose worker was
    /// killed before it wrote the event.
    pub(super) async fn drop_checkpoints(&self, current: Option<&str>) {
        if let Some(pipeline) = self.pipeline() {
            let (run, known) = (&self.lease.address, pipeline.kept_checkpoint());
            self.worker.rooms.forget_checkpoints(run, known, current).await;
        }
    }
}

/// The command of a program for this call; none: the call is another one.
fn command(call: &str, artifact: &CodeArtifact) -> Option<Shell> {
    let (command, seconds) = match call {
        INSTALL_CALL => (artifact.install_command.as_ref()?, artifact.install_limit()),
        RUN_CALL => (&artifact.run_command, artifact.run_limit()),
        _ => return None,
    };
    Some(Shell { command: format!("{PYTHON}{command}"), timeout_seconds: Some(seconds) })
}

/// Finds the category of a command that failed, in its output.
pub(super) fn classify(call: &Call, heard: &mut Heard) {
    let is_stage = call.call.id.starts_with(STAGE_CALL_PREFIX);
    let Some(fault) = heard.fault.as_ref().filter(|_| is_stage) else { return };
    let is_lost = heard.reason == Some(EndReason::Lost);
    let category = match call.call.id.as_str() {
        _ if is_lost => Category::Lost,
        INSTALL_CALL => Category::of_install(&fault.category),
        _ => Category::of_run(&fault.category, &heard.text),
    };
    // A limit says more than the last words of the program that it ended.
    let is_limit = category != Category::Exit && category.as_str() == fault.category;
    let line = if is_limit { None } else { error_line(&heard.text) };
    let message = line.unwrap_or_else(|| fault.message.clone());
    heard.fault = Some(ToolFault { category: category.as_str().to_owned(), message });
}

fn is_stale(error: &Error) -> bool {
    error.code() == Some("stale_generation")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A template of Debian has `python3` alone, for both commands of a program.
    #[test]
    fn python_is_found_by_both_commands() {
        let artifact = CodeArtifact {
            filename: "main.py".into(),
            code: "print(1)".into(),
            install_command: Some("python -m pip install a".into()),
            run_command: "python main.py".into(),
            install_seconds: None,
            run_seconds: Some(7),
            memory_bytes: None,
        };
        for (call, end, seconds) in
            [(INSTALL_CALL, "; python -m pip install a", 300), (RUN_CALL, "; python main.py", 7)]
        {
            let shell = command(call, &artifact).unwrap();
            assert!(shell.command.starts_with("command -v python "), "{shell:?}");
            assert!(shell.command.ends_with(end), "{shell:?}");
            assert_eq!(shell.timeout_seconds, Some(seconds));
        }
        assert_eq!(command("call_1", &artifact), None);
        let plain = CodeArtifact { install_command: None, ..artifact };
        assert_eq!(command(INSTALL_CALL, &plain), None);
    }
}
