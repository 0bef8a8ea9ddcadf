//! One execution: from its turn to its end, with whatever happens to the
//! interpreter on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use belljar_domain::rows::CallKind;
use belljar_domain::{Attribution, EndReason, Usage};
use belljar_node::{
    Bundle, CallError, CellEnd, CellEvent, CellOptions, ContextError, Display, Origin,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::Contexts;
use super::slot::{Held, Meanwhile, Slot, StartError};
use super::text::Pieces;
use crate::attribution::EndedCall;
use crate::observe::Watched;
use crate::sandbox::State;

/// What an execution shows. `Ended` or `Gone` comes last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Output {
    /// It has begun, as the context's so-manieth; rows of its traffic name `call`.
    Begun {
        count: u64,
        call: u32,
    },
    Stdout(String),
    Stderr(String),
    Display(Display),
    /// The value of the last expression.
    Result(Bundle),
    /// Why it did not come to its end: at most one.
    Flaw(Flaw),
    Ended(Ending),
    /// The sandbox was ended under it.
    Gone,
}

/// An exception that nothing caught, or what else ended the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaw {
    pub name: String,
    pub value: String,
    pub traceback: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    pub ok: bool,
    pub reason: EndReason,
    pub usage: Usage,
    /// How the interpreter had come to be.
    pub origin: Origin,
}

/// Code that runs, or waits for its turn. To drop it is to interrupt the code.
#[derive(Debug)]
pub struct Execution {
    outputs: mpsc::Receiver<Output>,
}

/// The limits of code, and the call of a run that it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowance {
    pub wall: Option<Duration>,
    pub cpu: Option<Duration>,
    pub attribution: Option<Attribution>,
}

/// The sandbox's own time is the limit.
const NO_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// How long code that nobody listens to may take before it is interrupted again.
const INSIST: Duration = Duration::from_secs(5);

/// An interpreter that had died before says so at once.
const DEAD: Duration = Duration::from_millis(20);

impl Execution {
    pub(super) fn start(
        contexts: Contexts,
        slot: Arc<Slot>,
        code: String,
        env: BTreeMap<String, String>,
        allowance: Allowance,
    ) -> Self {
        // Whoever reads slowly holds the code back.
        let (sender, outputs) = mpsc::channel(64);
        let watched = Watched::cell(&contexts.sandbox);
        let span = watched.span();
        let work = async move {
            let (contexts, slot, outputs, watched) = (&contexts, &*slot, &sender, &watched);
            let job = Job { contexts, slot, outputs, allowance, watched };
            job.run(&code, &env).await;
        };
        tokio::spawn(work.instrument(span));
        Self { outputs }
    }

    /// The next output; none after the end. Nothing is lost when this is dropped
    /// half-way.
    pub async fn next(&mut self) -> Option<Output> {
        self.outputs.recv().await
    }
}

struct Job<'a> {
    contexts: &'a Contexts,
    slot: &'a Slot,
    outputs: &'a mpsc::Sender<Output>,
    allowance: Allowance,
    watched: &'a Watched,
}

/// How an attempt came out.
enum Attempt {
    Over,
    /// The interpreter had died before.
    NeverBegan,
}

