//! The retry rule of all suites: a case that failed without deciding anything is run
//! again only if the host stole the CPU during that attempt.
//!
//! What an attempt decided (a breach, a bleed, a broken invariant) is final at any speed.
//! Every attempt that is thrown away is printed, and appended to the case log.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::{CaseLog, CaseOutcome, Starved};

/// A case is run this often at most.
pub const MAX_ATTEMPTS: u32 = 3;

/// A failure that says nothing about what is tested: a time limit passed, or a part that
/// the case needs did not answer. As an error, or as the cause of one.
#[derive(Debug)]
pub struct Undecided(pub String);

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Undecided {}

impl Undecided {
    /// Returns true if one is among the causes of an error.
    pub fn is_in(error: &anyhow::Error) -> bool {
        error.downcast_ref::<Self>().is_some() || error.chain().any(|cause| cause.is::<Self>())
    }
}

/// Leaves a function with [`Undecided`] unless something came in time.
#[macro_export]
macro_rules! ensure_in_time {
    ($is_in_time:expr, $($said:tt)+) => {
        if !$is_in_time {
            return Err($crate::Undecided(format!($($said)+)).into());
        }
    };
}

/// The result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseVerdict {
    Passed,
    /// The case cannot run here.
    Skipped,
    /// It failed, and a repetition would not change that.
    Failed,
    /// It failed for a reason, in words, that may be the host's.
    Undecided(String),
}

/// One attempt at a case, from when it was made.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    number: u32,
    began: Instant,
    starved: Starved,
}

impl Attempt {
    /// Begins the first attempt.
    pub fn first() -> Self {
        Self { number: 1, began: Instant::now(), starved: Starved::begin() }
    }

    /// Returns the share of the CPU that the host has stolen since, if an undecided case
    /// is run again for it.
    pub fn repeats_for_steal(&self) -> Option<f64> {
        self.repeats_for(self.starved.share())
    }

    fn repeats_for(&self, steal: f64) -> Option<f64> {
        (self.number < MAX_ATTEMPTS && Starved::is_too_large(steal)).then_some(steal)
    }

    /// Waits for better times, and begins the next attempt.
    pub async fn next<F: Future<Output = ()>>(self, sleep: impl Fn(Duration) -> F) -> Self {
        Starved::wait(sleep).await;
        Self { number: self.number + 1, ..Self::first() }
    }
}

/// Runs a case, again where the rule says so, and logs every attempt. `sleep` is the
/// caller's, who knows what may block.
pub async fn run_case<T, F: Future<Output = ()>>(
    log: &CaseLog,
    case: &str,
    sleep: impl Fn(Duration) -> F,
    run: impl AsyncFnMut() -> (T, CaseVerdict),
) -> io::Result<T> {
    let next = async |attempt: Attempt| attempt.next(&sleep).await;
    run_until_decided(log, case, |attempt| attempt.repeats_for_steal(), next, run).await
}

/// The same, with the questions for steal and for better times as parameters.
async fn run_until_decided<T>(
    log: &CaseLog,
    case: &str,
    repeats_for_steal: impl Fn(&Attempt) -> Option<f64>,
    next: impl AsyncFn(Attempt) -> Attempt,
    mut run: impl AsyncFnMut() -> (T, CaseVerdict),
) -> io::Result<T> {
    let mut attempt = Attempt::first();
    loop {
        // A case may be as large as it likes, a suite's loop over them not.
        let (value, verdict) = Box::pin(run()).await;
        let took = attempt.began.elapsed();
        let outcome = match verdict {
            CaseVerdict::Passed => CaseOutcome::Passed,
            CaseVerdict::Skipped => CaseOutcome::Skipped,
            CaseVerdict::Failed => CaseOutcome::Failed,
            CaseVerdict::Undecided(why) => {
                if let Some(steal) = repeats_for_steal(&attempt) {
                    print_retry(case, steal, &why);
                    log.retried(case, took, steal, &why)?;
                    attempt = next(attempt).await;
                    continue;
                }
                CaseOutcome::Failed
            }
        };
        log.ended(case, took, outcome)?;
        return Ok(value);
    }
}

/// Prints that an attempt is thrown away.
#[expect(clippy::print_stdout, reason = "the output of a suite is its product")]
pub fn print_retry(case: &str, steal: f64, why: &str) {
    let why = why.lines().next().unwrap_or_default();
    println!("again: {case}: the host stole {:.0} % of the CPU: {why}", 100.0 * steal);
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_undecided_cause_is_found_wherever_it_stands() {
        let late = || anyhow::Error::new(Undecided("too late".to_owned()));
        assert!(Undecided::is_in(&late()));
        assert!(Undecided::is_in(&late().context("the control")));
        let decided = anyhow::anyhow!("another tenant's sandbox was shown");
        assert!(!Undecided::is_in(&decided));
        let marked: anyhow::Result<()> = Err(decided).context(Undecided("503".to_owned()));
        assert!(Undecided::is_in(&marked.unwrap_err()));
    }

    /// Runs a case that always ends like this, while the host steals this share. Returns
    /// the outcomes in the log.
    fn outcomes(verdict: &CaseVerdict, steal: f64) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = CaseLog::at(Some(&path), "suite").unwrap();
        let next = async |attempt: Attempt| Attempt { number: attempt.number + 1, ..attempt };
        let run = async || ((), verdict.clone());
        let ran = run_until_decided(&log, "case", |now| now.repeats_for(steal), next, run);
        block_on(ran).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let outcome = |line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["outcome"].as_str().unwrap().to_owned()
        };
        text.lines().map(outcome).collect()
    }

    #[test]
    fn an_undecided_case_is_repeated_twice_at_most() {
        let late = CaseVerdict::Undecided("late".to_owned());
        assert_eq!(outcomes(&late, 0.21), ["retried", "retried", "failed"]);
    }

    #[test]
    fn without_steal_nothing_is_repeated() {
        let late = CaseVerdict::Undecided("late".to_owned());
        assert_eq!(outcomes(&late, 0.2), ["failed"]);
    }

    #[test]
    fn a_decided_case_is_final_at_any_speed() {
        assert_eq!(outcomes(&CaseVerdict::Failed, 0.9), ["failed"]);
        assert_eq!(outcomes(&CaseVerdict::Passed, 0.9), ["passed"]);
        assert_eq!(outcomes(&CaseVerdict::Skipped, 0.9), ["skipped"]);
    }

    /// Nothing here ever waits.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => value,
            std::task::Poll::Pending => panic!("it waits"),
        }
    }
}
