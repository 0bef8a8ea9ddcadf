//! Metrics of workflows.

use std::fmt;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::family::{Described, Metric};

/// Counts of the workflows and step attempts that this process saw end.
pub struct WorkflowMetrics {
    ended: Metric<1, Counter>,
    steps: Metric<2, Counter>,
}

impl WorkflowMetrics {
    pub(super) fn new() -> Self {
        Self {
            ended: Metric::new("workflows_ended", "Workflows that ended, by outcome", &["outcome"]),
            steps: Metric::new(
                "workflow_steps",
                "Attempts at steps of workflows that ended, by kind and outcome",
                &["kind", "outcome"],
            ),
        }
    }

    pub(super) fn enter(&self, registry: &mut Registry) -> Vec<Described> {
        let Self { ended, steps } = self;
        vec![ended.enter(registry), steps.enter(registry)]
    }

    /// A workflow ended: `done`, `failed`, `exhausted` or `cancelled`.
    pub fn ended(&self, outcome: &'static str) {
        self.ended.at([outcome.into()]).inc();
    }

    /// An attempt at a step ended: `done`, `failed`, `lost` or `cancelled`.
    pub fn step_ended(&self, kind: &'static str, outcome: &'static str) {
        self.steps.at([kind.into(), outcome.into()]).inc();
    }
}

impl fmt::Debug for WorkflowMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkflowMetrics").finish_non_exhaustive()
    }
}
