//! An agent that does nothing but follow the log: what a real one does, with a
//! script for a model and a directory for a sandbox.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::{EndReason, ExecId, SandboxId, Sequence};
use belljar_journal::event::{
    Block, BudgetChanged, Cancelled, ErrorCategory, Finished, Injected, InjectedMessage,
    LlmRequested, LlmResponded, Outcome, Paused, Request, Resumed, Tokens, ToolFinished,
    ToolIntended, ToolStarted, Used,
};
use belljar_journal::{
    Address, AppendError, Body, Call, ClaimError, Ending, Journal, Lease, NewEvent, Next, Pending,
    RunView, read_all,
};
use belljar_objects::Digest;
use serde_json::json;

/// Short, so that nobody waits long for the dead. That it may end while somebody
/// works does no harm: nobody else comes.
const LEASE: Duration = Duration::from_millis(20);

/// A sandbox that remembers what it did, as real ones do.
#[derive(Debug, Clone)]
pub struct World {
    root: PathBuf,
}

impl World {
    pub fn new(root: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(root.join("done"))?;
        Ok(Self { root: root.to_owned() })
    }

    /// Does it, unless it was done before under this id.
    fn execute(&self, exec: &ExecId, input: &str) -> anyhow::Result<String> {
        let done = self.root.join("done").join(exec.as_str());
        if !done.exists() {
            let log = self.root.join("executions");
            let mut file = File::options().create(true).append(true).open(log)?;
            writeln!(file, "{exec}")?;
            fs::write(&done, format!("did {input}"))?;
        }
        Ok(fs::read_to_string(done)?)
    }

    /// What was really done, in order.
    pub fn executions(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root.join("executions")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// When to die: just before or just after so many appends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Death {
    pub before: Option<u32>,
    pub after: Option<u32>,
}

#[derive(Debug)]
pub struct Agent {
    pub journal: Arc<dyn Journal>,
    pub run: Address,
    pub owner: String,
    pub world: World,
    /// Turns of the script; the last one calls nothing.
    pub turns: u32,
    pub death: Death,
    appended: u32,
}

impl Agent {
    pub fn new(journal: Arc<dyn Journal>, run: Address, world: World, turns: u32) -> Self {
        let owner = format!("agent-{}", std::process::id());
        Self { journal, run, owner, world, turns, death: Death::default(), appended: 0 }
    }

