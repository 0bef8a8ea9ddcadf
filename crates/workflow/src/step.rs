//! Executes one attempt at a step. Everything that it asks for bears a key of the attempt, so an
//! attempt that is executed again after a crash finds its run or its sandbox, and its call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_api::bounds::{Count, Name, OutOfBounds, Seconds, Text};
use belljar_api::data::{NoSha256, Sha256 as Sha256Digits};
use belljar_api::run::{Run, RunData, RunOutcome};
use belljar_api::sandbox::CreateSandbox;
use belljar_client::{Client, Command, Error, Key, Outcome, RunWish};
use belljar_domain::{EndReason, Question};
use bytes::Bytes;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot, watch};

use crate::definition::{CallStep, Step, StepKind};
use crate::expression::Expression;
use crate::memory;
use crate::record::{
    AttemptKey, AttemptOutcome, AttemptUsage, Event, FileRef, Outputs, StepEnded, StepStarted,
};
use crate::resolve::{Datum, Item, MAX_VALUE_BYTES, items, resolve, size, text};
use crate::service::{FileStore, MAX_FILE_BYTES};
use crate::state::{Attempt, State};

/// The longest answer that is kept.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// The end of a failed call's error output, for the message.
const MAX_ERROR_BYTES: usize = 2000;
const FIRST_POLL: Duration = Duration::from_millis(100);
const LAST_POLL: Duration = Duration::from_secs(2);
/// Time that a sandbox has for its files, besides its call.
const SLACK: Duration = Duration::from_secs(300);
/// Time to find a run that may have been created, after the workflow was stopped.
const RECALL_TIME: Duration = Duration::from_secs(30);
/// Time of a call that names none.
const DEFAULT_CALL_TIME: Duration = Duration::from_secs(600);

/// A message of an attempt to its workflow's worker, which answers once the event is recorded.
pub(crate) struct Message {
    pub(crate) event: Event,
    pub(crate) recorded: oneshot::Sender<()>,
}

