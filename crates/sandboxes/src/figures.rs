//! How much a sandbox uses, over time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Moment, now};
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::sandbox::{Live, Sandbox};
use crate::start::Actions;

/// What a sandbox used at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub at: Moment,
    pub cpu_count: f64,
    /// Of what it may use, in per cent; over the time since the last sample.
    pub cpu_percent: f64,
    pub memory_used: u64,
    pub memory_total: u64,
    pub memory_cache: u64,
    pub disk_used: u64,
    pub disk_total: u64,
}

/// Samples of one sandbox, the oldest forgotten first.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    samples: VecDeque<Figures>,
    /// CPU time at the last sample, and since when that machine runs: a
    /// sandbox that was put away comes back with another, which counts anew.
    cpu: Option<(Moment, Duration)>,
}

/// An hour's worth.
const MOST: usize = 720;

const EVERY: Duration = Duration::from_secs(5);

/// A sample that is younger than this is as good as a new one.
const FRESH: Duration = Duration::from_secs(1);

impl History {
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample, unless there is one from just now.
    fn sample(&self, live: &Live) {
        let at = now();
        let mut kept = self.lock();
        let last = kept.samples.back().map(|last| last.at);
        if last.is_some_and(|last| last.plus(FRESH) > at) {
            return;
        }
        let (usage, limits) = (live.machine.usage(), live.machine.limits());
        let cpu = usage.cpu.unwrap_or_default();
        let before = kept.cpu.filter(|(since, _)| *since == live.since).map(|(_, cpu)| cpu);
        let (used, span) = match (before, last) {
            (Some(before), Some(last)) => (cpu.saturating_sub(before), at.since(last)),
            _ => (cpu, at.since(live.since)),
        };
        let cpu_count = f64::from(limits.cpu_millis) / 1000.0;
        let memory = usage.memory_bytes.unwrap_or(0);
        let cache = usage.cache_bytes.unwrap_or(0).min(memory);
        kept.cpu = Some((live.since, cpu));
        kept.add(Figures {
            at,
            cpu_count,
            cpu_percent: percent(used, span, cpu_count),
            memory_used: memory - cache,
            memory_total: usage.memory_limit_bytes,
            memory_cache: cache,
            disk_used: usage.disk_used_bytes.unwrap_or(0),
            disk_total: usage.disk_total_bytes.unwrap_or(limits.disk_bytes),
        });
    }

    fn between(&self, start: Option<Moment>, end: Option<Moment>) -> Vec<Figures> {
        let fits = |figures: &&Figures| {
            start.is_none_or(|start| figures.at >= start) && end.is_none_or(|end| figures.at <= end)
        };
        self.lock().samples.iter().filter(fits).copied().collect()
    }
}

impl Kept {
    fn add(&mut self, figures: Figures) {
        if self.samples.len() >= MOST {
            self.samples.pop_front();
        }
        self.samples.push_back(figures);
    }
}

/// Never more than all of it: two counters are not read in the same instant.
fn percent(used: Duration, span: Duration, cores: f64) -> f64 {
    let could = span.as_secs_f64() * cores;
    if could > 0.0 { (used.as_secs_f64() / could * 100.0).clamp(0.0, 100.0) } else { 0.0 }
}

impl Actions {
    /// What a tenant's own sandbox used between two moments.
    pub async fn figures(
        &self,
        tenant: &Tenant,
        id: &str,
        start: Option<Moment>,
        end: Option<Moment>,
    ) -> Result<Vec<Figures>, Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        if end.is_none_or(|end| end >= now()) {
            sample(vec![sandbox.clone()]).await;
        }
        Ok(sandbox.history.between(start, end))
    }

    /// The newest figures of those of these sandboxes that are the tenant's.
    pub async fn newest_figures(&self, tenant: &Tenant, ids: &[&str]) -> Vec<(String, Figures)> {
        let own = ids.iter().filter_map(|id| self.registry().find(tenant, id).ok());
        let own: Vec<_> = own.collect();
        sample(own.clone()).await;
        let newest = own.iter().filter_map(|sandbox| {
            let newest = sandbox.history.lock().samples.back().copied();
            newest.map(|figures| (sandbox.id().to_string(), figures))
        });
        newest.collect()
    }

    /// Takes samples of all sandboxes, for as long as it is polled.
    pub(crate) async fn keep_figures(&self) {
        loop {
            tokio::time::sleep(EVERY).await;
            sample(self.registry().all()).await;
        }
    }
}

/// Small files are read for it: not on a thread that serves others.
async fn sample(sandboxes: Vec<Arc<Sandbox>>) {
    let taken = tokio::task::spawn_blocking(move || {
        for sandbox in sandboxes {
            if let Ok(live) = sandbox.live() {
                sandbox.history.sample(&live);
            }
        }
    });
    let _ = taken.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at: Moment) -> Figures {
        Figures {
            at,
            cpu_count: 1.0,
            cpu_percent: 0.0,
            memory_used: 0,
            memory_total: 0,
            memory_cache: 0,
            disk_used: 0,
            disk_total: 0,
        }
    }

    #[test]
    fn a_range_holds_both_of_its_ends() {
        let moments: Vec<_> = (0..4).filter_map(Moment::from_unix).collect();
        let history = History::default();
        for moment in &moments {
            history.lock().add(at(*moment));
        }
        let found = history.between(Some(moments[1]), Some(moments[2]));
        assert_eq!(found.iter().map(|figures| figures.at).collect::<Vec<_>>(), &moments[1..=2]);
        assert_eq!(history.between(None, None).len(), 4);
    }

    #[test]
    fn the_oldest_sample_makes_room() {
        let mut kept = Kept::default();
        let seconds = i64::try_from(MOST).unwrap() + 1;
        for moment in (0..seconds).filter_map(Moment::from_unix) {
            kept.add(at(moment));
        }
        assert_eq!(kept.samples.len(), MOST);
        assert_eq!(kept.samples[0].at.unix(), 1);
    }

    #[test]
    fn cpu_is_told_as_a_part_of_what_may_be_used() {
        let second = Duration::from_secs(1);
        assert!((percent(second, 2 * second, 1.0) - 50.0).abs() < 1e-9);
        assert!((percent(second, 2 * second, 0.5) - 100.0).abs() < 1e-9);
        assert!((percent(3 * second, second, 1.0) - 100.0).abs() < 1e-9);
        assert!(percent(second, Duration::ZERO, 1.0).abs() < 1e-9);
    }
}
