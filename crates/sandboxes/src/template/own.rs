//! Templates that tenants had built, and which build each tag means.
//!
//! ```text
//! <state>/templates/<id>.json    one for each
//! ```
//!
//! The files themselves are in the template store, under a name that only the
//! record leads to. Where nodes share templates, finished builds and their tags are
//! what all of them know: see [`crate::shared`].

mod others;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::name::{DEFAULT_TAG, Name, is_build};
use crate::clock::{Moment, now};
use crate::keys::Tenant;
use crate::private;
use crate::problem::{Kind, Problem};

/// A tenant's template.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub tenant: Tenant,
    pub name: String,
    pub created_at: Moment,
    pub updated_at: Moment,
    /// Oldest first.
    pub builds: Vec<BuildRecord>,
    pub tags: BTreeMap<String, Tag>,
    /// Other nodes know of it.
    #[serde(default)]
    pub(crate) is_shared: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BuildRecord {
    pub id: String,
    pub status: BuildStatus,
    pub reason: Option<Reason>,
    /// Its version in the store, once it is ready.
    pub version: Option<String>,
    /// What it is tagged with when it is ready.
    pub tags: Vec<String>,
    pub cpu_count: u32,
    pub memory_mb: u64,
    /// Space for files, if it was asked for.
    #[serde(default)]
    pub disk_mb: Option<u64>,
    pub created_at: Moment,
    pub finished_at: Option<Moment>,
    /// What other nodes make it from; `None`: it is on this one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) packed: Option<belljar_objects::Digest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildStatus {
    /// Nobody has said yet what to build.
    Waiting,
    Building,
    Ready,
    Error,
}

/// Why a build failed, and at which step: `base`, `finalize`, or its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub message: String,
    pub step: Option<String>,
}

/// Which build a tag means, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub build: String,
    pub at: Moment,
}

impl Record {
    /// Under which name the store has it.
    pub(crate) fn stored_name(&self) -> String {
        format!("built-{}", self.id)
    }

    pub(crate) fn build(&self, id: &str) -> Option<&BuildRecord> {
        self.builds.iter().find(|build| build.id == id)
    }

    /// The build that a tag means, or an id.
    pub(crate) fn tagged(&self, tag: &str) -> Option<&BuildRecord> {
        if is_build(tag) {
            return self.build(tag);
        }
        self.build(&self.tags.get(tag)?.build)
    }

    /// The last build that can be used.
    pub(crate) fn newest(&self) -> Option<&BuildRecord> {
        self.builds.iter().rev().find(|build| build.status == BuildStatus::Ready)
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Own {
    dir: PathBuf,
    records: Mutex<BTreeMap<String, Record>>,
}

impl Own {
    /// Reads what there is. A build that was under way when the last server
    /// ended has failed.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let dir = state.join("templates");
        fs::create_dir_all(&dir)?;
        let own = Self { dir, records: Mutex::default() };
        for entry in fs::read_dir(&own.dir)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                fs::remove_file(&path)?;
                continue;
            }
            let mut record: Record = match serde_json::from_slice(&fs::read(&path)?) {
                Ok(record) => record,
                Err(error) => {
                    tracing::error!(%error, "cannot parse template record `{}`", path.display());
                    continue;
                }
            };
            let mut changed = false;
            for build in &mut record.builds {
                if matches!(build.status, BuildStatus::Waiting | BuildStatus::Building) {
                    build.fail(Reason { message: "the server stopped".to_owned(), step: None });
                    changed = true;
                }
            }
            if changed {
                own.write(&record)?;
            }
            own.lock().insert(record.id.clone(), record);
        }
        Ok(own)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, record: &Record) -> io::Result<()> {
        private::write(&self.dir.join(format!("{}.json", record.id)), record)
    }

    /// A tenant's own template, by id or by name. What belongs to another does
    /// not exist.
    pub(crate) fn find(&self, tenant: &Tenant, name: &str) -> Option<Record> {
        let records = self.lock();
        let mut own = records.values().filter(|record| record.tenant == *tenant);
        own.find(|record| record.id == name || record.name == name).cloned()
    }

    /// The tenant of each template, by the name that the store has it under.
    pub(crate) fn owners(&self) -> BTreeMap<String, String> {
        let records = self.lock();
        let owner = |it: &Record| (it.stored_name(), it.tenant.as_str().to_owned());
        records.values().map(owner).collect()
    }

    pub(crate) fn of(&self, tenant: &Tenant) -> Vec<Record> {
        let records = self.lock();
        records.values().filter(|record| record.tenant == *tenant).cloned().collect()
    }

    /// The template of a name like `name:tag`, and the build that is meant.
    pub(crate) fn resolve(
        &self,
        tenant: &Tenant,
        text: &str,
    ) -> Result<Option<(Record, BuildRecord)>, Problem> {
        let Ok(name) = Name::parse(tenant, text) else { return Ok(None) };
        let Some(record) = self.find(tenant, &name.name) else { return Ok(None) };
        let tag = name.tag.as_deref().unwrap_or(DEFAULT_TAG);
        let build = record.tagged(tag).or_else(|| {
            // An id alone means the template itself, tagged or not.
            (name.tag.is_none() && record.id == name.name).then(|| record.newest()).flatten()
        });
        match build.filter(|build| build.status == BuildStatus::Ready).cloned() {
            Some(build) => Ok(Some((record, build))),
            None => {
                let message = format!("tag '{tag}' does not exist for template '{}'", name.name);
                Err(Problem::new(Kind::NotFound, "template_not_found", message))
            }
        }
    }

    /// Adds a template, or finds that of the same name.
    pub(crate) fn add(&self, new: Record, most: usize) -> Result<Record, Problem> {
        let mut records = self.lock();
        let own = || records.values().filter(|record| record.tenant == new.tenant);
        if let Some(known) = own().find(|record| record.name == new.name) {
            return Ok(known.clone());
        }
        if own().count() >= most {
            let message = format!("your quota of {most} templates is used up");
            return Err(Problem::new(Kind::TooMany, "too_many_templates", message));
        }
        self.write(&new).map_err(|error| Problem::internal("record the template", &error))?;
        records.insert(new.id.clone(), new.clone());
        Ok(new)
    }

    /// Changes a tenant's template, here and on disk.
    pub(crate) fn change<T>(
        &self,
        tenant: &Tenant,
        id: &str,
        change: impl FnOnce(&mut Record) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut records = self.lock();
        let found = records.get_mut(id).filter(|record| record.tenant == *tenant);
        let record = found.ok_or_else(|| Problem::not_found("template", id))?;
        let mut changed = record.clone();
        let answer = change(&mut changed)?;
        changed.updated_at = now();
        self.write(&changed).map_err(|error| Problem::internal("record the template", &error))?;
        *record = changed;
        Ok(answer)
    }

    pub(crate) fn remove(&self, tenant: &Tenant, id: &str) -> Result<Record, Problem> {
        let mut records = self.lock();
        let found = records.get(id).filter(|record| record.tenant == *tenant);
        let found = found.cloned().ok_or_else(|| Problem::not_found("template", id))?;
        let path = self.dir.join(format!("{id}.json"));
        fs::remove_file(path).map_err(|error| Problem::internal("delete the template", &error))?;
        records.remove(id);
        Ok(found)
    }
}