/// Everything that an attempt needs.
pub(crate) struct Work {
    pub(crate) workflow: String,
    pub(crate) tenant: String,
    pub(crate) client: Client,
    pub(crate) files: std::sync::Arc<dyn FileStore>,
    pub(crate) step: Step,
    pub(crate) attempt: Attempt,
    pub(crate) inputs: Result<BTreeMap<String, Datum>, String>,
    pub(crate) messages: mpsc::Sender<Message>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// The reason that an attempt did not succeed.
#[derive(Debug)]
pub(crate) enum StepFailure {
    /// Its sandbox is gone.
    Lost(String),
    Error(String),
    Cancelled,
    /// The worker is gone. Another one goes on.
    Abandoned,
}

impl StepFailure {
    fn of(error: &Error) -> Self {
        let reason = match error {
            Error::Problem(problem) => problem.to_string(),
            other => other.to_string(),
        };
        match error.code() {
            Some("sandbox_gone" | "sandbox_not_found") => Self::Lost(reason),
            _ if matches!(error, Error::SandboxGone) => Self::Lost(reason),
            _ => Self::Error(reason),
        }
    }
}

type StepProduct = (Outputs, AttemptUsage);

/// The data of an item's inputs.
pub(crate) fn inputs(
    state: &State,
    step: &Step,
    started: &StepStarted,
) -> Result<BTreeMap<String, Datum>, String> {
    let index = started.key.item;
    let item = match &step.for_each {
        None => None,
        Some(list) => {
            let value = items(state, list)?.into_iter().nth(index);
            Some(Item { index, value: value.ok_or("the list has changed")? })
        }
    };
    let mut inputs = BTreeMap::new();
    let mut bytes = 0;
    for (name, reference) in &step.inputs {
        let expression: Expression = reference.parse().map_err(|error| format!("{error}"))?;
        let datum = resolve(state, &expression, item.as_ref());
        let datum = datum.map_err(|error| format!("input `{name}`: {error}"))?;
        if let Datum::Value(value) = &datum {
            bytes += size(value);
        }
        if bytes > MAX_VALUE_BYTES {
            return Err(format!(
                "the values of all inputs are longer than {MAX_VALUE_BYTES} bytes; use files"
            ));
        }
        inputs.insert(name.clone(), datum);
    }
    Ok(inputs)
}

/// Asks until it is done or refused. What bears a key, or only reads, may be asked for again.
async fn insist<T, F: Future<Output = Result<T, Error>>>(
    stop: &mut watch::Receiver<bool>,
    ask: impl Fn() -> F,
) -> Result<T, StepFailure> {
    let mut pause = FIRST_POLL;
    loop {
        match ask().await {
            Ok(value) => return Ok(value),
            Err(error) if error.outcome() == Outcome::Refused => {
                return Err(StepFailure::of(&error));
            }
            Err(error) => tracing::debug!(%error, "workflow step request failed, will be retried"),
        }
        rest(stop, pause).await?;
        pause = LAST_POLL.min(pause * 2);
    }
}

async fn rest(stop: &mut watch::Receiver<bool>, pause: Duration) -> Result<(), StepFailure> {
    let stopped = async { stop.wait_for(|is| *is).await.is_ok() };
    tokio::select! {
        is_told = stopped => {
            Err(if is_told { StepFailure::Cancelled } else { StepFailure::Abandoned })
        }
        () = tokio::time::sleep(pause) => Ok(()),
    }
}

impl Work {
    /// Executes the attempt and reports its end.
    pub(crate) async fn execute(mut self) {
        let done = match self.inputs.clone() {
            Err(error) => Err((StepFailure::Error(error), StepProduct::default())),
            Ok(inputs) => match self.step.kind {
                StepKind::Run => Box::pin(self.run(inputs)).await,
                StepKind::Call => Box::pin(self.call(inputs)).await,
            },
        };
        let (outcome, error, (outputs, used)) = match done {
            Ok(made) => (AttemptOutcome::Done, None, made),
            Err((StepFailure::Abandoned, _)) => return,
            Err((StepFailure::Error(error), made)) => (AttemptOutcome::Failed, Some(error), made),
            Err((StepFailure::Lost(error), made)) => (AttemptOutcome::Lost, Some(error), made),
            Err((StepFailure::Cancelled, made)) => (AttemptOutcome::Cancelled, None, made),
        };
        let key = self.attempt.started.key.clone();
        let ended = bounded_end(StepEnded { key, outcome, error, outputs, used });
        if self.report(Event::StepEnded(ended)).await.is_ok()
            && let (StepKind::Call, Some(id)) = (self.step.kind, &self.attempt.id)
        {
            // One that is not ended here ends at its deadline.
            let _ = self.client.sandbox(id).end().await;
        }
    }

    async fn report(&self, event: Event) -> Result<(), StepFailure> {
        let (recorded, heard) = oneshot::channel();
        let message = Message { event, recorded };
        self.messages.send(message).await.map_err(|_| StepFailure::Abandoned)?;
        heard.await.map_err(|_| StepFailure::Abandoned)
    }

    /// Records the run or the sandbox of the attempt.
    async fn place(&mut self, id: &str) -> Result<(), StepFailure> {
        if self.attempt.id.is_none() {
            let key = self.attempt.started.key.clone();
            self.report(Event::StepPlaced { key, id: id.to_owned() }).await?;
            self.attempt.id = Some(id.to_owned());
        }
        Ok(())
    }

    /// The idempotency key of one request of this attempt.
    fn key(&self, part: &str) -> Result<Key, StepFailure> {
        let AttemptKey { step, item, attempt } = &self.attempt.started.key;
        let text = format!("{}\n{step}\n{item}\n{attempt}\n{part}", self.workflow);
        let digest = Sha256::digest(text.as_bytes());
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("wf-{digits}")
            .parse()
            .map_err(|_| StepFailure::Error("no idempotency key".to_owned()))
    }

    fn grown_memory(&self, memory: u64) -> u64 {
        let grown = self.attempt.started.grown;
        self.step.retry.memory.map_or(memory, |factor| factor.grow(memory, grown))
    }

    async fn kept(&self, name: String, content: Bytes) -> Result<(String, FileRef), StepFailure> {
        let bytes = content.len() as u64;
        let sha256 = self.files.put(&self.tenant, content).await;
        let sha256 =
            sha256.map_err(|error| StepFailure::Error(format!("file `{name}`: {error}")))?;
        Ok((name, FileRef { sha256, bytes }))
    }

