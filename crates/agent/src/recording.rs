//! Recordings: the model's answers in a run, kept so that the run can be replayed without a
//! model, a network or a key.
//!
//! A replay executes all code anew and gets the recorded answers. Each answer belongs to the
//! conversation that it was given to. Where the replay comes to another one, it has diverged, and
//! ends: an answer to another question proves nothing.
//!
//! Requests of the run's code to the gateway are on a cassette beside the recording. A replayed
//! sandbox gets it from there and reaches nothing else.
//!
//! The state of the budget, which is said beside results, is not compared: it depends on time.

use belljar_domain::{ModelParameters, RunId, Sequence};
use belljar_journal::event::{
    Block, Body, Budget, Event, LlmResponded, NetworkRefusal, Prompt, PromptBuilt, RunCreated,
    Tokens,
};
use belljar_journal::{BlobRef, RunView};
use belljar_objects::Digest;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::compose::compose_without_status;
use crate::data::Item;
use crate::prompt::Facts;

/// The reason with which the gateway refuses a request that is not on a cassette.
const NOT_RECORDED: &str = "not_recorded";
/// The format that this version writes and reads.
const VERSION: u32 = 1;

/// A run, as far as a replay needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    version: u32,
    pub run: RunId,
    pub model: String,
    pub prompt: Prompt,
    #[serde(default, skip_serializing_if = "ModelParameters::is_default")]
    pub parameters: ModelParameters,
    pub budget: Budget,
    #[serde(with = "time::serde::rfc3339")]
    pub now: OffsetDateTime,
    answers: Vec<RecordedAnswer>,
    /// The exchanges of the run's code with operations and hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cassette: Option<BlobRef>,
}

/// One answer, and the request that it was given to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RecordedAnswer {
    request: RequestDigests,
    built: PromptBuilt,
    last: bool,
    blocks: Vec<Block>,
    stop: String,
    tokens: Tokens,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upstream_request: Option<String>,
}

/// The parts of a request that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestDigests {
    /// Of model, parameters, tools and system prompt.
    prefix: Digest,
    /// Of the messages.
    messages: Digest,
}

/// Bytes that are no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("the recording cannot be read")]
    Json(#[from] serde_json::Error),
    #[error("the task that makes the recording ended early")]
    Task(#[from] tokio::task::JoinError),
    #[error("the recording has the format {0}, which this version does not know")]
    Version(u32),
}

/// The point at which a replay left its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Divergence {
    #[error("the replay diverged at turn {turn}: the recording ends before it")]
    End { turn: u32 },
    #[error(
        "the replay diverged at turn {turn}: the model, its parameters, instructions, skills, \
         network or the data differ from the recorded ones"
    )]
    Prefix { turn: u32 },
    #[error("the replay diverged at its beginning: the question, the time or the budget differs")]
    Question,
    #[error(
        "the replay diverged at turn {turn}: the code made a request through the gateway that is \
         not on the recording"
    )]
    Request { turn: u32 },
    #[error(
        "the replay diverged at turn {turn}: the results of calls or the messages before it differ \
         from the recorded ones"
    )]
    Results { turn: u32 },
}

impl Recording {
    /// Makes the bytes of a recording on a thread of its own: the conversation is composed once
    /// for each prompt, and other runs need this thread.
    pub(crate) async fn make(
        run: RunId,
        created: RunCreated,
        events: Vec<Event>,
        facts: Facts,
        cassette: Option<BlobRef>,
    ) -> Result<Vec<u8>, RecordingError> {
        let making = move || {
            let answers = Self::of(&run, &created, &events, &facts);
            Self { cassette, ..answers }.to_bytes()
        };
        tokio::task::spawn_blocking(making).await?
    }

    /// Makes a recording of a run from its events.
    fn of(run: &RunId, created: &RunCreated, events: &[Event], facts: &Facts) -> Self {
        let parameters = created.wish.as_ref().map(|wish| wish.brief.parameters);
        let parameters = parameters.unwrap_or_default();
        let mut answers = Vec::new();
        let mut request: Option<(RequestDigests, PromptBuilt)> = None;
        let mut last = false;
        for (at, event) in events.iter().enumerate() {
            match &event.body {
                Body::PromptBuilt(built) => {
                    let digests = RequestDigests::of(&events[..at], facts);
                    request = Some((digests, built.clone()));
                }
                Body::LlmRequested(requested) => last = requested.last,
                Body::LlmResponded(answer) => {
                    let Some((request, built)) = request.take() else { continue };
                    answers.push(RecordedAnswer {
                        request,
                        built,
                        last,
                        blocks: answer.blocks.clone(),
                        stop: answer.stop.clone(),
                        tokens: answer.tokens,
                        upstream_request: answer.upstream_request.clone(),
                    });
                }
                _ => {}
            }
        }
        Self {
            version: VERSION,
            run: run.clone(),
            model: created.model.clone(),
            prompt: created.prompt.clone(),
            parameters,
            budget: created.budget,
            now: created.now,
            answers,
            cassette: None,
        }
    }

