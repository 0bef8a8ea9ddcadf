//! A metric with labels: its name, its words and its numbers.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Word;

/// A time that changes both ways.
pub(super) type Seconds = Gauge<f64, AtomicU64>;
/// A sum of parts.
pub(super) type SecondsSpent = Counter<f64, AtomicU64>;

type Labels<const N: usize> = [(&'static str, Word); N];

/// What a metric is, as documentation says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    /// As queries name it: counters with `_total`.
    pub name: &'static str,
    /// What is appended to the name.
    pub suffix: &'static str,
    pub kind: &'static str,
    pub labels: &'static [&'static str],
}

impl Described {
    /// The name as queries have it; histograms add `_bucket`, `_sum` and `_count`.
    pub fn full_name(&self) -> String {
        format!("belljar_{}{}", self.name, self.suffix)
    }
}

/// A kind of metric.
pub(super) trait Kind {
    const KIND: &'static str;
    const SUFFIX: &'static str = "";
}

impl<N, A> Kind for Counter<N, A> {
    const KIND: &'static str = "counter";
    const SUFFIX: &'static str = "_total";
}

impl<N, A> Kind for Gauge<N, A> {
    const KIND: &'static str = "gauge";
}

impl Kind for Histogram {
    const KIND: &'static str = "histogram";
}

/// Makes the numbers of one more combination of words.
#[derive(Clone)]
pub(super) struct Make<M>(fn() -> M);

impl<M> MetricConstructor<M> for Make<M> {
    fn new_metric(&self) -> M {
        (self.0)()
    }
}

pub(super) struct Metric<const N: usize, M> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str; N],
    family: Family<Labels<N>, M, Make<M>>,
}

impl<const N: usize, M> Metric<N, M>
where
    M: Kind + Clone + Default + prometheus_client::registry::Metric,
    Family<Labels<N>, M, Make<M>>: prometheus_client::registry::Metric,
{
    pub(super) fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
    ) -> Self {
        Self::with(name, help, labels, M::default)
    }
}

impl<const N: usize, M> Metric<N, M>
where
    M: Kind + Clone,
    Family<Labels<N>, M, Make<M>>: prometheus_client::registry::Metric,
{
    pub(super) fn with(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
        make: fn() -> M,
    ) -> Self {
        Self { name, help, labels, family: Family::new_with_constructor(Make(make)) }
    }

    /// The numbers for these words, in the order of the labels.
    pub(super) fn at(&self, words: [Word; N]) -> M {
        let mut words = words.into_iter();
        let labels = self.labels.map(|label| (label, words.next().unwrap_or_default()));
        self.family.get_or_create_owned(&labels)
    }

    pub(super) fn enter(&self, registry: &mut Registry) -> Described {
        registry.register(self.name, self.help, self.family.clone());
        Described { name: self.name, suffix: M::SUFFIX, kind: M::KIND, labels: self.labels }
    }
}
