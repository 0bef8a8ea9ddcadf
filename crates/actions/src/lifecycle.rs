//! From running to paused and back, and to the end.

use std::sync::Arc;
use std::time::Duration;

use belljar_model::EndReason;
use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::events::EventKind;
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::sandbox::{Live, Paused, Sandbox, State};
use crate::start::Actions;

/// What becomes of a sandbox at its deadline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    #[default]
    Kill,
    Pause(PauseMode),
}

/// What a pause keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseMode {
    /// Memory and processes: they stand still.
    Full,
    /// Files only: what ran is gone, the machine starts anew.
    Filesystem,
}

/// What a connection found.
#[derive(Debug)]
pub struct Connected {
    pub sandbox: Arc<Sandbox>,
    /// It was paused, and runs again.
    pub resumed: bool,
}

impl Actions {
    /// Ends a sandbox.
    pub async fn kill(&self, tenant: &Tenant, id: &str) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        self.end(&sandbox, EndReason::Killed).await;
        Ok(())
    }

    /// Ends a sandbox and puts it on record. Nothing of it is left after.
    pub(crate) async fn end(&self, sandbox: &Arc<Sandbox>, reason: EndReason) {
        let _changing = sandbox.changing.lock().await;
        if !self.registry().remove(sandbox) {
            return;
        }
        let state = sandbox.state();
        // From here on nobody finds it running any more.
        sandbox.set_state(State::Ended(reason));
        if let State::Running(live) | State::Paused(Paused::Frozen(live)) = state
            && let Err(error) = live.machine.end().await
        {
            let error = &error as &dyn std::error::Error;
            tracing::error!(sandbox.id = %sandbox.id(), error, "cannot remove a sandbox");
        }
        if let Err(error) = self.journal().end(sandbox.id(), sandbox.facts(), reason) {
            tracing::error!(sandbox.id = %sandbox.id(), %error, "cannot record an end");
        }
        self.tell(sandbox, EventKind::Ended, Some(reason.as_str().to_owned()));
    }

    /// Gives a sandbox this long from now, be it more or less than it had.
    pub fn set_timeout(&self, tenant: &Tenant, id: &str, life: Duration) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let life = self.life(Some(life))?;
        sandbox.deadline.send_replace(now().plus(life));
        self.write_down(&sandbox)?;
        self.tell(&sandbox, EventKind::Extended, Some(sandbox.deadline().to_string()));
        Ok(())
    }

    /// Gives a sandbox at least this long from now.
    pub fn extend(&self, sandbox: &Arc<Sandbox>, life: Duration) -> Result<(), Problem> {
        let until = now().plus(life);
        if until > sandbox.deadline() {
            sandbox.deadline.send_replace(until);
            self.write_down(sandbox)?;
        }
        Ok(())
    }

    pub async fn pause(&self, tenant: &Tenant, id: &str, mode: PauseMode) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        self.pause_it(&sandbox, mode).await
    }

    async fn pause_it(&self, sandbox: &Arc<Sandbox>, mode: PauseMode) -> Result<(), Problem> {
        let _changing = sandbox.changing.lock().await;
        let live = sandbox.live()?;
        let paused = match mode {
            PauseMode::Full => {
                let frozen = live.machine.pause();
                frozen.map_err(|error| Problem::internal("pause the sandbox", &error))?;
                Paused::Frozen(live)
            }
            PauseMode::Filesystem => self.put_away(sandbox, &live).await?,
        };
        sandbox.set_state(State::Paused(paused));
        self.write_down(sandbox)?;
        self.tell(sandbox, EventKind::Paused, None);
        Ok(())
    }

    /// Saves the files of a sandbox and ends what runs.
    async fn put_away(&self, sandbox: &Arc<Sandbox>, live: &Live) -> Result<Paused, Problem> {
        let _ = (self, sandbox, live);
        Err(Problem::unsupported("pausing without memory is not there yet"))
    }

    /// Finds a sandbox, resumes it if it is paused, and sees to it that it lives
    /// at least this long.
    pub async fn connect(
        &self,
        tenant: &Tenant,
        id: &str,
        life: Option<Duration>,
    ) -> Result<Connected, Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let life = self.life(life)?;
        let resumed = self.resume(&sandbox, life).await?;
        if !resumed {
            self.extend(&sandbox, life)?;
        }
        Ok(Connected { sandbox, resumed })
    }

    /// Lets a paused sandbox run on; `false` when it runs already.
    pub async fn resume(&self, sandbox: &Arc<Sandbox>, life: Duration) -> Result<bool, Problem> {
        let _changing = sandbox.changing.lock().await;
        let live = match sandbox.state() {
            State::Running(_) => return Ok(false),
            State::Ended(_) => return Err(Problem::unknown_sandbox(sandbox.id().as_str())),
            State::Paused(Paused::Frozen(live)) => {
                let thawed = live.machine.resume();
                thawed.map_err(|error| Problem::internal("resume the sandbox", &error))?;
                live
            }
            State::Paused(Paused::Saved(_)) => {
                return Err(Problem::unsupported("resuming from files is not there yet"));
            }
        };
        sandbox.deadline.send_replace(now().plus(life));
        sandbox.set_state(State::Running(live));
        self.write_down(sandbox)?;
        self.tell(sandbox, EventKind::Resumed, None);
        Ok(true)
    }

    /// What runs, for traffic that comes in: resumed first if its owner wished
    /// so.
    pub async fn wake(&self, sandbox: &Arc<Sandbox>) -> Result<Arc<Live>, Problem> {
        if sandbox.is_paused() && sandbox.facts().auto_resume {
            self.resume(sandbox, crate::create::DEFAULT_LIFE).await?;
        }
        sandbox.live()
    }

    /// Watches over a sandbox until it ends: its deadline, and its own death.
    pub(crate) fn guard(&self, sandbox: &Arc<Sandbox>) {
        let (actions, sandbox) = (self.clone(), sandbox.clone());
        tokio::spawn(async move {
            let mut deadline = sandbox.deadline.subscribe();
            loop {
                let until = *deadline.borrow_and_update();
                let paused = sandbox.is_paused();
                tokio::select! {
                    () = sandbox.ended() => return,
                    changed = deadline.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(until.remaining()), if !paused => {
                        if sandbox.deadline() <= now() && !sandbox.is_paused() {
                            actions.time_is_up(&sandbox).await;
                        }
                    }
                }
            }
        });
    }

    async fn time_is_up(&self, sandbox: &Arc<Sandbox>) {
        let paused = match sandbox.facts().on_timeout {
            OnTimeout::Kill => false,
            OnTimeout::Pause(mode) => match self.pause_it(sandbox, mode).await {
                Ok(()) => true,
                Err(problem) => {
                    tracing::warn!(sandbox.id = %sandbox.id(), %problem, "cannot pause in time");
                    false
                }
            },
        };
        if !paused {
            self.end(sandbox, EndReason::TimeoutWall).await;
        }
    }
}