    async fn run(
        &mut self,
        inputs: BTreeMap<String, Datum>,
    ) -> Result<StepProduct, (StepFailure, StepProduct)> {
        let nothing = |failed| (failed, StepProduct::default());
        let made = self.make_run(inputs).await.map_err(nothing)?;
        self.place(&made.id).await.map_err(nothing)?;
        let run = self.run_ended(&made.id).await.map_err(nothing)?;
        let used = AttemptUsage { tokens: run.used.tokens, nano_dollars: run.used.nano_dollars };
        let outputs = self.run_outputs(&run).await;
        let outputs = outputs.map_err(|failed| (failed, (Outputs::default(), used)))?;
        let end = run.end.as_ref();
        let failed = match end.map(|end| end.outcome) {
            Some(RunOutcome::Answered) => return Ok((outputs, used)),
            Some(RunOutcome::Cancelled) => StepFailure::Cancelled,
            Some(RunOutcome::Exhausted) => {
                StepFailure::Error("the run used up its budget".to_owned())
            }
            _ => {
                let error = end.and_then(|end| end.message.clone().or(end.error.clone()));
                StepFailure::Error(error.unwrap_or_else(|| "the run failed".to_owned()))
            }
        };
        // A run that another client cancelled has failed.
        let failed = match failed {
            StepFailure::Cancelled if !*self.stop.borrow() => {
                StepFailure::Error("the run was cancelled".to_owned())
            }
            other => other,
        };
        Err((failed, (outputs, used)))
    }

    async fn make_run(&mut self, inputs: BTreeMap<String, Datum>) -> Result<Run, StepFailure> {
        let brief = self.brief(inputs).map_err(StepFailure::Error)?;
        let brief = serde_json::from_value(Value::Object(brief));
        let brief = brief.map_err(|error| StepFailure::Error(error.to_string()))?;
        let (client, key) = (self.client.clone(), self.key("run")?);
        let may_exist = AtomicBool::new(false);
        let create = || async {
            let made = client.create_run(&brief, Some(&key)).await;
            if made.as_ref().is_err_and(is_maybe_done) {
                may_exist.store(true, Ordering::Relaxed);
            }
            made
        };
        match insist(&mut self.stop, &create).await {
            // It is found under its key, to be cancelled. Else it would go on unseen.
            Err(StepFailure::Cancelled) if may_exist.load(Ordering::Relaxed) => {
                let (_quiet, mut never) = watch::channel(false);
                let found = tokio::time::timeout(RECALL_TIME, insist(&mut never, &create)).await;
                found.unwrap_or(Err(StepFailure::Cancelled))
            }
            made => made,
        }
    }

    /// The body of `POST /v1/runs`.
    fn brief(&self, inputs: BTreeMap<String, Datum>) -> Result<Map<String, Value>, String> {
        let mut brief = self.step.run.clone().unwrap_or_default();
        let (mut values, mut data) = (BTreeMap::new(), Vec::new());
        for (name, datum) in inputs {
            match datum {
                Datum::Value(value) => drop(values.insert(name, text(&value))),
                Datum::File(file) => data.push((name, file)),
                Datum::Files(files) => {
                    let all = files.into_iter().enumerate();
                    data.extend(all.map(|(index, file)| (format!("{index}-{name}"), file)));
                }
            }
        }
        let data = data.into_iter().map(|(name, file)| {
            let name: Text<1, 255> =
                name.try_into().map_err(|error: OutOfBounds| error.to_string())?;
            let sha256: Sha256Digits =
                file.sha256.try_into().map_err(|error: NoSha256| error.to_string())?;
            let data = RunData { name, sha256: Some(sha256), content: None };
            serde_json::to_value(data).map_err(|error| error.to_string())
        });
        let question = brief.get("question").and_then(Value::as_str).unwrap_or_default();
        let question = substituted(question, &values)?;
        brief.insert("question".to_owned(), question.into());
        brief.insert("data".to_owned(), Value::Array(data.collect::<Result<_, String>>()?));
        self.allocate(&mut brief);
        Ok(brief)
    }

