//! A database with a tenant and three nodes.

use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::{SandboxId, Tier};
use belljar_store::{
    NewSandbox, Quota, Registered, Registration, Requested, SandboxRow, Store, StoreError,
};
use serde_json::Value;

use crate::case::Case;
use crate::client::History;

pub(super) const TENANT: &str = "t";
pub(super) const LIFE: Duration = Duration::from_secs(300);
const LEASE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(super) struct Bench {
    pub(super) store: Store,
    nodes: Vec<Registered>,
}

/// An id that nobody else has: what it is for, and the attempt.
pub(super) fn id(number: u8, attempt: u8) -> SandboxId {
    let mut bytes = [7; 16];
    (bytes[0], bytes[1]) = (number, attempt);
    SandboxId::from_random(bytes)
}

impl Bench {
    pub(super) async fn make(case: &mut Case) -> anyhow::Result<Self> {
        let store = case.store().await?;
        let quota = Quota { sandboxes: 500, longest_life: Duration::from_secs(3600) };
        store.put_tenant(TENANT, None, quota).await?;
        let mut nodes = Vec::new();
        for name in ["n1", "n2", "n3"] {
            let mut key = [7; 32];
            key[..name.len()].copy_from_slice(name.as_bytes());
            let number = store.add_node(name).await?.number;
            store.add_enrolment_token(number, &key, LEASE).await?;
            store.enrol(&key, name, &key).await?;
            let new = Registration {
                number,
                public_key: &key,
                name,
                address: "https://127.0.0.1:9",
                tiers: &[Tier::Jail],
                slots: 100,
                max_limits: None,
                lease: LEASE,
            };
            nodes.push(store.register(&new).await?.context("it is enrolled")?);
        }
        Ok(Self { store, nodes })
    }

    pub(super) fn node(&self, number: u16) -> u16 {
        self.nodes[usize::from(number) % self.nodes.len()].number
    }

    pub(super) async fn ask(
        &self,
        store: &Store,
        key: &str,
        id: SandboxId,
    ) -> Result<Requested, StoreError> {
        let new = NewSandbox {
            id: &id,
            tenant: TENANT,
            template: "base",
            tier: None,
            facts: &Value::Null,
            request: Some((key, [9; 32])),
        };
        store.request(&new).await
    }

    pub(super) async fn request_as(
        &self,
        history: &History,
        key: &str,
        id: SandboxId,
    ) -> anyhow::Result<SandboxRow> {
        match self.ask(&self.store, key, id).await? {
            Requested::Made(row) | Requested::Repeated(row) => {
                history.pretend(key, row.id.as_str());
                Ok(row)
            }
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// Nobody outside has seen its id yet: it may change until it starts.
    pub(super) async fn request(
        &self,
        _history: &History,
        key: &str,
        number: u8,
    ) -> anyhow::Result<SandboxRow> {
        match self.ask(&self.store, key, id(number, 0)).await? {
            Requested::Made(row) => Ok(row),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// One that runs, and its epoch.
    pub(super) async fn running(
        &self,
        history: &History,
        number: u8,
    ) -> anyhow::Result<(SandboxId, u64)> {
        let key = format!("key-{number}");
        let row = self.request_as(history, &key, id(number, 0)).await?;
        let placed =
            self.store.place(TENANT, &row.id, row.epoch, &row.id, self.node(number.into()));
        let epoch = placed.await?.context("it cannot be placed")?;
        self.store.started(TENANT, &row.id, epoch, LIFE).await?;
        Ok((row.id, epoch))
    }
}
