//! Metrics as text.

use std::borrow::Cow;
use std::sync::Mutex;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::process::Processes;
use super::{Described, metrics};
use crate::start::Role;

/// Which program this is.
pub(super) const BUILD: Described =
    Described { name: "build", suffix: "_info", kind: "info", labels: &["version"] };

/// Everything that is shown.
pub(crate) struct Scrape {
    registry: Registry,
    processes: Mutex<Processes>,
}

impl Scrape {
    pub(crate) fn new(role: Role) -> Self {
        let labels = [(Cow::Borrowed("role"), Cow::Borrowed(role.as_str()))];
        let mut registry = Registry::with_prefix_and_labels("belljar", labels.into_iter());
        metrics().enter(&mut registry);
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register(BUILD.name, "Version of this program", version);
        Self { registry, processes: Mutex::new(Processes::new(role)) }
    }

    pub(crate) fn text(&self) -> String {
        if let Ok(mut processes) = self.processes.lock() {
            processes.look();
        }
        for hook in metrics().hooks().iter() {
            hook(metrics());
        }
        let mut text = String::new();
        // Only a writer that fails makes this fail, and a string does not.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
