//! Snapshots: moments of sandboxes, kept to make others from.
//!
//! ```text
//! <state>/snapshots/<id>.json     whose it is, and of what
//! <state>/snapshots/<id>.files    the files of that moment
//! <state>/snapshots/<id>.memory/  or all of it
//! ```
//!
//! A snapshot with interpreters is held in memory and ends with the server; one
//! of files only is on disk and stays, and so is one of a sandbox with a kernel
//! of its own, memory and all.

mod fork;
mod moment;
mod room;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_domain::{ChosenLimits, Data, SecurityProfile, Tier};
use serde::{Deserialize, Serialize};

pub use fork::MOST_FORKS;
pub(crate) use moment::{Taken, cannot_copy, file_bytes, on_disk, save};

use crate::clock::{Moment, now};
use crate::config::Quota;
use crate::events::EventKind;
use crate::keys::Tenant;
use crate::lifecycle::{PauseMode, unhurried};
use crate::list::Page;
use crate::network::Network;
use crate::private;
use crate::problem::{Kind, Problem};
use crate::quarantine;
use crate::sandbox::Sandbox;
use crate::secret::Secret;
use crate::start::Actions;
use crate::template::{Known, Name, Reference};

/// A moment of a sandbox that was kept.
#[derive(Debug)]
pub struct Snapshot {
    pub id: String,
    pub tenant: Tenant,
    pub name: Option<String>,
    /// Of which sandbox.
    pub sandbox: String,
    pub taken_at: Moment,
    pub mode: PauseMode,
    /// What its sandbox was kept in; what is made of it is kept in the same.
    pub tier: Tier,
    /// The rights of root in its sandbox.
    pub(crate) profile: SecurityProfile,
    /// The limits that its sandbox's client chose.
    pub(crate) limits: ChosenLimits,
    /// What its sandbox reached.
    pub(crate) network: Network,
    /// What its sandbox was shown.
    pub(crate) data: Data,
    pub(crate) taken: Taken,
    pub(crate) template: Arc<Known>,
}

/// A snapshot that is on disk, as it is written down.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    id: String,
    tenant: Tenant,
    name: Option<String>,
    sandbox: String,
    taken_at: Moment,
    template: Reference,
    #[serde(default = "crate::sandbox::first_tier")]
    tier: Tier,
    #[serde(default)]
    profile: SecurityProfile,
    #[serde(default)]
    limits: ChosenLimits,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    data: Data,
}

#[derive(Debug)]
pub(crate) struct Snapshots {
    dir: PathBuf,
    /// Whose snapshots are being taken.
    taking: Mutex<Vec<Tenant>>,
    known: Mutex<BTreeMap<String, Arc<Snapshot>>>,
    promises: room::Promises,
}

/// What lies on disk of one.
const EXTENSIONS: [&str; 3] = ["json", "files", "memory"];

impl Snapshots {
    /// Snapshots of all tenants may take `memory` bytes; `None`: half of what the host has.
    pub(crate) fn open(state: &Path, memory: Option<u64>) -> io::Result<Self> {
        let dir = state.join("snapshots");
        private::make_dir(&dir)?;
        let promises = room::Promises::new(memory.unwrap_or_else(room::default_memory));
        Ok(Self { dir, taking: Mutex::default(), known: Mutex::default(), promises })
    }

