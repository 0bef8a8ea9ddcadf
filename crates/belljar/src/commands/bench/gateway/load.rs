//! Load: as fast as answers come, or at a rate whatever comes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use super::client::{Client, Target, Times};

/// What one round of asking gave.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) answers: u64,
    pub(super) took: Duration,
}

/// When a round of asking ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Passed(Duration),
    Answered(u64),
}

/// Every client asks again as soon as it was answered. Any answer but the right
/// one ends it all.
pub(super) fn closed(target: &Target, clients: u32, until: Until) -> anyhow::Result<Round> {
    let begin = Instant::now();
    let begun = AtomicU64::new(0);
    let goes_on = || match until {
        Until::Passed(time) => begin.elapsed() < time,
        Until::Answered(count) => begun.fetch_add(1, Ordering::Relaxed) < count,
    };
    let one = || -> anyhow::Result<u64> {
        let mut client = Client::connect(target).context("cannot connect")?;
        let mut answers = 0;
        while goes_on() {
            client.ask(target, Instant::now())?;
            answers += 1;
        }
        Ok(answers)
    };
    let counts = at_once(clients, |_| one())?;
    Ok(Round { answers: counts.into_iter().sum(), took: begin.elapsed() })
}

/// Asks `rate` times a second, evenly, whether or not answers keep up. Times are
/// counted from when a request was due, so that nobody is spared by waiting.
pub(super) fn open(
    target: &Target,
    clients: u32,
    rate: f64,
    time: Duration,
) -> anyhow::Result<Vec<Times>> {
    // Connections are made before the clock starts.
    let begin = Instant::now() + Duration::from_millis(200);
    let every = Duration::from_secs_f64(f64::from(clients) / rate);
    let one = |number: u32| -> anyhow::Result<Vec<Times>> {
        let mut client = Client::connect(target).context("cannot connect")?;
        let mut due = begin + every * number / clients;
        let mut times = Vec::new();
        while due < begin + time {
            super::pause(due.saturating_duration_since(Instant::now()));
            times.push(client.ask(target, due)?);
            due += every;
        }
        Ok(times)
    };
    Ok(at_once(clients, one)?.into_iter().flatten().collect())
}

/// Runs as many threads; the first failure of one is everybody's.
fn at_once<T: Send>(
    count: u32,
    one: impl Fn(u32) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let one = &one;
        let all: Vec<_> = (0..count).map(|number| scope.spawn(move || one(number))).collect();
        let died = |_| Err(anyhow!("a client died"));
        all.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    })
}
