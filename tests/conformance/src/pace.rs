//! How much longer things may take where the machine inside is slow.
//!
//! Cases say how long something may take on the host's own processor and
//! kernel. An emulated processor is 15 to 20 times slower, and a kernel in user
//! space pays for each system call; this is the one place that knows. The suite's
//! own machine may be emulated, too (`.ci/v2`); then it has to be told.

use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::{EndReason, Tier};
use belljar_node::{Command, Sandbox};

/// A factor for every time that a case allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace(u32);

/// Slower than this is broken, not slow.
const SLOWEST: u32 = 40;

/// The variable that says that this machine's own processor is emulated.
const EMULATED: &str = "BELLJAR_EMULATED";

/// The time that the work takes on a processor that is not.
const REAL: Duration = Duration::from_millis(100);

/// Programs that start and end, which is what cases do most.
const WORK: &str = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i + 1)); done";

impl Pace {
    /// Full speed: where the host's kernel runs the code, there is no excuse.
    pub(crate) const FULL: Self = Self(1);

    /// Finds the factor by doing the same work in a sandbox and bare.
    pub(crate) async fn find(tier: Tier, sandbox: &Sandbox) -> anyhow::Result<Self> {
        if tier.shares_kernel() {
            let is_emulated = std::env::var_os(EMULATED).is_some();
            return if is_emulated { Ok(Self::of(work()?, REAL)) } else { Ok(Self::FULL) };
        }
        let command = Command { wall: Some(Duration::from_secs(120)), ..Command::shell(WORK) };
        let started = Instant::now();
        let end = sandbox.execute(&command).await.context("measure the pace")?.end;
        let inside = started.elapsed();
        ensure!(end.reason == EndReason::Done, "the measuring call ended by {}", end.reason);
        Ok(Self::of(inside, work()?))
    }

    fn of(inside: Duration, bare: Duration) -> Self {
        let ratio = inside.as_micros().div_ceil(bare.as_micros().max(1));
        Self(u32::try_from(ratio).unwrap_or(SLOWEST).clamp(1, SLOWEST))
    }

    pub(crate) fn within(self, time: Duration) -> Duration {
        time * self.0
    }

    pub(crate) fn print(self, tier: Tier) {
        if self != Self::FULL {
            println!("{tier}: programs start {} times as slowly as bare; so may all else", self.0);
        }
    }
}

/// Does the work bare, and returns how long it took.
fn work() -> anyhow::Result<Duration> {
    let started = Instant::now();
    let status = Program::new("/bin/sh").args(["-c", WORK]).stdin(Stdio::null()).status()?;
    ensure!(status.success(), "the measuring program failed: {status}");
    Ok(started.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_is_whole_and_bounded() {
        let millis = Duration::from_millis;
        assert_eq!(Pace::of(millis(90), millis(100)), Pace(1));
        assert_eq!(Pace::of(millis(1010), millis(100)), Pace(11));
        assert_eq!(Pace::of(Duration::from_secs(900), millis(100)), Pace(SLOWEST));
        assert_eq!(Pace(3).within(millis(20)), millis(60));
    }
}
