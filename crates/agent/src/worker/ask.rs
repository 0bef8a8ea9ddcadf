//! Asks the model.

use std::time::{Duration, Instant};

use belljar_domain::{ModelParameters, Sequence};
use belljar_journal::event::{
    Block, Body, Event, Limit, LlmFailed, LlmRequested, LlmResponded, LlmTrouble, PromptBuilt,
};
use belljar_journal::{NewEvent, STAGE_CALL_PREFIX};
use belljar_objects::Digest;
use belljar_provider::{Answer, AnswerError, Delta, Options, ToolChoice};

use super::{Work, WorkError, chain};
use crate::answer::{kept, stop};
use crate::compose::compose;
use crate::money::tokens;
use crate::pipeline::Pipeline;
use crate::words::Joiner;

/// What a last answer may take when the time of the run is over.
const GRACE: Duration = Duration::from_secs(60);
/// With less, an answer is not worth asking for.
const LEAST_OUTPUT: u64 = 1024;
/// Bytes that a turn usually adds to the conversation.
const GROWTH: u64 = 8 << 10;

impl Work<'_> {
    pub(super) async fn ask(&self, turn: u32, attempt: u32, last: bool) -> Result<(), WorkError> {
        let conversation = compose(&self.events, &self.facts);
        let mut options = self.options(last);
        let body = self.worker.provider.written(&conversation, &options);
        if !self.affords(&mut options, body.len() as u64, last) {
            let money = self.clause(Limit::Money).map(|money| money.hit(turn));
            return match money {
                Some(hit) => self.append(NewEvent::new(hit)).await.map(drop),
                None => Ok(()),
            };
        }
        let body = self.worker.provider.written(&conversation, &options);
        self.note_bounded_output(turn, &options).await?;
        let built = PromptBuilt {
            turn,
            sha256: Digest::of(&body),
            bytes: body.len() as u64,
            cache_breakpoints: Vec::new(),
            shared_prefix_bytes: self.shared_with_the_last(turn, &options, &body),
        };
        let prompt = built.sha256;
        self.append(NewEvent::new(built).waiting()).await?;
        let model = self.asked_model();
        let bytes = body.len() as u64;
        let reservation = self.worker.prices.reserved(&model, bytes, options.max_output);
        let requested = LlmRequested { turn, attempt, model, prompt, reservation, last };
        let asked = self.append(NewEvent::new(requested)).await?;
        let begin = Instant::now();
        let mut first = None;
        let listener = self.worker.listener.as_deref();
        let mut joiner = Joiner::new(listener, &self.lease.address, turn);
        let mut on_delta = |delta: Delta<'_>| {
            first.get_or_insert_with(|| micros(begin.elapsed()));
            joiner.add(&delta);
        };
        let answering = self.worker.provider.answer(&conversation, &options, &mut on_delta);
        let answered = tokio::time::timeout(self.patience(), answering).await;
        joiner.pass();
        let took = micros(begin.elapsed());
        let mut deviated = Vec::new();
        let body: Body = match answered {
            Ok(Ok(answer)) => {
                deviated = self.deviated(turn, answer.applied.deviations(&options));
                let responded = self.responded(turn, asked, &answer, first, took);
                self.keep_answer(prompt, &responded, &deviated).await;
                responded.into()
            }
            Ok(Err(error)) => {
                let message = chain(&error);
                let nano_dollars = cost_of_failure(Some(&error), reservation);
                let trouble = trouble(&error);
                LlmFailed { turn, asked, trouble, message, nano_dollars, micros: took }.into()
            }
            Err(_) => {
                let message = "the model did not answer within the time that there was".to_owned();
                let nano_dollars = cost_of_failure(None, reservation);
                let trouble = LlmTrouble::Broken;
                LlmFailed { turn, asked, trouble, message, nano_dollars, micros: took }.into()
            }
        };
        // The model is not asked again, and no call begun, before the next that waits.
        self.append(NewEvent::new(body).waiting()).await?;
        self.write_deviations(deviated).await
    }

    fn options(&self, last: bool) -> Options {
        let ModelParameters { temperature, effort, output_tokens } = self.brief.parameters;
        let most = output_tokens.map_or(self.worker.settings.max_output, u64::from);
        let mut options = Options::new(self.asked_model(), most);
        (options.temperature, options.effort) = (temperature, effort);
        options.tools = if last { ToolChoice::None } else { ToolChoice::Auto };
        options.cache_key = Some(self.lease.address.run.to_string());
        options
    }

    /// Bounds an answer by what is left of the money. False: that is kept for the last
    /// one, which is asked for now.
    ///
    /// The gateway lets a request pass only if the most that it can cost is left, and
    /// what it does cost is some of that. So a turn must leave enough for one more.
    fn affords(&self, options: &mut Options, bytes: u64, last: bool) -> bool {
        let Some(left) = self.left(Limit::Money) else { return true };
        let prices = &self.worker.prices;
        let Some(most) = prices.affords(&options.model, bytes, left) else { return true };
        options.max_output = options.max_output.min(most.max(LEAST_OUTPUT));
        let later = left.saturating_sub(self.story.dearest);
        let later = prices.affords(&options.model, bytes + GROWTH, later);
        last || later.is_some_and(|output| output >= LEAST_OUTPUT)
    }

    /// How much of this prompt is the beginning of the turn before's.
    fn shared_with_the_last(&self, turn: u32, options: &Options, body: &[u8]) -> u64 {
        let earlier = |event: &Event| match &event.body {
            Body::PromptBuilt(built) => built.turn < turn,
            _ => false,
        };
        let Some(at) = self.events.iter().rposition(earlier) else { return 0 };
        let conversation = compose(&self.events[..at], &self.facts);
        let options = Options { tools: ToolChoice::Auto, ..options.clone() };
        let before = self.worker.provider.written(&conversation, &options);
        before.iter().zip(body).take_while(|(one, other)| one == other).count() as u64
    }

    fn responded(
        &self,
        turn: u32,
        asked: Sequence,
        answer: &Answer,
        first_token_micros: Option<u64>,
        micros: u64,
    ) -> LlmResponded {
        let usage = answer.usage.unwrap_or_default();
        let wasted = answer.retries.iter().filter_map(|retry| retry.usage);
        let usage = wasted.fold(usage, belljar_llm::Usage::plus);
        let model = self.asked_model();
        let names = [answer.model.as_deref().unwrap_or(&model), model.as_str()];
        let is_free = usage == belljar_llm::Usage::default();
        let cost = self.worker.prices.cost(&names, &usage);
        LlmResponded {
            turn,
            asked,
            blocks: answer.blocks.iter().filter_map(kept).map(own_id).collect(),
            stop: stop(&answer.stop),
            tokens: tokens(&usage),
            nano_dollars: cost.unwrap_or(0),
            assumed: answer.usage.is_none() || (cost.is_none() && !is_free),
            upstream_request: answer.id.clone(),
            raw: None,
            first_token_micros,
            micros,
        }
    }

    /// The model that is asked: the run's, or that of the pipeline's agent.
    fn asked_model(&self) -> String {
        let of_role = self.pipeline().and_then(Pipeline::model);
        of_role.unwrap_or(&self.story.view.model).to_owned()
    }

    /// How long the model may take: what is left of the run's time, and a little to
    /// come to an end.
    fn patience(&self) -> Duration {
        let most = self.worker.settings.model_time;
        self.time_left().map_or(most, |left| most.min(left + GRACE))
    }
}

