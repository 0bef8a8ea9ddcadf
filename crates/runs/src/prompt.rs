//! The prompt of one turn, made again from the log.
//!
//! Prompts are not stored: each one repeats what came before, so that a run of many turns would
//! store its beginning as often. The log and the versioned texts make the same prompt again.

use belljar_agent::{Facts, Texts, compose};
use belljar_journal::event::Body;
use belljar_journal::{Address, BlobError, BlobRef, ReadError, RunView, read_all};
use belljar_objects::Digest;
use belljar_provider::Conversation;

use crate::Runs;

/// All that the model was told in one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnPrompt {
    /// Digest and length of the request's body.
    pub sha256: Digest,
    pub bytes: u64,
    pub conversation: Conversation,
}

/// The reason that there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error("the run has asked the model for no turn {0}")]
    NoTurn(u32),
    #[error("cannot read the run")]
    Read(#[from] ReadError),
    #[error("this version does not have the texts of the run")]
    NoTexts,
    #[error("cannot read the description of the run's data")]
    Description(#[from] BlobError),
}

impl Runs {
    /// The prompt of a turn; of one that was asked for several times, the last.
    pub async fn prompt(&self, run: &Address, turn: u32) -> Result<TurnPrompt, PromptError> {
        let events = read_all(&**self.journal(), run).await?;
        let built = events.iter().enumerate().rev().find_map(|(at, event)| match &event.body {
            Body::PromptBuilt(built) if built.turn == turn => Some((at, built)),
            _ => None,
        });
        let (at, built) = built.ok_or(PromptError::NoTurn(turn))?;
        let view = RunView::of(&events[..at]);
        let texts = view.prompt.as_ref().and_then(Texts::of).ok_or(PromptError::NoTexts)?;
        let mut blobs: Vec<BlobRef> = Vec::new();
        let datasets = view.created.iter().flat_map(|created| &created.datasets);
        for blob in datasets.filter_map(|dataset| dataset.description) {
            if !blobs.contains(&blob) {
                blobs.push(blob);
            }
        }
        let mut data = String::new();
        for blob in &blobs {
            // The worker stored it with the run before it asked for the first turn.
            let text = self.journal().get_blob(run, blob).await?;
            data.push_str(&String::from_utf8_lossy(&text));
        }
        let conversation = compose(&events[..at], &Facts::of(texts, &view, data));
        Ok(TurnPrompt { sha256: built.sha256, bytes: built.bytes, conversation })
    }
}
