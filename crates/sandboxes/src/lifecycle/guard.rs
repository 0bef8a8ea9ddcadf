//! Watches over a sandbox: its deadline, and its own death.

use std::sync::Arc;

use belljar_domain::EndReason;

use tokio::time::Instant;

use super::{OnTimeout, PauseMode};
use crate::clock::Moment;
use crate::problem::Problem;
use crate::sandbox::{Live, Paused, Sandbox, State};
use crate::start::Actions;

impl Actions {
    /// Watches over a sandbox until it ends. Everything is looked at anew
    /// whenever its state or its deadline changes.
    pub(crate) fn guard(&self, sandbox: &Arc<Sandbox>) {
        let (actions, sandbox) = (self.clone(), sandbox.clone());
        // When it is due, on a clock that does not jump as the host's may. Computed here, before
        // the create is answered: the task may begin after the host's clock has jumped.
        let deadline = sandbox.deadline();
        let mut due: Option<(Moment, Instant)> =
            Some((deadline, Instant::now() + deadline.remaining()));
        tokio::spawn(async move {
            let (mut deadlines, mut states) = (sandbox.deadline.subscribe(), sandbox.states());
            loop {
                let deadline = *deadlines.borrow_and_update();
                let at = match due {
                    Some((of, at)) if of == deadline => at,
                    _ => Instant::now() + deadline.remaining(),
                };
                due = Some((deadline, at));
                let state = states.borrow_and_update().clone();
                let (live, counts) = match state {
                    State::Ended(_) => return,
                    State::Running(live) => (Some(live), true),
                    State::Paused(Paused::Frozen(live)) => (Some(live), false),
                    State::Paused(Paused::Saved(_) | Paused::Suspended(_)) => (None, false),
                };
                let gone = async {
                    match &live {
                        Some(live) => live.machine.gone().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    changed = states.changed() => if changed.is_err() { return },
                    changed = deadlines.changed() => if changed.is_err() { return },
                    _ = gone => match live {
                        Some(live) => actions.died(&sandbox, &live).await,
                        None => return,
                    },
                    () = tokio::time::sleep_until(at), if counts => {
                        actions.time_is_up(&sandbox, deadline).await;
                    }
                }
            }
        });
    }

    /// Puts down what ended by itself. Whoever put the machine away on purpose
    /// has changed the state by the time the lock is free. Other work on a machine that is
    /// gone fails by itself.
    async fn died(&self, sandbox: &Arc<Sandbox>, dead: &Arc<Live>) {
        let _changing = sandbox.changing.lock().await;
        let same = match sandbox.state() {
            State::Running(live) | State::Paused(Paused::Frozen(live)) => Arc::ptr_eq(&live, dead),
            State::Paused(Paused::Saved(_) | Paused::Suspended(_)) | State::Ended(_) => false,
        };
        if same {
            let oom = dead.machine.ran_out_of_memory();
            let reason = if oom { EndReason::Oom } else { EndReason::Lost };
            self.end_now(sandbox, reason).await;
        }
    }

    async fn time_is_up(&self, sandbox: &Arc<Sandbox>, deadline: Moment) {
        // What would leave it running gives way to its end. A pause waits for it instead: a
        // machine that was half written to disk could not be written again.
        sandbox.ending.set_due(sandbox.facts().on_timeout == OnTimeout::Kill);
        let _changing = sandbox.changing.lock().await;
        // It may have been extended or paused while the lock was not ours.
        if sandbox.deadline() != deadline || sandbox.live().is_err() {
            sandbox.ending.set_due(false);
            return;
        }
        let paused = match sandbox.facts().on_timeout {
            OnTimeout::Kill => false,
            OnTimeout::Pause(mode) => match self.pause_in_time(sandbox, mode).await {
                Ok(()) => true,
                Err(problem) => {
                    tracing::warn!(sandbox.id = %sandbox.id(), %problem, "deadline pause failed");
                    false
                }
            },
        };
        if !paused {
            self.end_now(sandbox, EndReason::TimeoutWall).await;
        }
    }

    async fn pause_in_time(&self, sandbox: &Arc<Sandbox>, mode: PauseMode) -> Result<(), Problem> {
        let paused = Box::pin(self.pause_now(sandbox, mode));
        sandbox.ending.unless_announced(paused).await
    }
}