    /// What the last server wrote down. Files that no record names are removed.
    pub(crate) fn left(&self) -> io::Result<Vec<Record>> {
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if quarantine::is_dir(&path) {
                continue;
            }
            let is_record = path.extension().is_some_and(|extension| extension == "json");
            if !is_record && !path.with_extension("json").exists() {
                private::remove(&path)?;
            }
        }
        private::read_all(&self.dir, quarantine::Kind::Snapshot)
    }

    /// Takes a place for one more, so that snapshots taken at the same time are
    /// not more than the tenant may have.
    fn reserve<'a>(&'a self, tenant: &'a Tenant, quota: &Quota) -> Result<Place<'a>, Problem> {
        let mut taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let most = quota.snapshots;
        let own = self.lock().values().filter(|other| other.tenant == *tenant).count();
        if own + taking.iter().filter(|other| *other == tenant).count() >= most {
            return Err(too_many(&format!("{most} checkpoints")));
        }
        taking.push(tenant.clone());
        Ok(Place { snapshots: self, tenant })
    }

    /// Bytes of all that a tenant keeps, in memory or on disk.
    fn bytes(&self, tenant: &Tenant) -> u64 {
        let known = self.lock();
        let own = known.values().filter(|snapshot| snapshot.tenant == *tenant);
        own.map(|snapshot| snapshot.taken.bytes()).sum()
    }

    /// The bytes of each one, in memory or on disk.
    pub(crate) fn stored_bytes(&self) -> Vec<(Tenant, u64)> {
        let all: Vec<Arc<Snapshot>> = self.lock().values().cloned().collect();
        all.iter().map(|snapshot| (snapshot.tenant.clone(), snapshot.taken.bytes())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Snapshot>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn files(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.files"))
    }

    fn memory(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.memory"))
    }

    /// What is on disk of it.
    fn saved(&self, id: &str) -> Option<Taken> {
        let (files, memory) = (self.files(id), self.memory(id));
        match (memory.is_dir(), files.is_file()) {
            (true, _) => Some(Taken::Whole(memory)),
            (false, true) => Some(Taken::Saved(files)),
            (false, false) => None,
        }
    }

    /// By id, or by name: then the newest of that name.
    pub(crate) fn find(&self, tenant: &Tenant, name: &str) -> Option<Arc<Snapshot>> {
        let known = self.lock();
        let own = || known.values().filter(|snapshot| snapshot.tenant == *tenant);
        let by_id = own().find(|snapshot| snapshot.id == name);
        let name = canonical(tenant, name).ok();
        let named = || own().filter(|snapshot| name.is_some() && snapshot.name == name);
        by_id.or_else(|| named().max_by_key(|snapshot| snapshot.taken_at)).cloned()
    }

    /// The datasets of the sandboxes of all tenants.
    pub(crate) fn data(&self) -> Vec<Data> {
        self.lock().values().map(|snapshot| snapshot.data.clone()).collect()
    }

    fn remove_from_disk(&self, id: &str) -> io::Result<()> {
        // The record last: whatever is left of the rest is known to be somebody's.
        private::remove(&self.files(id))?;
        private::remove(&self.memory(id))?;
        private::remove(&self.record(id))
    }
}

/// A snapshot that may be kept.
struct Place<'a> {
    snapshots: &'a Snapshots,
    tenant: &'a Tenant,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taking = self.snapshots.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = taking.iter().position(|other| other == self.tenant) {
            taking.swap_remove(at);
        }
    }
}

fn too_many(most: &str) -> Problem {
    let message = format!("your quota of {most} is used up");
    Problem::new(Kind::TooMany, "too_many_snapshots", message).hint("delete some first")
}

/// A name as it is kept: without a namespace, and without a tag that says
/// nothing.
fn canonical(tenant: &Tenant, name: &str) -> Result<String, Problem> {
    let Name { name, tag } = Name::parse(tenant, name)?;
    Ok(match tag.filter(|tag| tag != crate::template::DEFAULT_TAG) {
        Some(tag) => format!("{name}:{tag}"),
        None => name,
    })
}

