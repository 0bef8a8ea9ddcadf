//! From running to paused and back, and to the end.
//!
//! Whoever changes a sandbox holds its `changing` lock; what takes longer than
//! a moment goes on when whoever asked has hung up, since half of it would leave
//! a sandbox that is neither here nor there. Only its end breaks it off: see [`ending`].

mod away;
mod ending;
mod guard;

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::EndReason;
use serde::{Deserialize, Serialize};
use tracing::Instrument as _;

use crate::clock::now;
use crate::events::EventKind;
use crate::journal::outlives_the_server;
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::sandbox::{Live, Paused, Sandbox, State};
use crate::start::Actions;

pub(crate) use ending::Ending;

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
    /// Memory and processes: they stand still, in memory or on disk.
    Full,
    /// Files only: what ran is gone, the machine starts anew.
    Filesystem,
}

/// What a paused sandbox continues with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ResumeMode {
    /// Whatever the pause kept.
    #[default]
    Kept,
    /// Its files; a machine that stands still is left behind.
    Reboot,
}

/// How a sandbox came to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resumed {
    RanAlready,
    Thawed,
    /// With nothing but its files: what its template starts with starts again.
    Rebooted,
}

/// What a connection found.
#[derive(Debug)]
pub struct Connected {
    pub sandbox: Arc<Sandbox>,
    /// It was paused, and runs again.
    pub resumed: bool,
}

/// How long a guest may take to show that it is well.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long work on a sandbox may take to give up when its end is announced. What takes longer
/// finds its machine killed.
const GIVE_UP_GRACE: Duration = Duration::from_millis(100);

