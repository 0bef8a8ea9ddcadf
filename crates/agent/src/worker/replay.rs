//! Recordings of runs: made at the end of one, and answering instead of a model in another.

use belljar_journal::event::{ErrorCategory, LlmRequested, RecordingMade};
use belljar_journal::{BlobRef, NewEvent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::tape::{KeptCassette, writer};
use super::{Work, WorkError, Worker};
use crate::data::DataError;
use crate::decide::Closing;
use crate::recording::{Recording, RequestDigests, item, unrecorded};

impl Worker {
    /// Fetches the recording that a run replays.
    pub(super) async fn recording(&self, recording: BlobRef) -> Result<Recording, WorkError> {
        let item = item(recording);
        let file = self.rooms.depot.open(&item).await?;
        let mut bytes = Vec::new();
        let read = tokio::fs::File::from_std(file).read_to_end(&mut bytes).await;
        read.map_err(|_| DataError::Changed(item.name))?;
        Ok(Recording::read(&bytes)?)
    }
}

impl Work<'_> {
    /// Answers from the recording, or ends the run where it has left it.
    pub(super) async fn replay(
        &mut self,
        recording: &Recording,
        turn: u32,
        attempt: u32,
        last: bool,
    ) -> Result<(), WorkError> {
        let request = RequestDigests::of(&self.events, &self.facts);
        let recorded = match unrecorded(&self.events) {
            Some(divergence) => Err(divergence),
            None => recording.answer(turn, request),
        };
        let answer = recorded.and_then(|answer| {
            let diverged = crate::recording::Divergence::Results { turn };
            if answer.is_last() == last { Ok(answer) } else { Err(diverged) }
        });
        let answer = match answer {
            Ok(answer) => answer,
            Err(divergence) => {
                let closing = Closing::failed(ErrorCategory::Replay, &divergence.to_string());
                return self.close(closing).await;
            }
        };
        let built = answer.built(turn);
        let prompt = built.sha256;
        self.append(NewEvent::new(built).waiting()).await?;
        let model = self.story.view.model.clone();
        let requested = LlmRequested { turn, attempt, model, prompt, reservation: None, last };
        let asked = self.append(NewEvent::new(requested)).await?;
        let responded = answer.responded(turn, asked);
        self.append(NewEvent::new(responded).waiting()).await.map(drop)
    }

    /// Keeps a recording of the run, if its owner wants one.
    pub(super) async fn record(&mut self) -> Result<(), WorkError> {
        let Some(created) = self.story.view.created.clone() else { return Ok(()) };
        let Some(name) = self.recording_name() else { return Ok(()) };
        let KeptCassette { cassette, incomplete } = self.keep_cassette().await;
        let (run, events) = (self.lease.address.run.clone(), self.events.clone());
        let bytes = Recording::make(run, created, events, self.facts.clone(), cassette).await?;
        let depot = &self.worker.rooms.depot;
        let object = item(BlobRef::of(&bytes)).name;
        let file = depot.fresh(&object)?;
        let written = async {
            let mut writer = writer(&file)?;
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        let written = written.await;
        written.map_err(|source| DataError::Write { name: object.clone(), source })?;
        let kept = depot.take(&object, file).await?;
        let recording = BlobRef { sha256: kept.fingerprint, bytes: kept.bytes };
        // With the end of the run: if that is decided anew, more has to be recorded.
        let made = RecordingMade { name, recording, cassette, incomplete };
        self.append(NewEvent::new(made).waiting()).await.map(drop)
    }

    /// The name of the recording that is still to be made.
    pub(super) fn recording_name(&self) -> Option<String> {
        let view = &self.story.view;
        let wish = view.created.as_ref()?.wish.as_ref()?;
        wish.brief.record.clone().filter(|_| view.recording.is_none())
    }
}
