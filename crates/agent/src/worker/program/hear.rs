//! Hears a program: its lines become events, and it is told how many turns are left.

use std::time::Duration;

use belljar_api::call::{CallEnd, Omitted};
use belljar_api::file::{Entry, EntryKind};
use belljar_client::{CallRun, CallSaid, Sandbox};
use belljar_domain::{EndReason, ExecId, Sequence};
use belljar_journal::event::{
    Block, Body, CallRef, GuardReported, InjectedMessage, LlmRequested, LlmResponded, ToolFault,
    ToolFinished,
};
use belljar_journal::{AppendError, Call, Key, NewEvent, Next};
use belljar_objects::Digest;
use tokio::time::{Instant, MissedTickBehavior};

use super::super::call::{MOST_FILE, media_type, name_of, read};
use super::super::{Work, WorkError};
use super::charge::{BUDGET, TOKEN};
use super::session::{Packing, SaveTimes, packed};
use super::{Launch, ProgramError, TOKEN_RENEWAL};
use crate::output::Heard;
use crate::program::{
    Lines, Note, OUTPUT_GAP, Program, Task, Transcript, TurnWarning, category, cut, finished,
    intended, user_line,
};
use crate::room::{self, TOKEN_FILE};
use crate::shorten::shorten;

/// Interval of looks at requests from outside, at tokens and at sessions.
const TEND_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which the sandbox is kept alive.
const KEEP_INTERVAL: Duration = Duration::from_secs(300);
/// Time for a program to leave after its result.
const EXIT_GRACE: Duration = Duration::from_secs(10);
/// Bytes that are kept of what a program prints besides its events.
const MAX_STDERR_BYTES: usize = 8 << 10;
/// Characters of an answer.
const MAX_ANSWER_CHARS: usize = 64 << 10;
/// Files of the home directory that are kept.
const MAX_FILES: usize = 20;

/// The category of a call that is lost.
const LOST: &str = "lost";
/// The status by which programs tell that the gateway does not know their token.
const UNAUTHORIZED: &str = "401";

/// The state of hearing one program.
pub(super) struct Hearing<'h> {
    pub(super) program: &'static Program,
    pub(super) room: &'h Sandbox,
    pub(super) call: &'h Call,
    pub(super) transcript: Transcript,
    pub(super) saves: SaveTimes,
    message: &'h str,
    turns_left: Option<u32>,
    /// Turns of the run before the program was begun.
    turns: u32,
    warned: Option<TurnWarning>,
    lines: Lines,
    stderr: Vec<u8>,
    /// When the program is ended that reported a result and does not leave.
    deadline: Option<Instant>,
    is_cut: bool,
    kept_at: Instant,
    renewed_at: Instant,
    /// The process of the call, once the sandbox has told it.
    pub(super) pid: Option<u32>,
}

impl<'h> Hearing<'h> {
    pub(super) fn new(launch: &'h Launch, room: &'h Sandbox, call: &'h Call) -> Self {
        let now = Instant::now();
        Self {
            program: launch.program,
            room,
            call,
            transcript: Transcript::after(launch.turns, launch.program.events),
            saves: SaveTimes::begin(now),
            message: &launch.message,
            turns_left: launch.turns_left,
            turns: launch.turns,
            warned: None,
            lines: Lines::default(),
            stderr: Vec::new(),
            deadline: None,
            is_cut: false,
            kept_at: now,
            renewed_at: now,
            pid: None,
        }
    }

    /// The warning that is due now, once.
    fn warning(&mut self) -> Option<TurnWarning> {
        let done = self.transcript.turn() - self.turns;
        let due = TurnWarning::due(done, self.turns_left?)?;
        let is_new = self.warned != Some(due);
        self.warned = Some(due);
        is_new.then_some(due)
    }

    fn keep_stderr(&mut self, bytes: &[u8]) {
        self.stderr.extend_from_slice(bytes);
        let excess = self.stderr.len().saturating_sub(MAX_STDERR_BYTES);
        self.stderr.drain(..excess);
    }