impl Job<'_> {
    async fn run(&self, code: &str, env: &BTreeMap<String, String>) {
        let _turn = tokio::select! {
            turn = self.slot.turn.lock() => turn,
            () = self.outputs.closed() => return,
        };
        let mut revived = false;
        loop {
            let held = match self.slot.interpreter(self.contexts).await {
                Ok(held) => held,
                Err(error) => return self.not_started(&error).await,
            };
            match self.attempt(&held, code, env, revived).await {
                Attempt::Over => return,
                Attempt::NeverBegan if revived => return self.say(Output::Gone).await,
                Attempt::NeverBegan => {
                    revived = true;
                    if let Err(error) = self.slot.revive(self.contexts, &held).await {
                        return self.not_started(&error.into()).await;
                    }
                }
            }
        }
    }

    async fn attempt(
        &self,
        held: &Held,
        code: &str,
        env: &BTreeMap<String, String>,
        revived: bool,
    ) -> Attempt {
        let mut all = self.contexts.lacks(&held.context);
        all.extend(env.iter().map(|(key, value)| (key.clone(), value.clone())));
        let Allowance { wall, cpu, attribution } = &self.allowance;
        let tag = attribution.as_ref().map(Into::into).unwrap_or_default();
        let wall = Some(wall.unwrap_or(NO_LIMIT));
        let options = CellOptions { wall, cpu: *cpu, env: all, tag };
        let attributor = self.contexts.sandbox.rows.attributor();
        let begun_call = attributor.begin(CallKind::Cell, attribution.clone());
        let mut running = held.context.run_with(code, options);
        self.watched.begun(&self.contexts.live, running.number(), if revived { 2 } else { 1 });
        let begun_as = Output::Begun { count: held.number, call: running.number() };
        let (mut stdout, mut stderr) = (Pieces::default(), Pieces::default());
        let mut begun = false;
        let mut flaw = None;
        let mut dead = std::pin::pin!(tokio::time::sleep(DEAD));
        let mut insist = tokio::time::interval(INSIST);
        insist.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                // First: code that never stops printing must not outrun this.
                biased;
                () = self.abandoned(&mut insist) => {
                    held.context.interrupt();
                    continue;
                }
                event = running.next() => event,
                () = &mut dead, if !begun => {
                    begun = true;
                    self.say(begun_as.clone()).await;
                    continue;
                }
            };
            if !begun {
                if never_began(&event) {
                    return Attempt::NeverBegan;
                }
                begun = true;
                self.say(begun_as.clone()).await;
            }
            let output = match event {
                CellEvent::Stdout(bytes) => Output::Stdout(stdout.push(bytes)),
                CellEvent::Stderr(bytes) => Output::Stderr(stderr.push(bytes)),
                CellEvent::Display(display) => Output::Display(display),
                CellEvent::Result { data, .. } => Output::Result(data),
                CellEvent::Error(error) => {
                    // Kept until it is known whether a limit was behind it.
                    let traceback = error.traceback.join("\n");
                    flaw = Some(Flaw { name: error.name, value: error.value, traceback });
                    continue;
                }
                CellEvent::End(end) => {
                    self.watched.ended(end.reason, &end.usage);
                    let ended = EndedCall {
                        number: running.number(),
                        is_ok: end.ok && flaw.is_none(),
                        reason: end.reason,
                        exit_code: None,
                        usage: &end.usage,
                    };
                    let Contexts { sandbox, live, .. } = self.contexts;
                    attributor.end(sandbox, Some(live), &begun_call, ended).await;
                    self.say(Output::Stdout(stdout.finish())).await;
                    self.say(Output::Stderr(stderr.finish())).await;
                    let flaw = flaw.map(|flaw| if revived { after_death(flaw) } else { flaw });
                    self.end(held, end, flaw, running.origin()).await;
                    return Attempt::Over;
                }
            };
            self.say(output).await;
        }
    }

    /// Resolves when nobody listens: at once, and now and then after.
    async fn abandoned(&self, insist: &mut tokio::time::Interval) {
        self.outputs.closed().await;
        insist.tick().await;
    }

    async fn say(&self, output: Output) {
        if let Output::Stdout(text) | Output::Stderr(text) = &output
            && text.is_empty()
        {
            return;
        }
        // Nobody listens any more: seen where it matters. Whoever listens without reading must
        // not keep what is left of a sandbox.
        tokio::select! {
            biased;
            _ = self.outputs.send(output) => {}
            () = self.contexts.sandbox.ended() => {}
        }
    }

    async fn end(&self, held: &Held, end: CellEnd, flaw: Option<Flaw>, origin: Origin) {
        let flaw = if end.alive {
            self.slot.count(held, end.count);
            match flaw {
                Some(flaw) if end.reason == EndReason::Done => Some(flaw),
                None if end.ok => None,
                flaw => Some(limited(flaw, end.reason)),
            }
        } else {
            match self.death(held, end.reason).await {
                Some(flaw) => Some(flaw),
                None => return self.say(Output::Gone).await,
            }
        };
        let ok = end.ok && flaw.is_none();
        if let Some(flaw) = flaw {
            self.say(Output::Flaw(flaw)).await;
        }
        let ending = Ending { ok, reason: end.reason, usage: end.usage, origin };
        self.say(Output::Ended(ending)).await;
    }

    /// What to say of an interpreter that died while it ran; `None` when the whole
    /// sandbox did.
    async fn death(&self, held: &Held, reason: EndReason) -> Option<Flaw> {
        if matches!(self.contexts.sandbox.state(), State::Ended(_)) {
            return None;
        }
        match self.slot.meanwhile(held) {
            Meanwhile::Restarted => return Some(restarting("Context was restarted".to_owned())),
            Meanwhile::Deleted => return Some(deleted()),
            Meanwhile::Nothing => {}
        }
        let why = words(reason);
        match self.slot.revive(self.contexts, held).await {
            Ok(()) => Some(restarting(format!(
                "Context was restarted: {why} ({reason}). Its variables are gone."
            ))),
            Err(error) if is_gone(&error) => None,
            Err(error) => Some(restarting(format!(
                "Context was ended: {why} ({reason}). It could not be restarted: {error}"
            ))),
        }
    }

    async fn not_started(&self, error: &StartError) {
        let flaw = match error {
            StartError::Deleted => deleted(),
            StartError::Engine(error) if is_gone(error) => return self.say(Output::Gone).await,
            error => {
                let mut value = error.to_string();
                let mut cause = std::error::Error::source(error);
                while let Some(error) = cause {
                    value = format!("{value}: {error}");
                    cause = error.source();
                }
                Flaw { name: "ContextNotStarted".to_owned(), value, traceback: String::new() }
            }
        };
        self.say(Output::Flaw(flaw)).await;
        let (usage, origin) = (Usage::default(), Origin::Executed);
        let ending = Ending { ok: false, reason: EndReason::Lost, usage, origin };
        self.say(Output::Ended(ending)).await;
    }
}