    /// Bounds of the attempt: its share of the workflow's, grown after failures.
    fn allocate(&self, brief: &mut Map<String, Value>) {
        let StepStarted { nano_dollars, tokens, grown, .. } = self.attempt.started;
        if let Some(Value::Object(limits)) = brief.get_mut("limits")
            && let Some(memory) = limits.get("memory_bytes").and_then(Value::as_u64)
        {
            limits.insert("memory_bytes".to_owned(), self.grown_memory(memory).into());
        }
        let mut budget = match brief.remove("budget") {
            Some(Value::Object(budget)) => budget,
            _ => Map::new(),
        };
        if let (Some(factor), Some(turns)) =
            (self.step.retry.budget, budget.get("turns").and_then(Value::as_u64))
        {
            budget.insert("turns".to_owned(), factor.grow(turns, grown).min(1000).into());
        }
        for (field, bound) in [("nano_dollars", nano_dollars), ("tokens", tokens)] {
            if let Some(bound) = bound {
                budget.insert(field.to_owned(), bound.into());
            }
        }
        brief.insert("budget".to_owned(), Value::Object(budget));
    }

    async fn run_ended(&mut self, id: &str) -> Result<Run, StepFailure> {
        let (client, mut pause, mut is_cancelled) = (self.client.clone(), FIRST_POLL, false);
        loop {
            // Also after a request to cancel: the usage of the run counts.
            let (_quiet, mut never) = watch::channel(false);
            let run = insist(&mut never, || client.run(id)).await?;
            if run.end.is_some() {
                return Ok(run);
            }
            match rest(&mut self.stop, pause).await {
                Err(StepFailure::Cancelled) if is_cancelled => tokio::time::sleep(pause).await,
                Err(StepFailure::Cancelled) => {
                    let asked = client.steer_run(id, &RunWish::Cancel, None).await;
                    match asked {
                        Err(error) if error.outcome() != Outcome::Refused => {
                            tracing::debug!(%error, "cannot cancel a run, will be retried");
                            tokio::time::sleep(pause).await;
                        }
                        _ => is_cancelled = true,
                    }
                }
                other => other?,
            }
            pause = LAST_POLL.min(pause * 2);
        }
    }

    async fn run_outputs(&mut self, run: &Run) -> Result<Outputs, StepFailure> {
        let mut outputs = Outputs::default();
        let client = self.client.clone();
        for file in &run.files {
            if file.bytes > MAX_FILE_BYTES as u64 {
                return Err(StepFailure::Error(format!("file `{}` is too long", file.name)));
            }
            let read = || async {
                let held = memory::hold(file.bytes).await;
                let content = client.run_file_bytes(&run.id, &file.name).await?;
                Ok::<_, Error>((held, content))
            };
            let (_held, content) = insist(&mut self.stop, read).await?;
            let (name, file) = self.kept(file.name.clone(), content).await?;
            outputs.files.insert(name, file);
        }
        let answer = run.end.as_ref().and_then(|end| end.result.clone());
        outputs.answer = bounded_answer(answer)?;
        Ok(outputs)
    }

    async fn call(
        &mut self,
        inputs: BTreeMap<String, Datum>,
    ) -> Result<StepProduct, (StepFailure, StepProduct)> {
        let done = self.call_outputs(inputs).await;
        done.map(|outputs| (outputs, AttemptUsage::default()))
            .map_err(|it| (it, StepProduct::default()))
    }