    /// The end of the program, in its own words and those of the sandbox.
    fn heard(&self, end: &CallEnd, is_penniless: bool, is_tokenless: bool) -> Heard {
        let mut heard = Heard::default();
        let is_cut = self.is_cut && end.reason == EndReason::Killed;
        let reason = if is_cut { EndReason::Done } else { end.reason };
        heard.end(reason, end.exit_code, &end.usage);
        let work = &self.transcript.work;
        let verdict = work.verdict.as_ref();
        let is_limit = !matches!(reason, EndReason::Done | EndReason::Exit);
        let is_well = reason == EndReason::Done && verdict.is_some_and(|verdict| verdict.is_well);
        if is_well {
            heard.text = verdict.map(|verdict| verdict.text.clone()).unwrap_or_default();
            heard.fault = None;
            return heard;
        }
        if is_limit {
            return heard;
        }
        let said = verdict.and_then(|verdict| verdict.why.clone());
        let said = said.or_else(|| work.last_error().map(str::to_owned));
        let printed = || {
            let text = String::from_utf8_lossy(&self.stderr).trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let message =
            said.or_else(printed).unwrap_or_else(|| "it exited and reported no result".to_owned());
        let has_begun = self.transcript.turn() > self.turns;
        let category = if has_lost_token(&message, is_tokenless, has_begun) {
            // The run goes on from the session, with another token.
            heard.reason = Some(EndReason::Lost);
            LOST
        } else {
            category(&message, is_penniless)
        };
        heard.text.clone_from(&message);
        heard.fault = Some(ToolFault { category: category.to_owned(), message });
        heard
    }
}

impl Work<'_> {
    /// Hears the program to its end. None: something came in between.
    pub(super) async fn hear_program(
        &mut self,
        mut run: CallRun,
        hearing: &mut Hearing<'_>,
    ) -> Result<Option<Heard>, ProgramError> {
        let pid = run.id();
        hearing.pid = Some(pid);
        let mut tending = tokio::time::interval(TEND_INTERVAL);
        tending.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The output is read while the session is packed: the sandbox keeps only a part of it.
        let mut packing: Option<Packing> = None;
        let end = loop {
            let said = tokio::select! {
                said = run.next() => said?,
                packed = packed(&mut packing) => {
                    packing = None;
                    self.keep_session(hearing, packed).await?;
                    continue;
                }
                _ = tending.tick() => {
                    if self.tend_program(hearing, pid).await? {
                        return Ok(None);
                    }
                    let turn = hearing.transcript.turn();
                    if packing.is_none() && hearing.saves.is_due(Instant::now(), turn) {
                        packing = hearing.pack_session();
                    }
                    continue;
                }
            };
            match said.ok_or(belljar_client::Error::SandboxGone)? {
                CallSaid::Stdout(bytes) => {
                    let lines = hearing.lines.push(&bytes);
                    for line in &lines {
                        let notes = hearing.transcript.read(line);
                        self.write_notes(hearing, &notes, pid).await?;
                    }
                    self.catch_up().await?;
                }
                CallSaid::Stderr(bytes) => hearing.keep_stderr(&bytes),
                CallSaid::Omitted(Omitted { stdout_bytes: 0, .. }) => {}
                CallSaid::Omitted(Omitted { stdout_bytes, .. }) => {
                    self.skip_output(hearing, stdout_bytes, pid).await?;
                }
                CallSaid::End(end) => break end,
            }
        };
        if let Some(packing) = packing {
            // The last session is packed into the same file.
            let _ = packing.await;
        }
        let mut notes = match hearing.lines.rest() {
            Some(line) => hearing.transcript.read(&line),
            None => Vec::new(),
        };
        notes.extend(hearing.transcript.end_turn());
        self.write_notes(hearing, &notes, pid).await?;
        let call = &hearing.call.call;
        self.settle_rest(call, hearing.transcript.turn()).await?;
        let is_penniless = self.was_refused(call, BUDGET);
        let is_tokenless = self.was_refused(call, TOKEN);
        Ok(Some(hearing.heard(&end, is_penniless, is_tokenless)))
    }

    /// Does what is due while the program works. True: it is not to be heard on.
    async fn tend_program(
        &mut self,
        hearing: &mut Hearing<'_>,
        pid: u32,
    ) -> Result<bool, ProgramError> {
        let now = Instant::now();
        if hearing.deadline.is_some_and(|deadline| now >= deadline) && !hearing.is_cut {
            hearing.is_cut = true;
            // It may have left at this moment.
            let _ = hearing.room.end_call(pid).await;
        }
        if now - hearing.kept_at >= KEEP_INTERVAL {
            room::keep(hearing.room).await?;
            hearing.kept_at = now;
        }
        if now - hearing.renewed_at >= TOKEN_RENEWAL {
            if let Err(error) = self.renew_program_token(hearing.room).await {
                self.warn_of_token(&error);
            }
            hearing.renewed_at = now;
        }
        let next = self.story.view.head.next();
        let news = self.worker.journal.read(&self.lease.address, next, 1).await;
        if !news.map_err(WorkError::Read)?.is_empty() {
            self.outbox.must_read();
            self.catch_up().await?;
        }
        Ok(self.obey_meanwhile(hearing.call).await?)
    }

