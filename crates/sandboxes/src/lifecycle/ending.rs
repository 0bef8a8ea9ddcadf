//! The end of a sandbox, announced before it comes.
//!
//! Whoever changes a sandbox holds its lock, for minutes if a machine is written to disk. What
//! ends the sandbox does not wait for that: it announces the end, and whoever holds the lock, or
//! waits for it, gives up at once. Work that is given up is dropped where it stands; what it had
//! begun ends with the sandbox.
//!
//! ```text
//!            deadline                 kill, shutdown, lost lease
//!   alive ─────────────► due ───┐
//!     │ ◄── extended ─────┘     ▼
//!     └─────────────────────► ending (reason)
//! ```
//!
//! At its deadline a sandbox gives up what would leave it running: snapshots, forks, changes of
//! its network. A pause that is under way is what its owner wanted in time, and comes to its end,
//! which has limits of its own.

use belljar_domain::EndReason;
use tokio::sync::watch;

use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alive,
    Due,
    Ending(EndReason),
}

#[derive(Debug)]
pub(crate) struct Ending {
    stage: watch::Sender<Stage>,
}

impl Default for Ending {
    fn default() -> Self {
        Self { stage: watch::Sender::new(Stage::Alive) }
    }
}

impl Ending {
    /// Announces the end, and answers the reason of the first who did.
    pub(crate) fn announce(&self, reason: EndReason) -> EndReason {
        let mut first = reason;
        self.stage.send_if_modified(|stage| match *stage {
            Stage::Ending(known) => {
                first = known;
                false
            }
            Stage::Alive | Stage::Due => {
                *stage = Stage::Ending(reason);
                true
            }
        });
        first
    }

    /// Says that the deadline has passed, or, if `is_due` is false, that there is another.
    pub(crate) fn set_due(&self, is_due: bool) {
        let wanted = if is_due { Stage::Due } else { Stage::Alive };
        self.stage.send_if_modified(|stage| {
            let changes = !matches!(stage, Stage::Ending(_)) && *stage != wanted;
            if changes {
                *stage = wanted;
            }
            changes
        });
    }

    pub(crate) fn is_announced(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Ending(_))
    }

    /// Does `work`, or gives it up when the sandbox is to end.
    pub(crate) async fn unless_announced<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        self.unless(work, |stage| matches!(stage, Stage::Ending(_))).await
    }

    /// As [`Self::unless_announced`], and gives up at the deadline, too.
    pub(crate) async fn unless_due<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        self.unless(work, |stage| *stage != Stage::Alive).await
    }

    async fn unless<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
        gives_up: impl FnMut(&Stage) -> bool,
    ) -> Result<T, Problem> {
        let mut stage = self.stage.subscribe();
        tokio::select! {
            biased;
            // The sender lives as long as `self`.
            _ = stage.wait_for(gives_up) => Err(Problem::gone()),
            done = work => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn the_first_reason_stays() {
        let ending = Ending::default();
        assert_eq!(ending.announce(EndReason::Killed), EndReason::Killed);
        assert_eq!(ending.announce(EndReason::Lost), EndReason::Killed);
        ending.set_due(false);
        assert!(ending.is_announced());
    }

    #[tokio::test]
    async fn work_is_given_up_when_the_end_is_announced() {
        let ending = Ending::default();
        let given_up = ending.unless_announced(pending::<Result<(), Problem>>());
        let announced = async { ending.announce(EndReason::Killed) };
        let (given_up, _) = tokio::join!(given_up, announced);
        assert_eq!(given_up.unwrap_err().code, "sandbox_gone");
        // Also what begins only then.
        assert!(ending.unless_due(async { Ok(()) }).await.is_err());
    }

    #[tokio::test]
    async fn at_the_deadline_only_what_leaves_it_running_is_given_up() {
        let ending = Ending::default();
        ending.set_due(true);
        assert!(ending.unless_due(async { Ok(()) }).await.is_err());
        assert!(ending.unless_announced(async { Ok(()) }).await.is_ok());
        ending.set_due(false);
        assert!(ending.unless_due(async { Ok(()) }).await.is_ok());
    }
}