    async fn call_outputs(
        &mut self,
        inputs: BTreeMap<String, Datum>,
    ) -> Result<Outputs, StepFailure> {
        let call = self.step.call_step().map_err(|error| StepFailure::Error(error.to_string()))?;
        let time = call.timeout_ms.map(|time| Duration::from_millis(time.get()));
        let time = time.unwrap_or(DEFAULT_CALL_TIME);
        let id = match self.attempt.id.clone() {
            Some(id) => id,
            None => {
                let id = self.make_sandbox(&call, time).await?;
                self.put_inputs(&id, inputs).await?;
                belljar_fault::point("workflow.inputs_written");
                self.place(&id).await?;
                id
            }
        };
        let sandbox = self.client.sandbox(&id);
        let command = Command {
            argv: call.argv.into_iter().map(String::from).collect(),
            script: call.script.map(String::from),
            env: call.env,
            timeout: Some(time),
            ..Command::default()
        };
        let key = self.key("call")?;
        let run = || async { sandbox.run(&command, Some(&key)).await?.finish().await };
        let mut stop = self.stop.clone();
        let ran = tokio::select! {
            ran = insist(&mut self.stop, run) => ran?,
            // Its sandbox ends, and the call with it.
            is_told = async { stop.wait_for(|is| *is).await.is_ok() } => {
                return Err(if is_told { StepFailure::Cancelled } else { StepFailure::Abandoned });
            }
        };
        if ran.end.reason != EndReason::Done || ran.end.exit_code != Some(0) {
            let said = &ran.stderr[ran.stderr.len().saturating_sub(MAX_ERROR_BYTES)..];
            let status = ran.end.exit_code.map(|code| format!(" with status {code}"));
            let error = format!(
                "the call ended as `{}`{}: {}",
                ran.end.reason.as_str(),
                status.unwrap_or_default(),
                String::from_utf8_lossy(said).trim(),
            );
            return Err(call_failed(ran.end.reason, error));
        }
        let answer = String::from_utf8_lossy(&ran.stdout).trim_end().to_owned();
        let mut outputs = Outputs { answer: bounded_answer(Some(answer))?, ..Outputs::default() };
        for name in self.step.outputs.clone() {
            let read = || async {
                // Its length is not known before.
                let held = memory::hold(MAX_FILE_BYTES as u64).await;
                let content = sandbox.read_file(&name).await?.bytes(MAX_FILE_BYTES).await?;
                Ok::<_, Error>((held, content))
            };
            let read = insist(&mut self.stop, read).await;
            let (_held, content) = read.map_err(|failed| match failed {
                StepFailure::Error(error) => {
                    StepFailure::Error(format!("output `{name}`: {error}"))
                }
                other => other,
            })?;
            let (name, file) = self.kept(name, content).await?;
            outputs.files.insert(name, file);
        }
        Ok(outputs)
    }

    async fn make_sandbox(
        &mut self,
        call: &CallStep,
        time: Duration,
    ) -> Result<String, StepFailure> {
        let invalid = |error: OutOfBounds| StepFailure::Error(error.to_string());
        let base = || Name::try_from("base".to_owned()).map_err(invalid);
        let template = call.template.clone().map_or_else(base, Ok)?;
        let mut wish = CreateSandbox::of(template);
        let seconds = Seconds::try_from((time + SLACK).as_secs()).map_err(invalid)?;
        wish.timeout_seconds = Some(seconds);
        wish.metadata.insert("workflow".to_owned(), self.workflow.clone());
        wish.tier = call.tier;
        wish.limits = call.limits;
        if let Some(memory) = call.limits.memory_bytes {
            let memory = self.grown_memory(memory.get());
            wish.limits.memory_bytes = Some(Count::try_from(memory).map_err(invalid)?);
        }
        // A step without `network` has none, whatever the server's default is.
        wish.network = Some(call.network.clone().unwrap_or_default());
        wish.operations = call.operations.clone();
        let (client, key) = (self.client.clone(), self.key("sandbox")?);
        let made = insist(&mut self.stop, || client.create(&wish, Some(&key))).await?;
        Ok(made.id)
    }