    /// Does what was asked for from outside, while the program works on. True: it is not to be
    /// heard on, because its run ends.
    async fn obey_meanwhile(&mut self, call: &Call) -> Result<bool, WorkError> {
        loop {
            let pending = match self.story.view.next() {
                Next::Obey(pending) => pending.clone(),
                Next::CollectCall { call: current, .. } => return Ok(current.call != call.call),
                _ => return Ok(true),
            };
            let done = self.obey(&pending).await;
            self.is_written(done).await?;
            self.catch_up().await?;
        }
    }

    /// False: another event came in between, and what was to be written is not.
    async fn is_written<T>(&mut self, done: Result<T, WorkError>) -> Result<bool, WorkError> {
        match done {
            Ok(_) => Ok(true),
            Err(WorkError::Append(AppendError::Unseen { .. })) => {
                self.catch_up().await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Goes on after output that the sandbox did not keep. Turns that are written already keep
    /// their numbers, and others come after all of these.
    async fn skip_output(
        &mut self,
        hearing: &mut Hearing<'_>,
        bytes: u64,
        pid: u32,
    ) -> Result<(), ProgramError> {
        hearing.lines.skip(bytes);
        let notes: Vec<Note> = hearing.transcript.end_turn().into_iter().collect();
        self.write_notes(hearing, &notes, pid).await?;
        self.catch_up().await?;
        let (turns, heard) = (hearing.turns, hearing.transcript.turn());
        let written = self.events.iter().filter_map(|event| match &event.body {
            Body::LlmResponded(it) if it.turn > turns => Some((it.turn, it.blocks.as_slice())),
            _ => None,
        });
        hearing.transcript.skip_to(self.story.view.turns, written);
        let call = hearing.call.call.clone();
        let key = format!("program:gap:{}:{heard}", call.id);
        let message = format!(
            "{bytes} bytes of the program's output after turn {heard} were not kept; turns in \
             them may be missing"
        );
        let report = GuardReported { call, guard: OUTPUT_GAP.to_owned(), message };
        self.append(NewEvent::new(report).keyed(&key)).await?;
        Ok(())
    }

    async fn write_notes(
        &mut self,
        hearing: &mut Hearing<'_>,
        notes: &[Note],
        pid: u32,
    ) -> Result<(), ProgramError> {
        loop {
            // A request from outside may come in between. What is written by then has its key.
            let done = self.write_each(hearing, notes).await;
            if self.is_written(done).await? {
                break;
            }
        }
        let calls = notes.iter().any(|note| matches!(note, Note::Call { .. }));
        let takes_messages = hearing.program.task == Task::Message;
        if takes_messages && hearing.transcript.work.verdict.is_some() && hearing.deadline.is_none()
        {
            // It leaves when nothing more is said to it.
            let _ = hearing.room.write_stdin(pid, String::new(), true).await;
        } else if takes_messages
            && calls
            && let Some(warning) = hearing.warning()
        {
            self.warn_program(hearing, warning, pid).await?;
        }
        if hearing.transcript.work.verdict.is_some() && hearing.deadline.is_none() {
            hearing.deadline = Some(Instant::now() + EXIT_GRACE);
        }
        Ok(())
    }

    async fn write_each(&mut self, hearing: &Hearing<'_>, notes: &[Note]) -> Result<(), WorkError> {
        for note in notes {
            match note.clone() {
                Note::Call { call, tool, input } => {
                    self.append(NewEvent::new(intended(call, tool, &input)).waiting()).await?;
                }
                Note::Turn { turn, blocks, stop } => {
                    self.write_turn(hearing, turn, blocks, stop).await?;
                }
                Note::Result { call, output, is_error } => {
                    let finished = finished(call, &output, is_error);
                    self.append(NewEvent::new(finished).waiting()).await?;
                }
            }
        }
        self.flush().await.map(drop)
    }

    /// Tells the program how many turns are left, once.
    async fn warn_program(
        &mut self,
        hearing: &Hearing<'_>,
        warning: TurnWarning,
        pid: u32,
    ) -> Result<(), ProgramError> {
        let kind = warning.kind();
        if !self.brief.guards.turns || self.story.view.injected.contains(&kind) {
            return Ok(());
        }
        let (turn, text) = (hearing.transcript.turn(), warning.text().to_owned());
        let line = user_line(&text);
        let message = NewEvent::new(InjectedMessage { kind, turn, text, answers: None });
        loop {
            let done = self.append(message.clone()).await;
            if self.is_written(done).await? {
                break;
            }
        }
        self.catch_up().await?;
        // A program that has just ended needs no warning.
        let _ = hearing.room.write_stdin(pid, line, false).await;
        Ok(())
    }

    /// Writes a turn down, with the cost of all requests that ended until now.
    async fn write_turn(
        &mut self,
        hearing: &Hearing<'_>,
        turn: u32,
        blocks: Vec<Block>,
        stop: &str,
    ) -> Result<(), WorkError> {
        let key = format!("program:answer:{turn}");
        if self.written_under(&Key::new(&key)).is_some() {
            return Ok(());
        }
        let asked = self.write_request(hearing, turn).await?;
        let cost = self.settle(&hearing.call.call).await?;
        let answer = LlmResponded {
            turn,
            asked,
            blocks,
            stop: stop.to_owned(),
            tokens: cost.tokens,
            nano_dollars: cost.nano_dollars,
            assumed: cost.is_assumed,
            upstream_request: None,
            raw: None,
            first_token_micros: cost.first_byte_micros,
            micros: cost.micros,
        };
        self.append(NewEvent::new(answer).keyed(&key)).await?;
        self.catch_up().await
    }

    /// Writes down that the program asked its model. The digest is that of the program's task:
    /// only the program has the whole request.
    async fn write_request(&self, hearing: &Hearing<'_>, turn: u32) -> Result<Sequence, WorkError> {
        let requested = LlmRequested {
            turn,
            attempt: 1,
            model: self.story.view.model.clone(),
            prompt: Digest::of(hearing.message.as_bytes()),
            reservation: None,
            last: false,
        };
        self.append(NewEvent::new(requested)).await
    }

    /// Keeps the program's session and files, and writes down how it ended.
    pub(super) async fn end_program(
        &mut self,
        call: &Call,
        exec: &ExecId,
        hearing: Option<&mut Hearing<'_>>,
        heard: Heard,
    ) -> Result<(), WorkError> {
        if let Some(hearing) = hearing {
            if let Err(ProgramError::Work(error)) = self.save_session(hearing).await {
                return Err(error);
            }
            self.keep_files(hearing.room, &call.call).await?;
            if heard.reason == Some(EndReason::Lost) {
                // The run goes on in another one.
                let _ = hearing.room.end().await;
            }
        } else {
            // Requests that the program made until it was lost.
            self.settle_rest(&call.call, self.story.view.turns).await?;
        }
        let shown = shorten(&heard.text, MAX_ANSWER_CHARS, None);
        let finished = ToolFinished {
            call: call.call.clone(),
            exec: Some(exec.clone()),
            reason: heard.reason.unwrap_or(EndReason::Lost),
            exit_code: heard.exit_code,
            cut: cut(&shown),
            shown: shown.text,
            outputs: Vec::new(),
            fault: heard.fault,
            used: heard.used,
        };
        self.append(NewEvent::new(finished)).await.map(drop)
    }

    /// Keeps the files that are in the home directory itself.
    async fn keep_files(&self, room: &Sandbox, call: &CallRef) -> Result<(), WorkError> {
        let entries = match room.list_files(".", 1).await {
            Ok(entries) => entries,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, run.id = %self.lease.address.run, "files not listed");
                return Ok(());
            }
        };
        let kept: Vec<Entry> = entries.into_iter().filter(is_kept).take(MAX_FILES).collect();
        for entry in &kept {
            let Ok(bytes) = read(room, &entry.path, MOST_FILE).await else { continue };
            let name = name_of(&entry.path);
            let media_type = media_type(&name);
            self.keep(Some(call), name, media_type, bytes).await?;
        }
        Ok(())
    }
}

/// Returns true if a program failed because the gateway did not know its token any more, or because
/// it had none when it began.
fn has_lost_token(why: &str, is_refused: bool, has_begun: bool) -> bool {
    (is_refused && why.contains(UNAUTHORIZED)) || (!has_begun && why.contains(TOKEN_FILE))
}

/// Returns true for a file that is a result: neither hidden nor too large.
fn is_kept(entry: &Entry) -> bool {
    let is_small = entry.bytes <= MOST_FILE as u64;
    entry.kind == EntryKind::File && is_small && !name_of(&entry.path).starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_token_is_gone_is_lost_and_another_failure_is_not() {
        let refused = "api_error: API Error: 401 the token is invalid or has expired";
        assert!(has_lost_token(refused, true, true));
        // The gateway did not say so.
        assert!(!has_lost_token(refused, false, true));
        assert!(!has_lost_token("max_turns", true, true));
        let missing = format!("cat: {TOKEN_FILE}-x: No such file or directory");
        assert!(has_lost_token(&missing, false, false));
        assert!(!has_lost_token(&missing, false, true));
    }
}