impl Actions {
    /// Ends a sandbox.
    pub async fn kill(&self, tenant: &Tenant, id: &str) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        self.end(&sandbox, EndReason::Killed).await;
        Ok(())
    }

    /// Ends a sandbox and puts it on record. Nothing of it is left after. Whatever is done to
    /// it meanwhile is given up.
    pub(crate) async fn end(&self, sandbox: &Arc<Sandbox>, reason: EndReason) {
        sandbox.ending.announce(reason);
        let (actions, sandbox) = (self.clone(), sandbox.clone());
        let ended = tokio::spawn(async move {
            let mut changing = std::pin::pin!(sandbox.changing.lock());
            let _changing = match tokio::time::timeout(GIVE_UP_GRACE, &mut changing).await {
                Ok(changing) => changing,
                Err(_) => {
                    sandbox.kill_machine();
                    changing.await
                }
            };
            actions.end_now(&sandbox, reason).await;
        });
        let _ = ended.await;
    }

    /// Ends all of these at the same time.
    pub(crate) async fn end_all(
        &self,
        sandboxes: impl IntoIterator<Item = Arc<Sandbox>>,
        reason: EndReason,
    ) {
        let ends = sandboxes.into_iter().map(|sandbox| {
            let actions = self.clone();
            tokio::spawn(async move { actions.end(&sandbox, reason).await })
        });
        for end in ends.collect::<Vec<_>>() {
            let _ = end.await;
        }
    }

    /// As [`Self::end`], for whoever holds the lock.
    async fn end_now(&self, sandbox: &Arc<Sandbox>, reason: EndReason) {
        // Whoever announced the end first says why.
        let reason = sandbox.ending.announce(reason);
        if self.config().is_member {
            self.news().ending(sandbox);
        }
        if !self.registry().remove(sandbox) {
            self.news().is_not_ending(sandbox.id());
            return;
        }
        let state = sandbox.state();
        // From here on nobody finds it running any more.
        sandbox.set_state(State::Ended(reason));
        if let State::Running(live) | State::Paused(Paused::Frozen(live)) = state {
            belljar_fault::point("node.ending");
            self.remove_machine(sandbox, &live).await;
            belljar_fault::point("node.removed");
        }
        self.take_last_rows(sandbox);
        self.forget_cassette(sandbox);
        if let Err(error) = self.journal().end(sandbox.id(), sandbox.facts(), reason) {
            tracing::error!(sandbox.id = %sandbox.id(), %error, "cannot record sandbox end");
        }
        if self.config().is_member {
            // Control charges it.
            self.news().ended(sandbox, reason);
        } else {
            sandbox.rows.attributor().sandbox_ended(sandbox);
        }
        self.tell(sandbox, EventKind::Ended, Some(reason.as_str().to_owned()));
    }

    async fn remove_machine(&self, sandbox: &Sandbox, live: &Live) {
        if let Err(error) = live.machine.end().await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(sandbox.id = %sandbox.id(), error, "cannot remove a sandbox");
        }
    }

    /// Gives a sandbox this long from now, be it more or less than it had.
    pub fn set_timeout(&self, tenant: &Tenant, id: &str, life: Duration) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let life = self.life(Some(life))?;
        // A paused one has no deadline to move: resuming sets a new one.
        sandbox.live()?;
        sandbox.deadline.send_replace(now().plus(life));
        self.write_down(&sandbox)?;
        self.tell(&sandbox, EventKind::Extended, Some(sandbox.deadline().to_string()));
        Ok(())
    }

    /// Gives a sandbox at least this long from now.
    pub fn extend(&self, sandbox: &Arc<Sandbox>, life: Duration) -> Result<(), Problem> {
        let until = now().plus(life);
        let later = sandbox.deadline.send_if_modified(|deadline| {
            let later = until > *deadline;
            *deadline = until.max(*deadline);
            later
        });
        if later {
            self.write_down(sandbox)?;
        }
        Ok(())
    }

    /// Makes sure that a running sandbox lives at least this long from now.
    pub fn keep_alive(&self, tenant: &Tenant, id: &str, life: Duration) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        sandbox.live()?;
        self.extend(&sandbox, self.life(Some(life))?)
    }

    pub async fn pause(&self, tenant: &Tenant, id: &str, mode: PauseMode) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let actions = self.clone();
        unhurried(async move {
            let paused = Box::pin(async {
                let _changing = sandbox.changing.lock().await;
                actions.pause_now(&sandbox, mode).await
            });
            sandbox.ending.unless_announced(paused).await
        })
        .await
    }

    /// Refuses when the guest of a running sandbox does not answer.
    pub async fn require_healthy(&self, tenant: &Tenant, id: &str) -> Result<(), Problem> {
        let live = self.registry().find(tenant, id)?.live()?;
        let root = live.machine.stat(belljar_domain::User::User, b"/");
        match tokio::time::timeout(PATIENCE, root).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                let message = format!("the guest of sandbox \"{id}\" does not respond");
                Err(Problem::new(Kind::Busy, "guest_unresponsive", message))
            }
        }
    }

    /// For whoever holds the lock.
    async fn pause_now(&self, sandbox: &Arc<Sandbox>, mode: PauseMode) -> Result<(), Problem> {
        let live = sandbox.live()?;
        let paused = match mode {
            PauseMode::Full if sandbox.facts().tier.can_be_saved() => {
                self.suspend(sandbox, &live).await?
            }
            PauseMode::Full => {
                freeze(sandbox, &live).await?;
                Paused::Frozen(live)
            }
            PauseMode::Filesystem => {
                freeze(sandbox, &live).await?;
                match self.put_away(sandbox, &live).await {
                    Ok(paused) => paused,
                    Err(problem) => {
                        thaw(sandbox, &live).await?;
                        return Err(problem);
                    }
                }
            }
        };
        sandbox.set_state(State::Paused(paused));
        if outlives_the_server(&sandbox.state()) {
            // First: one that comes back without them would do them again.
            self.write_down_calls(sandbox)?;
        }
        self.write_down(sandbox)?;
        let mode = if mode == PauseMode::Full { "full" } else { "filesystem" };
        self.tell(sandbox, EventKind::Paused, Some(mode.to_owned()));
        Ok(())
    }

    /// Finds a sandbox, resumes it if it is paused, and sees to it that it lives
    /// at least this long.
    pub async fn connect(
        &self,
        tenant: &Tenant,
        id: &str,
        life: Option<Duration>,
        mode: ResumeMode,
    ) -> Result<Connected, Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let life = self.life(life)?;
        let resumed = self.resume(&sandbox, life, mode).await?;
        if !resumed {
            self.extend(&sandbox, life)?;
        }
        Ok(Connected { sandbox, resumed })
    }

    /// Lets a paused sandbox run on; `false` when it runs already.
    pub async fn resume(
        &self,
        sandbox: &Arc<Sandbox>,
        life: Duration,
        mode: ResumeMode,
    ) -> Result<bool, Problem> {
        let (actions, sandbox) = (self.clone(), sandbox.clone());
        unhurried(async move {
            let resumed = Box::pin(async {
                let _changing = sandbox.changing.lock().await;
                actions.resume_now(&sandbox, life, mode).await
            });
            let resumed = sandbox.ending.unless_announced(resumed).await?;
            if resumed == Resumed::Rebooted {
                actions.begin(&sandbox).await;
            }
            Ok(resumed != Resumed::RanAlready)
        })
        .await
    }

    async fn resume_now(
        &self,
        sandbox: &Arc<Sandbox>,
        life: Duration,
        mode: ResumeMode,
    ) -> Result<Resumed, Problem> {
        let state = sandbox.state();
        let rebooted =
            mode == ResumeMode::Reboot || matches!(state, State::Paused(Paused::Saved(_)));
        let live = match (state, mode) {
            (State::Running(_), _) => return Ok(Resumed::RanAlready),
            (State::Ended(_), _) => return Err(Problem::unknown_sandbox(sandbox.id().as_str())),
            (State::Paused(Paused::Frozen(live)), ResumeMode::Kept) => {
                thaw(sandbox, &live).await?;
                live
            }
            (State::Paused(Paused::Frozen(live)), ResumeMode::Reboot) => {
                let saved = self.put_away(sandbox, &live).await?;
                self.reboot(sandbox, saved).await?
            }
            (State::Paused(Paused::Suspended(dir)), ResumeMode::Kept) => {
                self.awaken(sandbox, &dir).await?
            }
            (State::Paused(Paused::Suspended(dir)), ResumeMode::Reboot) => {
                let live = self.awaken(sandbox, &dir).await?;
                match self.put_away(sandbox, &live).await {
                    Ok(saved) => self.reboot(sandbox, saved).await?,
                    Err(problem) => {
                        // What is on disk is as it was.
                        self.remove_machine(sandbox, &live).await;
                        return Err(problem);
                    }
                }
            }
            (State::Paused(saved @ Paused::Saved(_)), _) => self.bring_back(sandbox, saved).await?,
        };
        // First, so that its guard never sees it run beyond a deadline of old.
        sandbox.deadline.send_replace(now().plus(life));
        sandbox.set_state(State::Running(live));
        self.write_down(sandbox)?;
        self.forget_saved(sandbox);
        self.tell(sandbox, EventKind::Resumed, None);
        Ok(if rebooted { Resumed::Rebooted } else { Resumed::Thawed })
    }

    /// A new machine for one whose files are on disk, which is written down first.
    async fn reboot(&self, sandbox: &Arc<Sandbox>, saved: Paused) -> Result<Arc<Live>, Problem> {
        sandbox.set_state(State::Paused(saved.clone()));
        self.write_down_calls(sandbox)?;
        self.write_down(sandbox)?;
        self.bring_back(sandbox, saved).await
    }

    /// What runs, for traffic that comes in: resumed first if its owner wished
    /// so. Only what kept its memory is woken: what lost it takes a request of
    /// its own.
    pub async fn wake(&self, sandbox: &Arc<Sandbox>) -> Result<Arc<Live>, Problem> {
        let goes_on =
            matches!(sandbox.state(), State::Paused(Paused::Frozen(_) | Paused::Suspended(_)));
        if goes_on && sandbox.facts().auto_resume {
            self.resume(sandbox, crate::create::DEFAULT_LIFE, ResumeMode::Kept).await?;
        }
        sandbox.live()
    }
}

async fn freeze(sandbox: &Sandbox, live: &Live) -> Result<(), Problem> {
    let frozen = live.machine.pause().await;
    frozen.map_err(|error| sandbox.failed(live, "pause the sandbox", &error))
}

async fn thaw(sandbox: &Sandbox, live: &Live) -> Result<(), Problem> {
    let thawed = live.machine.resume().await;
    thawed.map_err(|error| sandbox.failed(live, "resume the sandbox", &error))
}

/// Goes through with it, whether or not anybody still waits.
pub(crate) async fn unhurried<T: Send + 'static>(
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::spawn(work.in_current_span()).await;
    done.unwrap_or_else(|error| Err(Problem::internal("finish a request", &error)))
}