/// Whether the engine had no interpreter to give the code to.
fn never_began(event: &CellEvent) -> bool {
    matches!(event, CellEvent::End(end) if !end.alive && end.usage == Usage::default())
}

fn is_gone(error: &ContextError) -> bool {
    matches!(error, ContextError::Link(_) | ContextError::Call(CallError::Link(_)))
}

fn restarting(value: String) -> Flaw {
    Flaw { name: "ContextRestarting".to_owned(), value, traceback: String::new() }
}

fn deleted() -> Flaw {
    Flaw {
        name: "UnexpectedEndOfExecution".to_owned(),
        value: "The context was deleted before the execution was finished".to_owned(),
        traceback: String::new(),
    }
}

/// The error of the first code in a new interpreter may come from what the old
/// one held.
fn after_death(mut flaw: Flaw) -> Flaw {
    let note = "Note: the context's interpreter had ended since the last execution and was \
                restarted, so that its variables were gone.";
    flaw.traceback = format!("{}\n{note}", flaw.traceback);
    flaw
}

/// What ended the code, if the interpreter outlived it.
fn limited(flaw: Option<Flaw>, reason: EndReason) -> Flaw {
    // An interrupt by us looks like one by the owner.
    match flaw {
        Some(flaw) if flaw.name != "KeyboardInterrupt" => flaw,
        flaw => Flaw {
            name: "ExecutionStopped".to_owned(),
            value: format!("{} ({reason})", words(reason)),
            traceback: flaw.map(|flaw| flaw.traceback).unwrap_or_default(),
        },
    }
}

fn words(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Done | EndReason::Exit => "the interpreter exited",
        EndReason::TimeoutWall => "the code took too long",
        EndReason::TimeoutCpu => "the code used up its CPU time",
        EndReason::Oom => "the code used more memory than the sandbox has",
        EndReason::Pids => "the code started more processes than the sandbox may have",
        EndReason::Disk => "the code filled the sandbox's disk",
        EndReason::Output => "the code printed more than it may",
        EndReason::Seccomp => "the code made a system call that is not allowed",
        EndReason::Policy => "the interpreter said what no interpreter of ours says",
        EndReason::Killed => "the interpreter was killed",
        EndReason::Lost => "the interpreter was lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(usage: Usage, alive: bool) -> CellEvent {
        let reason = EndReason::Lost;
        CellEvent::End(CellEnd { reason, ok: false, count: 0, usage, alive })
    }

    #[test]
    fn code_that_took_time_has_begun() {
        let took = Usage { wall: Duration::from_micros(1), ..Usage::default() };
        assert!(never_began(&end(Usage::default(), false)));
        assert!(!never_began(&end(took, false)));
        assert!(!never_began(&end(Usage::default(), true)));
        assert!(!never_began(&CellEvent::Stdout(Vec::new())));
    }

    #[test]
    fn an_interrupt_of_ours_is_not_shown_as_the_owners() {
        let flaw = |name: &str| Flaw {
            name: name.to_owned(),
            value: String::new(),
            traceback: "Traceback".to_owned(),
        };
        let stopped = limited(Some(flaw("KeyboardInterrupt")), EndReason::TimeoutCpu);
        assert_eq!(stopped.name, "ExecutionStopped");
        assert!(stopped.value.contains("timeout_cpu"), "{}", stopped.value);
        assert_eq!(stopped.traceback, "Traceback");
        assert_eq!(limited(Some(flaw("ValueError")), EndReason::Oom).name, "ValueError");
        assert_eq!(limited(None, EndReason::Oom).name, "ExecutionStopped");
    }
}
