//! Writes down a run whose program another part of this process drives, such as a command of a
//! terminal. Its events are those of a worker.

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::{End, SandboxId, Sequence};
use belljar_journal::event::{
    Block, CallRef, Environment, ErrorCategory, Finished, InjectedMessage, Limit, LimitHit,
    LlmRequested, LlmResponded, Outcome, RunCreated, SandboxAttached, Tokens, ToolFault,
    ToolFinished, ToolIntended, ToolStarted, Used,
};
use belljar_journal::{
    Address, AppendError, ClaimError, CreateError, First, Journal, Lease, NewEvent, NewRun,
    PROGRAM_CALL,
};
use belljar_objects::Digest;

use super::keeper::Keeper;
use super::millis;
use crate::program::{
    Line, Note, ProgramDialect, Transcript, TurnWarning, category, finished, intended,
};

/// The lease of the run, which is renewed for as long as the recorder lives.
const LEASE: Duration = Duration::from_secs(30);

/// The reason that a run is not written down.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot create the run")]
    Create(#[from] CreateError),
    #[error("cannot claim the run")]
    Claim(#[from] ClaimError),
    #[error("cannot write the run down")]
    Append(#[from] AppendError),
}

/// The end of a program, as its driver knows it.
#[derive(Debug, Clone)]
pub struct ProgramOutcome {
    /// None: it did not come to its end.
    pub end: Option<End>,
    pub is_interrupted: bool,
    /// Its answer; none: it has none, for the reason that stands beside it.
    pub answer: Option<String>,
    pub why: Option<String>,
    /// All requests to its model, as the gateway counted them.
    pub tokens: Tokens,
    pub nano_dollars: u64,
    /// True if the gateway refused requests that the budget did not pay for.
    pub is_penniless: bool,
}

/// Holds a run and writes down what its program does.
pub struct ProgramRecorder {
    journal: Arc<dyn Journal>,
    lease: Lease,
    _keeper: Keeper,
    transcript: Transcript,
    created: RunCreated,
    call: CallRef,
    /// The last event.
    head: Sequence,
}

impl std::fmt::Debug for ProgramRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramRecorder").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl ProgramRecorder {
    /// Makes the run and claims it.
    pub async fn begin(
        journal: Arc<dyn Journal>,
        address: Address,
        created: RunCreated,
        dialect: ProgramDialect,
        owner: &str,
    ) -> Result<Self, RecordError> {
        let first = First::Created(created.clone());
        let new = NewRun { address: address.clone(), first, most_unfinished: None };
        journal.create(&new).await?;
        let lease = journal.claim(&address, owner, LEASE).await?;
        let keeper = Keeper::start(journal.clone(), lease.clone(), LEASE);
        let transcript = Transcript::after(0, dialect);
        let call = CallRef { turn: 1, id: format!("{PROGRAM_CALL}:1") };
        let head = lease.taken;
        Ok(Self { journal, lease, _keeper: keeper, transcript, created, call, head })
    }

    pub fn address(&self) -> &Address {
        &self.lease.address
    }

    /// The program is begun in this sandbox.
    pub async fn start(
        &mut self,
        sandbox: SandboxId,
        environment: Environment,
        timeout: Duration,
    ) -> Result<(), RecordError> {
        let (call, agent) = (self.call.clone(), self.created.agent());
        let template = self.created.wish.as_ref().map(|wish| wish.template.clone());
        let attached = SandboxAttached {
            sandbox: sandbox.clone(),
            number: 1,
            template: template.unwrap_or_default(),
            restored: None,
            data: None,
            environment: Some(environment),
        };
        let arguments = Digest::of(self.created.question.as_bytes());
        let name = agent.as_str().to_owned();
        let intended = ToolIntended { call: call.clone(), name, arguments };
        let started = ToolStarted {
            exec: call.exec(&self.lease.address.run, 1),
            call,
            attempt: 1,
            sandbox,
            generation: self.lease.generation,
            timeout_ms: Some(millis(timeout)),
            cpu_ms: None,
        };
        let events = vec![NewEvent::new(attached), NewEvent::new(intended), NewEvent::new(started)];
        self.write(events).await
    }

    /// Takes a line of the program's output.
    pub async fn read(&mut self, line: &Line) -> Result<(), RecordError> {
        let notes = self.transcript.read(line);
        self.note(notes).await
    }

    /// The program was told how many turns are left.
    pub async fn warned(&mut self, warning: TurnWarning) -> Result<(), RecordError> {
        let (kind, turn) = (warning.kind(), self.transcript.turn());
        let text = warning.text().to_owned();
        let message = InjectedMessage { kind, turn, text, answers: None };
        self.write(vec![NewEvent::new(message)]).await
    }

    /// Ends the run, and lets go of it.
    pub async fn finish(mut self, outcome: ProgramOutcome) -> Result<(), RecordError> {
        let notes = self.transcript.end_turn().into_iter().collect();
        self.note(notes).await?;
        let turn = self.transcript.turn().max(1);
        if outcome.tokens != Tokens::default() || outcome.nano_dollars > 0 {
            let answer = LlmResponded {
                tokens: outcome.tokens,
                nano_dollars: outcome.nano_dollars,
                ..self.answer(turn, self.head, Vec::new(), "")
            };
            self.write(vec![NewEvent::new(answer).keyed("program:rest")]).await?;
        }
        let mut events = Vec::new();
        let why = outcome.why.clone().unwrap_or_default();
        let category = category(&why, outcome.is_penniless);
        if let Some(end) = &outcome.end {
            events.push(NewEvent::new(self.ended(end, &outcome, category)));
        }
        let limit = self.limit(category, &outcome).filter(|_| outcome.answer.is_none());
        events.extend(limit.clone().map(|hit| NewEvent::new(LimitHit { turn, ..hit })));
        let (outcome_kind, error) = match (&outcome.answer, &outcome.end, limit) {
            (Some(_), _, _) => (Outcome::Answered, None),
            _ if outcome.is_interrupted => (Outcome::Cancelled, None),
            (None, Some(_), Some(_)) => (Outcome::Exhausted, None),
            (None, Some(_), None) => (Outcome::Failed, Some(ErrorCategory::NoResult)),
            (None, None, _) => (Outcome::Failed, Some(ErrorCategory::Sandbox)),
        };
        self.write(events).await?;
        let finished =
            Finished { outcome: outcome_kind, error, message: outcome.why, result: outcome.answer };
        self.write_last(&finished).await
    }

    /// Ends the run also after requests from outside: its program is over.
    async fn write_last(&mut self, finished: &Finished) -> Result<(), RecordError> {
        loop {
            let last = NewEvent::new(finished.clone()).seen(self.head);
            match self.write(vec![last]).await {
                Err(RecordError::Append(AppendError::Unseen { head })) => self.head = head,
                written => return written,
            }
        }
    }

    async fn note(&mut self, notes: Vec<Note>) -> Result<(), RecordError> {
        for note in notes {
            match note {
                Note::Call { call, tool, input } => {
                    self.write(vec![NewEvent::new(intended(call, tool, &input))]).await?;
                }
                Note::Turn { turn, blocks, stop } => {
                    let requested = LlmRequested {
                        turn,
                        attempt: 1,
                        model: self.created.model.clone(),
                        prompt: Digest::of(self.created.question.as_bytes()),
                        reservation: None,
                        last: false,
                    };
                    self.write(vec![NewEvent::new(requested)]).await?;
                    let answer = self.answer(turn, self.head, blocks, stop);
                    let key = format!("program:answer:{turn}");
                    self.write(vec![NewEvent::new(answer).keyed(&key)]).await?;
                }
                Note::Result { call, output, is_error } => {
                    let result = finished(call, &output, is_error);
                    self.write(vec![NewEvent::new(result)]).await?;
                }
            }
        }
        Ok(())
    }

    /// An answer without its cost: the gateway tells that at the end.
    fn answer(&self, turn: u32, asked: Sequence, blocks: Vec<Block>, stop: &str) -> LlmResponded {
        LlmResponded {
            turn,
            asked,
            blocks,
            stop: stop.to_owned(),
            tokens: Tokens::default(),
            nano_dollars: 0,
            assumed: false,
            upstream_request: None,
            raw: None,
            first_token_micros: None,
            micros: 0,
        }
    }

    fn ended(&self, end: &End, outcome: &ProgramOutcome, category: &str) -> ToolFinished {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let why = outcome.why.clone().unwrap_or_default();
        let shown = outcome.answer.clone().unwrap_or_else(|| why.clone());
        let fault = outcome.answer.is_none();
        let fault = fault.then(|| ToolFault { category: category.to_owned(), message: why });
        ToolFinished {
            call: self.call.clone(),
            exec: Some(self.call.exec(&self.lease.address.run, 1)),
            reason: end.reason,
            exit_code: end.exit_code,
            shown,
            cut: None,
            outputs: Vec::new(),
            fault,
            used: Used {
                wall_micros: micros(end.usage.wall),
                cpu_micros: micros(end.usage.cpu),
                peak_bytes: end.usage.peak_memory_bytes,
                written_bytes: end.usage.written_bytes,
                output_bytes: end.usage.output_bytes,
            },
        }
    }

    /// The bound of the run that ended it.
    fn limit(&self, category: &str, outcome: &ProgramOutcome) -> Option<LimitHit> {
        let budget = &self.created.budget;
        let turns = u64::from(self.transcript.turn());
        let allowed_turns = budget.turns.map(u64::from);
        let hit = |limit, used, allowed| LimitHit { limit, turn: 0, used, allowed };
        if let Some(allowed) =
            allowed_turns.filter(|allowed| turns >= *allowed || category == "turns")
        {
            return Some(hit(Limit::Turns, turns, allowed));
        }
        let allowed = budget.nano_dollars.filter(|_| outcome.is_penniless)?;
        Some(hit(Limit::Money, outcome.nano_dollars, allowed))
    }

    async fn write(&mut self, events: Vec<NewEvent>) -> Result<(), RecordError> {
        if events.is_empty() {
            return Ok(());
        }
        let done = self.journal.append_all(&self.lease, events.into(), None).await?;
        self.head = done.last;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::{EndReason, RunId, Usage};
    use belljar_journal::event::{Brief, Budget, Wish};
    use belljar_journal::{Directory, RunView, read_all};
    use belljar_pipeline::AgentKind;

    use super::*;
    use crate::invented::created;

    fn run(budget: Budget) -> RunCreated {
        let brief = Brief { agent: AgentKind::ClaudeCode, ..Brief::default() };
        let wish = Wish {
            template: "claude-code".into(),
            environment: Environment::default(),
            network: Box::default(),
            brief: Box::new(brief),
            operation: Some("claude".into()),
            request: None,
            questions: false,
            traceparent: None,
        };
        RunCreated { wish: Some(wish), ..created(budget) }
    }

    async fn recorded(budget: Budget, answer: Option<&str>, why: Option<&str>) -> RunView {
        let dir = tempfile::tempdir().unwrap();
        let journal: Arc<dyn Journal> = Arc::new(Directory::open(dir.path()).unwrap());
        let address = Address { tenant: "local".into(), run: RunId::from_bits([5; 16]) };
        let dialect = ProgramDialect::Claude;
        let begun =
            ProgramRecorder::begin(journal.clone(), address.clone(), run(budget), dialect, "me");
        let mut recorder = begun.await.unwrap();
        let sandbox: SandboxId = SandboxId::from_random([1; 16]);
        recorder.start(sandbox, Environment::default(), Duration::from_secs(9)).await.unwrap();
        let lines = [
            r#"{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"file"}]}}"#,
            r#"{"type":"assistant","message":{"id":"b","content":[{"type":"text","text":"Done."}]}}"#,
        ];
        for (offset, text) in lines.iter().enumerate() {
            let line = Line { offset: offset as u64, text: (*text).to_owned() };
            recorder.read(&line).await.unwrap();
        }
        let usage = Usage::default();
        let end = End { reason: EndReason::Done, exit_code: Some(0), signal: None, usage };
        let outcome = ProgramOutcome {
            end: Some(end),
            is_interrupted: false,
            answer: answer.map(str::to_owned),
            why: why.map(str::to_owned),
            tokens: Tokens { input: 3, output: 4, ..Tokens::default() },
            nano_dollars: 50,
            is_penniless: false,
        };
        recorder.finish(outcome).await.unwrap();
        RunView::of(&read_all(&*journal, &address).await.unwrap())
    }

    #[tokio::test]
    async fn a_local_run_is_in_the_journal_with_turns_calls_and_cost() {
        let view = recorded(Budget::default(), Some("Done."), None).await;
        assert_eq!((view.turns, view.spent.calls, view.spent.nano_dollars), (2, 2, 50));
        assert_eq!(view.spent.tokens.total(), 7);
        let finished = view.finished.unwrap();
        assert_eq!(
            (finished.outcome, finished.result.as_deref()),
            (Outcome::Answered, Some("Done."))
        );
    }

    #[tokio::test]
    async fn a_program_without_turns_left_is_exhausted() {
        let budget = Budget { turns: Some(2), ..Budget::default() };
        let view = recorded(budget, None, Some("max_turns")).await;
        assert!(view.limits.contains(&Limit::Turns));
        assert_eq!(view.finished.unwrap().outcome, Outcome::Exhausted);
    }
}
