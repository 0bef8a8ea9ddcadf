//! Ends a run, always with a result.

use belljar_journal::NewEvent;
use belljar_journal::event::{ErrorCategory, Finished, Outcome};

use super::call::{RESULT, media_type, read};
use super::outbox::MOST_GATHERED_BYTES;
use super::{Work, WorkError};
use crate::decide::Closing;
use crate::recording::unrecorded;

/// What is read of a result that nobody handed in.
const MOST_RESULT: usize = 1 << 20;

impl Work<'_> {
    pub(super) async fn close(&mut self, closing: Closing) -> Result<(), WorkError> {
        if closing.result.as_deref().is_none_or(is_long) || self.recording_name().is_some() {
            // This end takes its time. An answer that is not written by then is paid for again
            // after a crash.
            let known = self.written_events;
            self.flush().await?;
            self.catch_up().await?;
            if self.has_foreign_event(known) {
                // It may be a request: the next round decides with it.
                return Ok(());
            }
        }
        // The last calls of a replay are not followed by a turn that would tell.
        let divergence = self.recording.as_ref().and_then(|_| unrecorded(&self.events));
        let closing = match divergence.filter(|_| closing.outcome == Outcome::Answered) {
            Some(divergence) => Closing::failed(ErrorCategory::Replay, &divergence.to_string()),
            None => closing,
        };
        let result = match &closing.result {
            Some(result) => result.clone(),
            None => self.what_there_is(&closing).await,
        };
        let has_result = self.story.view.artifacts.iter().any(|artifact| artifact.name == RESULT);
        if !has_result {
            let text = format!("{}\n", result.trim_end());
            self.keep(None, RESULT.to_owned(), "text/markdown", text.into_bytes()).await?;
        }
        self.keep_program().await?;
        self.record().await?;
        // All of it is one batch, and is written only if nothing has come in between.
        self.catch_up().await?;
        let Closing { outcome, error, message, .. } = closing;
        let finished = Finished { outcome, error, message, result: Some(result) };
        self.append(NewEvent::new(finished).seen(self.story.view.head)).await?;
        // The run counts as ended before its sandbox has.
        let seen = self.catch_up().await;
        if let Some(id) = &self.story.view.sandbox {
            // It would end by itself, only later.
            let _ = self.worker.rooms.at(id, self.lease.generation).end().await;
        }
        if self.pipeline().is_some() && seen.is_ok() && self.story.view.finished.is_some() {
            // Not before the last event: the run goes on if a request comes in between.
            self.drop_checkpoints(None).await;
            self.worker.rooms.end_all(&self.lease.address, self.lease.generation).await;
        }
        seen
    }

    /// Keeps the program that a pipeline ran last.
    async fn keep_program(&self) -> Result<(), WorkError> {
        let current = self.pipeline().and_then(|pipeline| pipeline.current.as_ref());
        let Some(artifact) = current.map(|current| &current.artifact) else { return Ok(()) };
        let has = self.story.view.artifacts.iter().any(|kept| kept.name == artifact.filename);
        if has {
            return Ok(());
        }
        let (name, code) = (artifact.filename.clone(), artifact.code.clone().into_bytes());
        let media_type = media_type(&name);
        self.keep(None, name, media_type, code).await
    }

    /// Returns true if another writer's event is among those after the first `known`.
    fn has_foreign_event(&self, known: usize) -> bool {
        let own = Some(self.lease.generation);
        self.events.iter().skip(known).any(|event| event.lease != own)
    }

    /// A run that was not answered still has what it came to: the file that it was
    /// writing, or what the model said last.
    async fn what_there_is(&self, closing: &Closing) -> String {
        if let Some(id) = &self.story.view.sandbox {
            let sandbox = self.worker.rooms.at(id, self.lease.generation);
            if let Ok(bytes) = read(&sandbox, RESULT, MOST_RESULT).await {
                return String::from_utf8_lossy(&bytes).into_owned();
            }
        }
        let why = closing.message.as_deref().unwrap_or(match closing.outcome {
            Outcome::Cancelled => "the run was cancelled",
            _ => "it came to no answer",
        });
        match &self.story.said {
            Some(said) => format!("No answer was given: {why}. The last that was said:\n\n{said}"),
            None => format!("No answer was given: {why}."),
        }
    }
}

/// Returns true if a result is kept by itself, before the event that names it.
fn is_long(result: &str) -> bool {
    result.len() >= MOST_GATHERED_BYTES
}