/// Calls that no model made have ids of ours: a model's own is another one.
fn own_id(mut block: Block) -> Block {
    if let Block::ToolUse { id, .. } = &mut block
        && id.starts_with(STAGE_CALL_PREFIX)
    {
        *id = format!("model-{id}");
    }
    block
}

/// The cost of a request that brought no answer; no error: the time was over. The gateway charges
/// its reservation for one that was passed on, and nothing for one that was refused.
fn cost_of_failure(error: Option<&AnswerError>, reservation: Option<u64>) -> u64 {
    if error.is_none_or(AnswerError::may_cost) { reservation.unwrap_or(0) } else { 0 }
}

fn trouble(error: &AnswerError) -> LlmTrouble {
    match error {
        AnswerError::OutOfBudget { .. } => LlmTrouble::OutOfBudget,
        AnswerError::Invalid(_) | AnswerError::Refused(_) => LlmTrouble::Refused,
        AnswerError::Unusable(_) => LlmTrouble::Broken,
        AnswerError::GaveUp { .. } => LlmTrouble::Overloaded,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use belljar_provider::Failure;

    use super::*;

    #[test]
    fn a_request_that_was_sent_in_vain_costs_its_reservation() {
        let refused = || Failure::Status {
            status: 429,
            kind: "rate_limit_error".to_owned(),
            message: String::new(),
            retry_after: None,
            should_retry: None,
        };
        let slow = || Failure::Slow(Duration::from_secs(9));
        let costs = [
            (None, 500),
            (Some(AnswerError::Unusable(slow())), 500),
            (Some(AnswerError::GaveUp { attempts: 2, last: Failure::Truncated }), 500),
            (Some(AnswerError::GaveUp { attempts: 2, last: refused() }), 0),
            (Some(AnswerError::Refused(refused())), 0),
            (Some(AnswerError::OutOfBudget { message: String::new() }), 0),
        ];
        for (error, cost) in costs {
            assert_eq!(cost_of_failure(error.as_ref(), Some(500)), cost, "{error:?}");
            assert_eq!(cost_of_failure(error.as_ref(), None), 0, "{error:?}");
        }
    }
}