    async fn put_inputs(
        &mut self,
        id: &str,
        inputs: BTreeMap<String, Datum>,
    ) -> Result<(), StepFailure> {
        for (name, datum) in inputs {
            match datum {
                Datum::Value(value) => self.put_input(id, &name, text(&value).into()).await?,
                Datum::File(file) => self.put_file(id, &name, &file).await?,
                Datum::Files(files) => {
                    for (index, file) in files.iter().enumerate() {
                        self.put_file(id, &format!("{index}-{name}"), file).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn put_file(&mut self, id: &str, name: &str, file: &FileRef) -> Result<(), StepFailure> {
        let sandbox = self.client.sandbox(id);
        let (files, tenant) = (self.files.clone(), self.tenant.clone());
        // Each try reads it anew, so that no file is held between two.
        let put = || async {
            let _held = memory::hold(file.bytes).await;
            match files.get(&tenant, &file.sha256).await {
                Ok(content) => sandbox.write_file(name, content).await.map(|_| Ok(())),
                Err(error) => Ok(Err(error)),
            }
        };
        let put = insist(&mut self.stop, put).await?;
        put.map_err(|error| StepFailure::Error(format!("input `{name}`: {error}")))
    }

    async fn put_input(&mut self, id: &str, name: &str, content: Bytes) -> Result<(), StepFailure> {
        let sandbox = self.client.sandbox(id);
        insist(&mut self.stop, || sandbox.write_file(name, content.clone())).await.map(drop)
    }
}

/// Returns true if a request that failed may have been carried out.
fn is_maybe_done(error: &Error) -> bool {
    error.outcome() == Outcome::Unknown || error.code() == Some("idempotency_in_progress")
}

/// A call that was lost with its sandbox is no failure of the step.
fn call_failed(reason: EndReason, error: String) -> StepFailure {
    match reason {
        EndReason::Lost => StepFailure::Lost(error),
        _ => StepFailure::Error(error),
    }
}

/// Puts values for each `{{name}}` of a text. A value is not searched for further names, so that
/// the result grows with the values and not with their powers.
fn substituted(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    // A character has at most 4 bytes.
    const MAX_BYTES: usize = 4 * Question::MOST;
    let long = || format!("the question is longer than {} characters", Question::MOST);
    let (mut made, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let named = values.iter().find_map(|(name, value)| {
            Some((value, after.strip_prefix(name.as_str())?.strip_prefix("}}")?))
        });
        made.push_str(before);
        match named {
            Some((value, behind)) => {
                if made.len() + value.len() > MAX_BYTES {
                    return Err(long());
                }
                made.push_str(value);
                rest = behind;
            }
            // The second brace may begin a name.
            None => {
                made.push('{');
                rest = &rest[before.len() + 1..];
            }
        }
    }
    made.push_str(rest);
    match made.chars().count() > Question::MOST {
        true => Err(long()),
        false => Ok(made),
    }
}

/// Leaves out the outputs of an attempt, as a failure, if they are too long to be recorded.
fn bounded_end(ended: StepEnded) -> StepEnded {
    let bytes = serde_json::to_vec(&ended).map_or(usize::MAX, |text| text.len());
    if bytes <= MAX_VALUE_BYTES {
        return ended;
    }
    let error = format!("the outputs are longer than {MAX_VALUE_BYTES} bytes; keep fewer files");
    let (outcome, outputs) = (AttemptOutcome::Failed, Outputs::default());
    StepEnded { outcome, outputs, error: Some(error), ..ended }
}

fn bounded_answer(answer: Option<String>) -> Result<Option<String>, StepFailure> {
    match answer {
        Some(answer) if answer.len() > MAX_ANSWER_BYTES => Err(StepFailure::Error(format!(
            "the answer is longer than {MAX_ANSWER_BYTES} bytes; write a file instead"
        ))),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_value_is_not_searched_for_names() {
        let known = values(&[("a", "{{b}}{{b}}"), ("b", "{{c}}"), ("c", "x")]);
        let put = |text: &str| substituted(text, &known).unwrap();
        assert_eq!(put("{{a}} {{c}} {{d}} {{{c}}} {{"), "{{b}}{{b}} x {{d}} {x} {{");
        assert_eq!(put("{{{{c}}}}"), "{{x}}");
        let long = "ü".repeat(Question::MOST / 2);
        let known = values(&[("long", &long)]);
        assert_eq!(substituted("{{long}}{{long}}", &known).unwrap().len(), 2 * Question::MOST);
        for text in ["{{long}}{{long}}.".to_owned(), "{{long}}".repeat(100_000)] {
            let error = substituted(&text, &known).unwrap_err();
            assert!(error.contains("longer than 100000 characters"), "{error}");
        }
    }

    #[test]
    fn a_lost_call_is_no_failure() {
        let failed = |reason| call_failed(reason, String::new());
        assert!(matches!(failed(EndReason::Lost), StepFailure::Lost(_)));
        assert!(matches!(failed(EndReason::Exit), StepFailure::Error(_)));
    }

    #[test]
    fn an_end_that_is_too_long_has_no_outputs() {
        let key = AttemptKey { step: "s".to_owned(), item: 0, attempt: 0 };
        let (outcome, used) = (AttemptOutcome::Done, AttemptUsage { tokens: 7, nano_dollars: 1 });
        let end = |files: usize| {
            let file = FileRef { sha256: "0".repeat(64), bytes: 1 };
            let files = (0..files).map(|number| (number.to_string(), file.clone())).collect();
            let outputs = Outputs { answer: None, files };
            bounded_end(StepEnded { key: key.clone(), outcome, error: None, outputs, used })
        };
        assert_eq!(end(100).outputs.files.len(), 100);
        let ended = end(100_000);
        assert_eq!((ended.outcome, ended.used), (AttemptOutcome::Failed, used));
        assert!(ended.outputs.files.is_empty() && ended.error.is_some());
    }
}
