//! What a run has used.

use crate::event::{Body, Tokens};

/// Sums over events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub tokens: Tokens,
    pub nano_dollars: u64,
    pub calls: u64,
    pub cpu_micros: u64,
    /// Time of models and of calls; how long the run waited is not in it.
    pub model_micros: u64,
    pub call_micros: u64,
    pub output_bytes: u64,
    pub peak_bytes: u64,
    pub network_bytes: u64,
}

impl Spent {
    pub(super) fn add(&mut self, body: &Body) {
        match body {
            Body::LlmResponded(answer) => {
                self.tokens.add(&answer.tokens);
                self.nano_dollars = self.nano_dollars.saturating_add(answer.nano_dollars);
                self.model_micros = self.model_micros.saturating_add(answer.micros);
            }
            Body::LlmFailed(failed) => {
                self.nano_dollars = self.nano_dollars.saturating_add(failed.nano_dollars);
                self.model_micros = self.model_micros.saturating_add(failed.micros);
            }
            Body::ToolFinished(finished) => {
                let used = &finished.used;
                self.calls += 1;
                self.cpu_micros = self.cpu_micros.saturating_add(used.cpu_micros);
                self.call_micros = self.call_micros.saturating_add(used.wall_micros);
                self.output_bytes = self.output_bytes.saturating_add(used.output_bytes);
                self.peak_bytes = self.peak_bytes.max(used.peak_bytes.unwrap_or(0));
            }
            Body::NetworkUsed(used) => {
                let bytes = used.bytes.out.saturating_add(used.bytes.into);
                self.network_bytes = self.network_bytes.saturating_add(bytes);
            }
            _ => {}
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.tokens.add(&other.tokens);
        self.nano_dollars = self.nano_dollars.saturating_add(other.nano_dollars);
        self.calls += other.calls;
        self.cpu_micros = self.cpu_micros.saturating_add(other.cpu_micros);
        self.model_micros = self.model_micros.saturating_add(other.model_micros);
        self.call_micros = self.call_micros.saturating_add(other.call_micros);
        self.output_bytes = self.output_bytes.saturating_add(other.output_bytes);
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        self.network_bytes = self.network_bytes.saturating_add(other.network_bytes);
    }
}