impl BuildRecord {
    pub(crate) fn fail(&mut self, reason: Reason) {
        self.status = BuildStatus::Error;
        self.reason = Some(reason);
        self.finished_at = Some(now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, tenant: &str, name: &str) -> Record {
        Record {
            id: id.into(),
            tenant: Tenant::new(tenant),
            name: name.into(),
            created_at: now(),
            updated_at: now(),
            builds: Vec::new(),
            tags: BTreeMap::new(),
            is_shared: false,
        }
    }

    fn build(id: &str, status: BuildStatus) -> BuildRecord {
        BuildRecord {
            id: id.into(),
            status,
            reason: None,
            version: Some("0123456789ab".into()),
            tags: Vec::new(),
            cpu_count: 1,
            memory_mb: 512,
            disk_mb: None,
            created_at: now(),
            finished_at: None,
            packed: None,
        }
    }

    #[test]
    fn one_tenants_templates_are_nothing_to_another() {
        let dir = tempfile::tempdir().unwrap();
        let own = Own::open(dir.path()).unwrap();
        let (one, two) = (Tenant::new("one"), Tenant::new("two"));
        own.add(record("aaa", "one", "app"), 10).unwrap();
        let added = own.add(record("bbb", "two", "app"), 10).unwrap();
        assert_eq!(added.id, "bbb");
        assert_eq!(own.find(&one, "app").unwrap().id, "aaa");
        assert_eq!(own.find(&two, "app").unwrap().id, "bbb");
        assert!(own.find(&two, "aaa").is_none());
        assert!(own.remove(&two, "aaa").is_err());
        assert!(own.change(&two, "aaa", |_| Ok(())).is_err());
        assert!(own.add(record("ccc", "one", "more"), 1).is_err());
        let owners = [("built-aaa", "one"), ("built-bbb", "two")];
        let owners = owners.map(|(name, tenant)| (name.to_owned(), tenant.to_owned()));
        assert_eq!(own.owners(), BTreeMap::from(owners));
    }

    #[test]
    fn tags_survive_a_restart_and_what_was_building_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let tenant = Tenant::new("one");
        let own = Own::open(dir.path()).unwrap();
        own.add(record("aaa", "one", "app"), 10).unwrap();
        own.change(&tenant, "aaa", |record| {
            record.builds =
                vec![build("b1", BuildStatus::Ready), build("b2", BuildStatus::Building)];
            record.tags.insert("v1".into(), Tag { build: "b1".into(), at: now() });
            record.tags.insert("v2".into(), Tag { build: "b2".into(), at: now() });
            Ok(())
        })
        .unwrap();
        let own = Own::open(dir.path()).unwrap();
        let meant = |text| own.resolve(&tenant, text).map(|found| found.map(|(_, build)| build.id));
        assert_eq!(meant("app:v1").unwrap(), Some("b1".into()));
        assert_eq!(meant("one/app:v1").unwrap(), Some("b1".into()));
        // By its id, the newest that can be used; by name, only what is tagged.
        assert_eq!(meant("aaa").unwrap(), Some("b1".into()));
        assert!(meant("app").is_err());
        assert!(meant("app:v2").is_err());
        assert_eq!(meant("other").unwrap(), None);
        let builds = own.find(&tenant, "app").unwrap().builds;
        assert_eq!(builds[1].status, BuildStatus::Error);
    }
}
