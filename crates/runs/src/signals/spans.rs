//! Sums that still change.

use std::collections::BTreeMap;

use belljar_journal::{SpanSums, Sums, span_of};
use time::OffsetDateTime;

/// Sums by tenant and span. Signals are summed in the span in which they come: no span
/// changes once a later one has begun, even if the clock is set back.
#[derive(Debug, Default)]
pub(super) struct OpenSpans {
    latest: Option<OffsetDateTime>,
    spans: BTreeMap<(String, OffsetDateTime), OpenSpan>,
}

#[derive(Debug, Default)]
struct OpenSpan {
    sums: Sums,
    /// How often it changed, and how many changes of it are kept.
    changes: u64,
    kept: u64,
}

impl OpenSpans {
    pub(super) fn add(&mut self, tenant: &str, now: OffsetDateTime, sums: Vec<(String, u64)>) {
        if sums.is_empty() {
            return;
        }
        let from = self.at(now);
        let span = self.spans.entry((tenant.to_owned(), from)).or_default();
        span.changes += 1;
        for (name, sum) in sums {
            let total = span.sums.entry(name).or_default();
            *total = total.saturating_add(sum);
        }
    }

    /// The spans that are not kept as they are, and how often each has changed.
    pub(super) fn changed(&self) -> (Vec<SpanSums>, Vec<u64>) {
        let changed = self.spans.iter().filter(|(_, span)| span.kept < span.changes);
        let spans = changed.map(|((tenant, from), span)| {
            let (tenant, sums) = (tenant.clone(), span.sums.clone());
            (SpanSums { tenant, from: *from, sums }, span.changes)
        });
        spans.unzip()
    }

    /// These are kept. Those that cannot change any more are let go of.
    pub(super) fn kept(&mut self, spans: &[SpanSums], changes: &[u64], now: OffsetDateTime) {
        for (span, changes) in spans.iter().zip(changes) {
            if let Some(open) = self.spans.get_mut(&(span.tenant.clone(), span.from)) {
                open.kept = *changes;
            }
        }
        let latest = self.at(now);
        self.spans.retain(|(_, from), span| *from >= latest || span.kept < span.changes);
    }

    /// The span of now.
    fn at(&mut self, now: OffsetDateTime) -> OffsetDateTime {
        let now = span_of(now);
        let latest = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(latest);
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000 + seconds).unwrap()
    }

    fn turns(sum: u64) -> Vec<(String, u64)> {
        vec![("turns".to_owned(), sum)]
    }

    /// The sums to keep: the whole sum of each span that has changed.
    fn keep(open: &mut OpenSpans, now: i64) -> Vec<(String, i64, u64)> {
        let (spans, changes) = open.changed();
        open.kept(&spans, &changes, at(now));
        let plain = |span: SpanSums| {
            let seconds = span.from.unix_timestamp() - 1_800_000_000;
            (span.tenant, seconds, span.sums["turns"])
        };
        spans.into_iter().map(plain).collect()
    }

    #[test]
    fn each_sum_is_kept_as_a_whole_until_its_span_is_over() {
        let mut open = OpenSpans::default();
        open.add("ann", at(1), turns(1));
        open.add("bob", at(2), turns(2));
        assert_eq!(keep(&mut open, 3), [("ann".to_owned(), 0, 1), ("bob".to_owned(), 0, 2)]);
        assert!(keep(&mut open, 4).is_empty());
        open.add("ann", at(9), turns(4));
        open.add("ann", at(10), turns(8));
        assert_eq!(keep(&mut open, 11), [("ann".to_owned(), 0, 5), ("ann".to_owned(), 10, 8)]);
        // Only what can change is held.
        assert_eq!(open.spans.len(), 1);
        assert!(keep(&mut open, 99).is_empty());
        assert!(open.spans.is_empty());
    }

    #[test]
    fn what_was_not_kept_is_kept_the_next_time() {
        let mut open = OpenSpans::default();
        open.add("ann", at(1), turns(1));
        let (spans, changes) = open.changed();
        // While that was on its way, there was more.
        open.add("ann", at(2), turns(2));
        open.kept(&spans, &changes, at(30));
        assert_eq!(keep(&mut open, 31), [("ann".to_owned(), 0, 3)]);
        // A store that fails keeps nothing.
        open.add("ann", at(32), turns(4));
        let _ = open.changed();
        assert_eq!(keep(&mut open, 60), [("ann".to_owned(), 30, 4)]);
    }

    #[test]
    fn a_clock_that_is_set_back_changes_no_earlier_span() {
        let mut open = OpenSpans::default();
        open.add("ann", at(25), turns(1));
        assert_eq!(keep(&mut open, 31), [("ann".to_owned(), 20, 1)]);
        open.add("ann", at(21), turns(2));
        assert_eq!(keep(&mut open, 22), [("ann".to_owned(), 30, 2)]);
    }
}
