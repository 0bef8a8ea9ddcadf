//! `belljar runs show`: what happened, and what each turn took.

use belljar_domain::RunId;
use belljar_journal::event::{Body, Event};
use belljar_journal::{Address, Directory, Journal as _, ReadError, RunView, read_all};
use serde::{Serialize, Serializer};

use super::teller::{Detail, Teller, dollars, millis, seconds};
use crate::output::{Hint as _, Printer, printable};
use crate::page::Page;

/// What one turn took.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Turn {
    pub(super) turn: u32,
    #[serde(rename = "model_ms", serialize_with = "as_millis")]
    pub(super) model_micros: u64,
    /// Time of calls, as the sandbox counted it.
    #[serde(rename = "call_ms", serialize_with = "as_millis")]
    pub(super) call_micros: u64,
    #[serde(rename = "cpu_ms", serialize_with = "as_millis")]
    pub(super) cpu_micros: u64,
    #[serde(rename = "peak_memory_bytes")]
    pub(super) peak_bytes: u64,
    pub(super) output_bytes: u64,
    pub(super) tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) nano_dollars: u64,
    pub(super) prompt_bytes: u64,
    /// How much of the prompt the turn before had sent already.
    pub(super) shared_prefix_bytes: u64,
    /// Between the model's answer and the next request to it.
    #[serde(rename = "outside_ms", serialize_with = "as_optional_millis")]
    pub(super) outside_micros: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn as_millis<S: Serializer>(micros: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(millis(*micros))
}

fn as_optional_millis<S: Serializer>(
    micros: &Option<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    micros.map(millis).serialize(serializer)
}

pub(super) async fn show(
    journal: &Directory,
    address: &Address,
    page: Option<Page>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let events = read_all(journal, address).await.hint("`belljar runs list` shows runs")?;
    let turns = turns(&events);
    let next = next_attempt(journal, address).await?;
    if printer.is_json() {
        let view = RunView::of(&events);
        let state = view.state().map(belljar_journal::State::as_str);
        let environment = view.given.unwrap_or(view.environment);
        let document = serde_json::json!({
            "id": address.run, "run": address.run, "state": state, "environment": environment,
            "network": view.network,
            "turns": turns, "finished": view.finished, "retry": view.retry, "next_attempt": next,
        });
        return printer.document(&document);
    }
    let mut teller = Teller::new(Detail::Full, page);
    for event in &events {
        if let Some(text) = teller.tell(event) {
            printer.data(printable(&text))?;
        }
    }
    if let Some(next) = next {
        printer.data(format_args!("retried as {next}"))?;
    }
    printer.data("\nturn     model      code       CPU    memory     output   tokens      cost")?;
    for turn in &turns {
        printer.data(format_args!(
            "{:>4}  {:>8}  {:>8}  {:>8}  {:>5} MB  {:>8} B  {:>7}  {:>8}",
            turn.turn,
            seconds(turn.model_micros),
            seconds(turn.call_micros),
            seconds(turn.cpu_micros),
            turn.peak_bytes >> 20,
            turn.output_bytes,
            turn.tokens,
            dollars(turn.nano_dollars),
        ))?;
    }
    Ok(())
}

/// The run that was made because this one was not enough.
async fn next_attempt(journal: &Directory, address: &Address) -> anyhow::Result<Option<RunId>> {
    let next = Address { run: belljar_agent::next_attempt(&address.run), ..address.clone() };
    match journal.find(&next).await {
        Ok(row) => Ok(Some(row.address.run)),
        Err(ReadError::NoRun) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sums by turn.
pub(super) fn turns(events: &[Event]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut answered = None;
    for event in events {
        let number = match &event.body {
            Body::PromptBuilt(built) => built.turn,
            Body::LlmRequested(asked) => asked.turn,
            Body::LlmResponded(answer) => answer.turn,
            Body::LlmFailed(failed) => failed.turn,
            Body::ToolFinished(finished) => finished.call.turn,
            _ => continue,
        };
        if let Body::LlmRequested(_) = &event.body
            && let (Some(at), Some(last)) =
                (answered.take(), turns.iter_mut().rev().find(|it| it.turn < number))
        {
            let passed: time::Duration = event.at - at;
            last.outside_micros = u64::try_from(passed.whole_microseconds()).ok();
        }
        if turns.last().is_none_or(|last| last.turn != number) {
            turns.push(Turn { turn: number, ..Turn::default() });
        }
        let Some(turn) = turns.last_mut() else { continue };
        match &event.body {
            Body::PromptBuilt(built) => {
                turn.prompt_bytes = built.bytes;
                turn.shared_prefix_bytes = built.shared_prefix_bytes;
            }
            Body::LlmResponded(answer) => {
                turn.model_micros += answer.micros;
                turn.tokens += answer.tokens.total();
                turn.cached_tokens += answer.tokens.cache_read;
                turn.nano_dollars += answer.nano_dollars;
                answered = Some(event.at);
            }
            Body::LlmFailed(failed) => {
                turn.model_micros += failed.micros;
                turn.nano_dollars += failed.nano_dollars;
            }
            Body::ToolFinished(finished) => {
                let used = &finished.used;
                turn.call_micros += used.wall_micros;
                turn.cpu_micros += used.cpu_micros;
                turn.output_bytes += used.output_bytes;
                turn.peak_bytes = turn.peak_bytes.max(used.peak_bytes.unwrap_or(0));
            }
            _ => {}
        }
    }
    turns
}