    fn to_bytes(&self) -> Result<Vec<u8>, RecordingError> {
        Ok(serde_json::to_vec(self)?)
    }

    pub fn read(bytes: &[u8]) -> Result<Self, RecordingError> {
        #[derive(Deserialize)]
        struct Format {
            version: u32,
        }
        let Format { version } = serde_json::from_slice(bytes)?;
        if version != VERSION {
            return Err(RecordingError::Version(version));
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Finds the answer of a turn, if the request is the one that it was given to.
    pub(crate) fn answer(
        &self,
        turn: u32,
        request: RequestDigests,
    ) -> Result<ReplayedAnswer<'_>, Divergence> {
        let index = (turn as usize).checked_sub(1);
        let answer = index.and_then(|index| self.answers.get(index));
        let answer = answer.ok_or(Divergence::End { turn })?;
        if answer.request.prefix != request.prefix {
            return Err(Divergence::Prefix { turn });
        }
        if answer.request.messages != request.messages {
            return Err(match turn {
                1 => Divergence::Question,
                turn => Divergence::Results { turn },
            });
        }
        Ok(ReplayedAnswer(answer))
    }
}

/// A recorded answer whose request has come again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplayedAnswer<'r>(&'r RecordedAnswer);

impl ReplayedAnswer<'_> {
    /// The prompt as it was sent when the run was recorded.
    pub(crate) fn built(&self, turn: u32) -> PromptBuilt {
        PromptBuilt { turn, ..self.0.built.clone() }
    }

    pub(crate) fn is_last(&self) -> bool {
        self.0.last
    }

    /// The answer, at no cost.
    pub(crate) fn responded(&self, turn: u32, asked: Sequence) -> LlmResponded {
        let RecordedAnswer { blocks, stop, tokens, upstream_request, .. } = self.0.clone();
        LlmResponded {
            turn,
            asked,
            blocks,
            stop,
            tokens,
            nano_dollars: 0,
            assumed: false,
            upstream_request,
            raw: None,
            first_token_micros: None,
            micros: 0,
        }
    }
}

impl RequestDigests {
    /// Digests the request that follows these events.
    pub(crate) fn of(events: &[Event], facts: &Facts) -> Self {
        let view = RunView::of(events);
        let wish = view.created.as_ref().and_then(|created| created.wish.as_ref());
        let parameters = wish.map(|wish| wish.brief.parameters).unwrap_or_default();
        let conversation = compose_without_status(events, facts);
        let prefix = (&view.model, parameters, &conversation.tools, &conversation.system);
        Self { prefix: digest(&prefix), messages: digest(&conversation.messages) }
    }
}

/// Finds the first request of the code that a replay refused because it is not on the recording.
pub(crate) fn unrecorded(events: &[Event]) -> Option<Divergence> {
    events.iter().find_map(|event| match &event.body {
        Body::NetworkUsed(used) => {
            let is_missing = |refusal: &NetworkRefusal| refusal.reason == NOT_RECORDED;
            let turn = used.call.turn;
            used.refusals.iter().any(is_missing).then_some(Divergence::Request { turn })
        }
        _ => None,
    })
}

/// None of these types can fail to be JSON; if one did, nothing would be the same as it.
fn digest(value: &impl Serialize) -> Digest {
    Digest::of(&serde_json::to_vec(value).unwrap_or_default())
}

/// The object of a recording, as a depot names it.
pub(crate) fn item(recording: BlobRef) -> Item {
    let BlobRef { sha256: fingerprint, bytes } = recording;
    Item { name: "recording".to_owned(), fingerprint, bytes }
}

/// The object of a recording's cassette.
pub(crate) fn cassette_item(cassette: BlobRef) -> Item {
    Item { name: "cassette".to_owned(), ..item(cassette) }
}

#[cfg(test)]
mod tests;