impl Actions {
    /// Keeps a sandbox as it is now; it goes on.
    pub async fn snapshot(
        &self,
        tenant: &Tenant,
        id: &str,
        name: Option<&str>,
        mode: PauseMode,
    ) -> Result<Arc<Snapshot>, Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let name = match name {
            Some(name) => Some(self.free_name(tenant, name).await?),
            None => None,
        };
        let actions = self.clone();
        unhurried(async move { actions.keep(&sandbox, name, mode).await }).await
    }

    /// A template's name stays its own: whoever makes a sandbox by it means the
    /// template.
    async fn free_name(&self, tenant: &Tenant, name: &str) -> Result<String, Problem> {
        let canonical = canonical(tenant, name)?;
        // What other nodes have counts if they can be asked.
        let _ = self.meet(tenant).await;
        let templates = self.templates();
        let own = templates.own().resolve(tenant, &canonical);
        if templates.built_in(&canonical)?.is_some() || matches!(own, Ok(Some(_))) {
            let message = format!("'{canonical}' is the name of a template");
            return Err(Problem::new(Kind::Conflict, "name_taken", message));
        }
        Ok(canonical)
    }

    async fn keep(
        &self,
        sandbox: &Arc<Sandbox>,
        name: Option<String>,
        mode: PauseMode,
    ) -> Result<Arc<Snapshot>, Problem> {
        let tenant = &sandbox.facts().tenant;
        let quota = &self.config().quota;
        let _place = self.snapshots().reserve(tenant, quota)?;
        let random =
            Secret::random().map_err(|error| Problem::internal("generate an id", &error))?;
        let id = format!("snap{}", &random.expose()[..20]);
        let most = quota.snapshot_bytes;
        let (taken, _room) = self.take(sandbox, mode, Some((tenant.clone(), most))).await?;
        // What a tier puts on disk is known only now.
        if self.snapshots().bytes(tenant).saturating_add(taken.bytes()) > most {
            return Err(too_many(&format!("{most} bytes of checkpoints")));
        }
        let taken =
            taken.kept_at(&self.snapshots().files(&id), &self.snapshots().memory(&id)).await?;
        let snapshot = Snapshot {
            id,
            tenant: tenant.clone(),
            name,
            sandbox: sandbox.id().to_string(),
            taken_at: now(),
            mode: taken.mode(),
            tier: sandbox.facts().tier,
            profile: sandbox.facts().profile,
            limits: sandbox.facts().limits,
            network: (*sandbox.network()).clone(),
            data: sandbox.facts().data.clone(),
            taken,
            template: sandbox.template().clone(),
        };
        self.write_snapshot(&snapshot)?;
        let snapshot = Arc::new(snapshot);
        self.snapshots().lock().insert(snapshot.id.clone(), snapshot.clone());
        self.tell(sandbox, EventKind::Snapshot, Some(snapshot.id.clone()));
        Ok(snapshot)
    }

    fn write_snapshot(&self, snapshot: &Snapshot) -> Result<(), Problem> {
        if matches!(snapshot.taken, Taken::Held(_)) {
            return Ok(());
        }
        let record = Record {
            id: snapshot.id.clone(),
            tenant: snapshot.tenant.clone(),
            name: snapshot.name.clone(),
            sandbox: snapshot.sandbox.clone(),
            taken_at: snapshot.taken_at,
            template: Reference::from(&*snapshot.template),
            tier: snapshot.tier,
            profile: snapshot.profile,
            limits: snapshot.limits,
            network: snapshot.network.clone(),
            data: snapshot.data.clone(),
        };
        private::write(&self.snapshots().record(&snapshot.id), &record)
            .map_err(|error| Problem::internal("record the checkpoint", &error))
    }

    /// Knows a snapshot of the last server again. Its files may be gone: then it is too. What it
    /// stood on may be gone: then it is set aside.
    pub(crate) fn know_snapshot(&self, record: Record) -> io::Result<()> {
        let Record {
            id,
            tenant,
            name,
            sandbox,
            taken_at,
            template,
            tier,
            profile,
            limits,
            network,
            data,
        } = record;
        let taken = self.snapshots().saved(&id);
        let template = self.templates().exactly(&template);
        let Some(taken) = taken else { return self.snapshots().remove_from_disk(&id) };
        let template = match template {
            Ok(template) => template,
            Err(problem) => {
                let record = self.snapshots().record(&id);
                return quarantine::set_aside(
                    quarantine::Kind::Snapshot,
                    &record,
                    &EXTENSIONS,
                    &problem,
                );
            }
        };
        let snapshot = Snapshot {
            id: id.clone(),
            tenant,
            name,
            sandbox,
            taken_at,
            mode: taken.mode(),
            tier,
            profile,
            limits,
            network,
            data,
            taken,
            template,
        };
        self.snapshots().lock().insert(id, Arc::new(snapshot));
        Ok(())
    }

    /// Newest first.
    pub fn list_snapshots(
        &self,
        tenant: &Tenant,
        sandbox: Option<&str>,
        name: Option<&str>,
        limit: usize,
        after: Option<&str>,
    ) -> Result<Page<Arc<Snapshot>>, Problem> {
        let name = name.map(|name| canonical(tenant, name)).transpose()?;
        let mut own: Vec<_> = self.snapshots().lock().values().cloned().collect();
        own.retain(|snapshot| {
            snapshot.tenant == *tenant
                && sandbox.is_none_or(|id| snapshot.sandbox == id)
                && (name.is_none() || snapshot.name == name)
        });
        let key = |snapshot: &Arc<Snapshot>| (snapshot.taken_at.unix_micros(), snapshot.id.clone());
        own.sort_by_key(|snapshot| std::cmp::Reverse(key(snapshot)));
        crate::list::page(own, limit, after, key, true)
    }

    /// Sandboxes that were made from it do not need it any more.
    pub fn delete_snapshot(&self, tenant: &Tenant, id: &str) -> Result<(), Problem> {
        let found = self.snapshots().find(tenant, id);
        let found = found.ok_or_else(|| Problem::not_found("snapshot", id))?;
        self.snapshots().lock().remove(&found.id);
        let removed = self.snapshots().remove_from_disk(&found.id);
        removed.map_err(|error| Problem::internal("remove the checkpoint", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_in_one_form() {
        let tenant = Tenant::new("team");
        let canonical = |name| canonical(&tenant, name).ok();
        assert_eq!(canonical("Kept"), Some("kept".into()));
        assert_eq!(canonical("kept:default"), Some("kept".into()));
        assert_eq!(canonical("team/kept:v1"), Some("kept:v1".into()));
        assert_eq!(canonical("other/kept"), None);
        assert_eq!(canonical("a b"), None);
    }
}
