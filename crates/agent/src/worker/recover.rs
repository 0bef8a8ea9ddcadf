//! Answers that arrived and whose event was not written: they are used, and not bought again.

use std::time::Duration;

use belljar_domain::Sequence;
use belljar_journal::event::{LlmFailed, LlmResponded, LlmTrouble, ParameterDeviated};
use belljar_journal::{Address, Asked, Body, NewEvent};
use belljar_objects::Digest;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Work, WorkError};

/// The looks for an answer that another process may share, before the one at the end of the grace.
/// Answers are shared from two seconds on; after an outage, many runs are taken over at once.
const EARLY_LOOKS: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(2500)];

/// An answer on its way from the model to its event.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAnswer {
    /// The digest of the prompt that it answers.
    prompt: Digest,
    responded: LlmResponded,
    #[serde(default)]
    deviated: Vec<ParameterDeviated>,
}

impl Work<'_> {
    /// Keeps an answer where it outlives this process, until its event is written. If it cannot be
    /// kept, it is lost only with the worker.
    pub(super) async fn keep_answer(
        &self,
        prompt: Digest,
        responded: &LlmResponded,
        deviated: &[ParameterDeviated],
    ) {
        let (responded, deviated) = (responded.clone(), deviated.to_vec());
        let asked = responded.asked;
        let run = &self.lease.address;
        let Ok(text) = serde_json::to_vec(&KeptAnswer { prompt, responded, deviated }) else {
            return;
        };
        if let Err(error) = self.worker.journal.keep_answer(run, asked, text).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, run.id = %run.run, "cannot keep an answer of a model");
        }
        belljar_fault::point_at("run", "answer_kept");
    }

    /// Removes kept answers: their events are written. One that stays is removed later.
    pub(super) async fn forget_answers(&self, asked: &[Sequence]) {
        let run = &self.lease.address;
        for asked in asked {
            if let Err(error) = self.worker.journal.forget_answer(run, *asked).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, run.id = %run.run, "cannot remove a kept answer of a model");
            }
        }
    }

    /// Settles a request whose worker died: with its answer, if that was kept; else it is lost.
    pub(super) async fn recover(&self, asked: &Asked) -> Result<(), WorkError> {
        let Some(KeptAnswer { responded, deviated, .. }) = self.kept_answer(asked).await? else {
            let failed = LlmFailed {
                turn: asked.turn,
                asked: asked.seq,
                trouble: LlmTrouble::Lost,
                message: "the worker died before it recorded the answer".to_owned(),
                // The provider may have answered: the request counts as the most it can cost.
                nano_dollars: asked.reservation.unwrap_or(0),
                micros: 0,
            };
            return self.append(NewEvent::new(failed)).await.map(drop);
        };
        let run = &self.lease.address.run;
        tracing::info!(run.id = %run, turn = asked.turn, "answer of a model recovered");
        self.append(NewEvent::new(responded).waiting()).await?;
        self.write_deviations(deviated).await
    }

    /// Waits for the answer for as long as another process may need to share it.
    async fn kept_answer(&self, asked: &Asked) -> Result<Option<KeptAnswer>, WorkError> {
        let (journal, run) = (&self.worker.journal, &self.lease.address);
        let begin = Instant::now();
        let mut looks = looks(journal.answer_grace()).into_iter();
        loop {
            if let Some(text) = journal.kept_answer(run, asked.seq).await? {
                return Ok(self.answer_to(asked, &text));
            }
            let Some(look) = looks.next() else { return Ok(None) };
            tokio::time::sleep_until(begin + look + jitter(run)).await;
        }
    }

    /// Reads a kept answer; none if it is damaged, or answers another request.
    fn answer_to(&self, asked: &Asked, text: &[u8]) -> Option<KeptAnswer> {
        let request = self.events.iter().find(|event| event.seq == asked.seq);
        let prompt = request.and_then(|event| match &event.body {
            Body::LlmRequested(requested) => Some(requested.prompt),
            _ => None,
        });
        let kept = read(text, asked, prompt);
        if kept.is_none() {
            let run = &self.lease.address.run;
            tracing::warn!(run.id = %run, turn = asked.turn, "kept answer of a model not usable");
        }
        kept
    }
}

/// The times of all looks but the first one, which is at once.
fn looks(grace: Duration) -> Vec<Duration> {
    let last = (!grace.is_zero()).then_some(grace);
    EARLY_LOOKS.into_iter().filter(|look| *look < grace).chain(last).collect()
}

/// Up to a quarter of a second, by the run: runs that were lost together do not look together.
fn jitter(run: &Address) -> Duration {
    let digest = Digest::of(run.run.as_str().as_bytes());
    Duration::from_millis(digest.as_bytes()[0].into())
}

fn read(text: &[u8], asked: &Asked, prompt: Option<Digest>) -> Option<KeptAnswer> {
    let kept: KeptAnswer = serde_json::from_slice(text).ok()?;
    let is_of_request = kept.responded.asked == asked.seq
        && kept.responded.turn == asked.turn
        && Some(kept.prompt) == prompt;
    is_of_request.then_some(kept)
}

#[cfg(test)]
mod tests {
    use belljar_journal::event::{Block, Tokens};

    use super::*;

    #[test]
    fn an_answer_is_looked_for_four_times_until_the_grace_ends() {
        let seconds = |grace| -> Vec<f64> {
            looks(Duration::from_secs(grace)).iter().map(Duration::as_secs_f64).collect()
        };
        assert_eq!(seconds(4), [1.0, 2.5, 4.0]);
        assert_eq!(seconds(1), [1.0]);
        // All answers are in one place: the look at once is enough.
        assert_eq!(seconds(0), [0.0; 0]);
    }

    #[test]
    fn an_answer_is_used_for_its_own_request_alone() {
        let prompt = Digest::of(b"prompt");
        let responded = LlmResponded {
            turn: 2,
            asked: Sequence(9),
            blocks: vec![Block::Text { text: "Two.".to_owned() }],
            stop: "end".to_owned(),
            tokens: Tokens { input: 10, output: 3, ..Tokens::default() },
            nano_dollars: 5,
            assumed: false,
            upstream_request: Some("msg_1".to_owned()),
            raw: None,
            first_token_micros: Some(7),
            micros: 8,
        };
        let kept = KeptAnswer { prompt, responded: responded.clone(), deviated: Vec::new() };
        let text = serde_json::to_vec(&kept).unwrap();
        let asked = |seq, turn| Asked { seq: Sequence(seq), turn, attempt: 1, reservation: None };
        let found = read(&text, &asked(9, 2), Some(prompt)).unwrap();
        assert_eq!(found.responded, responded);
        assert!(read(&text, &asked(8, 2), Some(prompt)).is_none());
        assert!(read(&text, &asked(9, 3), Some(prompt)).is_none());
        assert!(read(&text, &asked(9, 2), Some(Digest::of(b"another"))).is_none());
        assert!(read(&text, &asked(9, 2), None).is_none());
        // A file that was torn by a power loss.
        assert!(read(&text[..text.len() - 1], &asked(9, 2), Some(prompt)).is_none());
        assert!(read(&vec![0; text.len()], &asked(9, 2), Some(prompt)).is_none());
    }
}
