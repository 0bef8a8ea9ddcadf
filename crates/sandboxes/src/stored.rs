//! The bytes that this server keeps for tenants.

use std::collections::BTreeMap;

use belljar_domain::{StoredBytes, StoredKind};

use crate::sandbox::{Paused, State};
use crate::snapshots::{file_bytes, on_disk};
use crate::start::Actions;

impl Actions {
    /// Measures volumes, checkpoints, sandboxes on disk and templates, by tenant. It reads
    /// directories, so it belongs on a thread for that.
    pub fn stored_bytes(&self) -> Vec<StoredBytes> {
        let mut sums = BTreeMap::<(String, StoredKind), u64>::new();
        let mut add = |tenant: &str, kind, bytes: u64| {
            let sum = sums.entry((tenant.to_owned(), kind)).or_default();
            *sum = sum.saturating_add(bytes);
        };
        for (tenant, bytes) in self.volumes().stored_bytes() {
            add(tenant.as_str(), StoredKind::Volumes, bytes);
        }
        for (tenant, bytes) in self.snapshots().stored_bytes() {
            add(tenant.as_str(), StoredKind::Checkpoints, bytes);
        }
        for sandbox in self.registry().all() {
            let bytes = match sandbox.state() {
                State::Paused(Paused::Saved(path)) => file_bytes(&path),
                State::Paused(Paused::Suspended(dir)) => on_disk(&dir),
                _ => continue,
            };
            add(sandbox.facts().tenant.as_str(), StoredKind::Checkpoints, bytes);
        }
        match self.templates().store().owned_bytes(&self.templates().own().owners()) {
            Ok(owned) => {
                for (tenant, bytes) in owned {
                    add(&tenant, StoredKind::Templates, bytes);
                }
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "templates not counted");
            }
        }
        let stored = sums.into_iter().filter(|(_, bytes)| *bytes > 0);
        stored.map(|((tenant, kind), bytes)| StoredBytes { tenant, kind, bytes }).collect()
    }
}