    /// Works until the run is over, or somebody wants it to rest.
    pub async fn work(&mut self) -> anyhow::Result<()> {
        let Some(lease) = self.claim().await? else { return Ok(()) };
        let mut view = RunView::default();
        for event in read_all(&*self.journal, &self.run).await? {
            view.apply(&event);
        }
        loop {
            for event in self.journal.read(&self.run, view.head.next(), 100).await? {
                view.apply(&event);
            }
            let Some(event) = self.step(&view)? else { break };
            self.die_if(self.death.before);
            self.appended += 1;
            match self.journal.append(&lease, event).await {
                // Somebody wants something: see what.
                Ok(_) | Err(AppendError::Unseen { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            self.die_if(self.death.after);
            self.journal.renew(&lease, LEASE).await?;
        }
        self.journal.release(&lease).await?;
        Ok(())
    }

    fn die_if(&self, at: Option<u32>) {
        if at == Some(self.appended) {
            std::process::abort();
        }
    }

    /// Whoever had it may have died a moment ago. None: the run is over.
    async fn claim(&self) -> anyhow::Result<Option<Lease>> {
        loop {
            match self.journal.claim(&self.run, &self.owner, LEASE).await {
                Err(ClaimError::Held { .. }) => tokio::time::sleep(LEASE / 4).await,
                Err(ClaimError::Finished) => return Ok(None),
                lease => return Ok(Some(lease?)),
            }
        }
    }

    /// The one thing to write next; none: nothing is to be done.
    fn step(&self, view: &RunView) -> anyhow::Result<Option<NewEvent>> {
        let body: Body = match view.next() {
            Next::Nothing | Next::Rest => return Ok(None),
            Next::Leave(seq) => anyhow::bail!("event {seq} is of a newer version"),
            Next::Close(ending) => close(ending).into(),
            Next::Obey(pending) => obey(view, pending),
            Next::Ask { turn, attempt } => self.ask(view, turn, attempt),
            Next::CollectAnswer(asked) => self.answer(asked.turn, asked.seq).into(),
            Next::Intend(call) => {
                let arguments = Digest::of(call.input.to_string().as_bytes());
                ToolIntended { call: call.call.clone(), name: call.name.clone(), arguments }.into()
            }
            Next::Start(call) => ToolStarted {
                call: call.call.clone(),
                exec: call.call.exec(&self.run.run, 1),
                attempt: 1,
                sandbox: SandboxId::from_random([1; 16]),
                generation: view.generation,
                timeout_ms: None,
                cpu_ms: None,
            }
            .into(),
            Next::CollectCall { call, exec, .. } => self.collect(call, exec)?.into(),
            Next::Answered => Finished {
                outcome: Outcome::Answered,
                error: None,
                message: None,
                result: Some("done".into()),
            }
            .into(),
        };
        let is_last = body.wants_to_be_last();
        let event = NewEvent::new(body);
        Ok(Some(if is_last { event.seen(view.head) } else { event }))
    }

    fn ask(&self, view: &RunView, turn: u32, attempt: u32) -> Body {
        let left = view.budget.turns.map_or(u32::MAX, |turns| turns.saturating_sub(view.turns));
        for (at, kind) in [(3, Injected::TurnsLeft3), (1, Injected::TurnsLeft1)] {
            if left == at && !view.injected.contains(&kind) {
                let text = format!("{left} turns left");
                return InjectedMessage { kind, turn, text, answers: None }.into();
            }
        }
        let prompt = Digest::of(format!("prompt of {turn}").as_bytes());
        let (model, reservation) = ("scripted".into(), None);
        LlmRequested { turn, attempt, model, prompt, reservation, last: false }.into()
    }

    /// The same answer for the same turn, as a gateway that kept it would give.
    fn answer(&self, turn: u32, asked: Sequence) -> LlmResponded {
        let mut blocks = vec![Block::Text { text: format!("turn {turn}") }];
        if turn < self.turns {
            blocks.extend((0..1 + turn % 2).map(|number| Block::ToolUse {
                id: format!("call_{number}"),
                name: "execute_python".into(),
                input: json!({"code": format!("print({turn}, {number})")}),
            }));
        }
        LlmResponded {
            turn,
            asked,
            blocks,
            stop: "end_turn".into(),
            tokens: Tokens { input: 100, output: 10, ..Tokens::default() },
            nano_dollars: 1000,
            assumed: false,
            upstream_request: None,
            raw: None,
            first_token_micros: None,
            micros: 5,
        }
    }

    fn collect(&self, call: &Call, exec: &ExecId) -> anyhow::Result<ToolFinished> {
        let shown = self.world.execute(exec, &call.input.to_string()).context("the sandbox")?;
        Ok(ToolFinished {
            call: call.call.clone(),
            exec: Some(exec.clone()),
            reason: EndReason::Done,
            exit_code: Some(0),
            shown,
            cut: None,
            outputs: vec![],
            fault: None,
            used: Used::default(),
        })
    }
}

fn close(ending: Ending) -> Finished {
    let (outcome, error) = match ending {
        Ending::Cancelled => (Outcome::Cancelled, None),
        Ending::RuntimeCrash => (Outcome::Failed, Some(ErrorCategory::RuntimeCrash)),
    };
    Finished { outcome, error, message: None, result: None }
}

fn obey(view: &RunView, pending: &Pending) -> Body {
    let answers = pending.seq;
    match &pending.asked.request {
        Request::Pause => Paused { answers: Some(answers), at: None }.into(),
        Request::Resume | Request::Breakpoints { .. } => {
            Resumed { answers, until: None, reply: None, decision: None }.into()
        }
        Request::Step => {
            Resumed { answers, until: Some(view.step_end()), reply: None, decision: None }.into()
        }
        Request::Answer { text } => {
            Resumed { answers, until: None, reply: Some(text.clone()), decision: None }.into()
        }
        Request::Decide { decision } => {
            let decision = Some(decision.clone());
            Resumed { answers, until: None, reply: None, decision }.into()
        }
        Request::Cancel => Cancelled { answers }.into(),
        Request::Budget { change } => {
            BudgetChanged { answers, budget: change.onto(&view.budget) }.into()
        }
        Request::Tell { text } => InjectedMessage {
            kind: Injected::Operator,
            turn: view.turns + 1,
            text: text.clone(),
            answers: Some(answers),
        }
        .into(),
    }
}

/// Appends, and says so to whoever listens, for as long as nobody kills it.
pub async fn write_for_ever(journal: &dyn Journal, run: &Address) -> anyhow::Result<()> {
    let owner = format!("writer-{}", std::process::id());
    let lease = journal.claim(run, &owner, Duration::ZERO).await?;
    let mut out = std::io::stdout().lock();
    for number in 0_u64.. {
        let name = format!("{owner}-{number}");
        // Some of them are too long to be inline.
        let text = "x".repeat(if number % 5 == 0 { 20_000 } else { 200 });
        let event = crate::build::said(&format!("{name} {text}")).keyed(&name);
        let seq = journal.append(&lease, event).await?.seq();
        writeln!(out, "{seq} {name}")?;
        out.flush()?;
    }
    Ok(())
}
