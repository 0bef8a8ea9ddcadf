//! Asking again, for whoever wants to.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::error::{Error, Outcome};

/// How often, and after which pauses, something is asked for again.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// All together.
    pub attempts: u32,
    /// Before the second; it doubles.
    pub first: Duration,
    pub longest: Duration,
    /// Whether that is also done when nobody knows whether it was done: for what
    /// only reads, or bears a key.
    pub repeats_unknown: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            attempts: 5,
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            repeats_unknown: false,
        }
    }
}

impl Backoff {
    /// For what does the same however often it is done.
    pub fn of_safe() -> Self {
        Self { repeats_unknown: true, ..Self::default() }
    }

    /// Asks until there is an answer, or asking again is of no use.
    pub async fn run<T, A>(self, mut ask: impl FnMut() -> A) -> Result<T, Error>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let mut pause = self.first;
        for _ in 1..self.attempts {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.outcome() {
                Outcome::NotNow => {}
                Outcome::Unknown if self.repeats_unknown => {}
                Outcome::Unknown | Outcome::Refused => return Err(error),
            }
            let asked_for = match &error {
                Error::Problem(problem) => problem.retry_after,
                _ => None,
            };
            tokio::time::sleep(scattered(pause).max(asked_for.unwrap_or_default())).await;
            pause = (pause * 2).min(self.longest);
        }
        ask().await
    }
}

/// Between a half and all of it: those who were turned away together must not
/// come back together.
fn scattered(pause: Duration) -> Duration {
    let share = RandomState::new().hash_one(()) % 512;
    pause.mul_f64(0.5 + f64::from(u16::try_from(share).unwrap_or_default()) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Transport;

    async fn asked(backoff: Backoff, mut errors: Vec<Error>) -> (u32, Result<(), Error>) {
        let mut times = 0;
        errors.reverse();
        let quick = Backoff { first: Duration::from_millis(1), ..backoff };
        let answer = quick
            .run(|| {
                times += 1;
                std::future::ready(errors.pop().map_or(Ok(()), Err))
            })
            .await;
        (times, answer)
    }

    fn unreachable() -> Error {
        Transport::Connect("refused".into()).into()
    }

    fn cut() -> Error {
        Transport::BrokeOff("reset".into()).into()
    }

    #[tokio::test]
    async fn only_what_was_surely_not_done_is_asked_for_again() {
        let (times, answer) = asked(Backoff::default(), vec![unreachable(), unreachable()]).await;
        assert_eq!((times, answer.is_ok()), (3, true));
        let (times, answer) = asked(Backoff::default(), vec![cut()]).await;
        assert_eq!((times, answer.is_ok()), (1, false));
        let (times, answer) = asked(Backoff::of_safe(), vec![cut(), unreachable()]).await;
        assert_eq!((times, answer.is_ok()), (3, true));
        let (times, answer) = asked(Backoff::of_safe(), vec![Error::SandboxGone]).await;
        assert_eq!((times, answer.is_ok()), (1, false));
        let (times, answer) = asked(Backoff::of_safe(), (0..9).map(|_| cut()).collect()).await;
        assert_eq!((times, answer.is_ok()), (5, false));
    }
}
