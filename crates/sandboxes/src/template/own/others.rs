//! What other nodes know of a tenant's templates, and what they say.

use std::collections::BTreeSet;

use super::{BuildRecord, Own, Record};
use crate::keys::Tenant;
use crate::problem::Problem;

impl Record {
    /// What is for other nodes: builds that can be had by all, and their tags.
    pub(crate) fn for_others(&self) -> Self {
        let mut told = self.clone();
        told.builds.retain(|build| build.packed.is_some());
        told.tags.retain(|_, tag| told.builds.iter().any(|build| build.id == tag.build));
        told
    }

    /// Takes over what others say of builds that all can have; what is only here
    /// stays. Answers the builds that are nobody's any more.
    fn absorb(&mut self, said: Self) -> Vec<BuildRecord> {
        let is_said = |build: &BuildRecord| said.builds.iter().any(|other| other.id == build.id);
        let (mut kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.builds)
            .into_iter()
            .filter(|build| !is_said(build))
            .partition(|build| build.packed.is_none());
        let here: BTreeSet<_> = kept.iter().map(|build| build.id.clone()).collect();
        self.tags.retain(|name, tag| here.contains(&tag.build) && !said.tags.contains_key(name));
        self.tags.extend(said.tags);
        kept.extend(said.builds);
        kept.sort_by_key(|build| build.created_at);
        self.builds = kept;
        self.name = said.name;
        self.created_at = said.created_at;
        self.updated_at = said.updated_at;
        self.is_shared = true;
        gone.into_iter().filter(|build| build.version.is_some()).collect()
    }
}

impl Own {
    pub(crate) fn by_id(&self, tenant: &Tenant, id: &str) -> Option<Record> {
        self.lock().get(id).filter(|record| record.tenant == *tenant).cloned()
    }

    /// Whose templates are known here.
    pub(crate) fn tenants(&self) -> BTreeSet<Tenant> {
        self.lock().values().map(|record| record.tenant.clone()).collect()
    }

    /// Puts a record that is known already into the place of its older self.
    pub(crate) fn replace(&self, record: Record) -> Result<(), Problem> {
        let mut records = self.lock();
        self.write(&record).map_err(|error| Problem::internal("record the template", &error))?;
        records.insert(record.id.clone(), record);
        Ok(())
    }

    /// Takes over what another node said, and answers the builds that are gone.
    pub(crate) fn absorb(&self, said: Record) -> Result<Vec<BuildRecord>, Problem> {
        let mut records = self.lock();
        let (record, gone) = match records.get(&said.id) {
            Some(known) if known.tenant != said.tenant => {
                return Err(Problem::not_found("template", &said.id));
            }
            Some(known) => {
                let mut record = known.clone();
                let gone = record.absorb(said);
                (record, gone)
            }
            None => (Record { is_shared: true, ..said.for_others() }, Vec::new()),
        };
        self.write(&record).map_err(|error| Problem::internal("record the template", &error))?;
        records.insert(record.id.clone(), record);
        Ok(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BuildStatus, Tag};
    use super::*;
    use crate::clock::now;

    fn build(id: &str, status: BuildStatus, shared: bool) -> BuildRecord {
        BuildRecord {
            id: id.into(),
            status,
            version: Some("0123456789ab".into()),
            packed: shared.then(|| belljar_objects::Digest::of(id.as_bytes())),
            reason: None,
            tags: Vec::new(),
            cpu_count: 1,
            memory_mb: 512,
            disk_mb: None,
            created_at: now(),
            finished_at: None,
        }
    }

    fn record(builds: Vec<BuildRecord>, tags: &[(&str, &str)]) -> Record {
        let tag = |(name, build): &(&str, &str)| {
            ((*name).to_owned(), Tag { build: (*build).to_owned(), at: now() })
        };
        Record {
            id: "aaa".into(),
            tenant: Tenant::new("one"),
            name: "app".into(),
            created_at: now(),
            updated_at: now(),
            builds,
            tags: tags.iter().map(tag).collect(),
            is_shared: true,
        }
    }

    #[test]
    fn others_hear_only_of_what_they_can_have() {
        let ready = build("b1", BuildStatus::Ready, true);
        let here = build("b2", BuildStatus::Building, false);
        let told = record(vec![ready, here], &[("v1", "b1"), ("v2", "b2")]).for_others();
        assert_eq!(told.builds.len(), 1);
        assert_eq!(told.tags.keys().collect::<Vec<_>>(), ["v1"]);
    }

    #[test]
    fn what_others_dropped_goes_and_what_is_only_here_stays() {
        let dir = tempfile::tempdir().unwrap();
        let own = Own::open(dir.path()).unwrap();
        let ready = |id| build(id, BuildStatus::Ready, true);
        let here = build("b9", BuildStatus::Ready, false);
        let first = vec![ready("b1"), ready("b2"), here];
        own.replace(record(first, &[("v1", "b1"), ("v2", "b2"), ("mine", "b9")])).unwrap();
        let said = record(vec![ready("b2"), ready("b3")], &[("v1", "b3")]);
        let gone = own.absorb(said).unwrap();
        assert_eq!(gone.iter().map(|build| &build.id[..]).collect::<Vec<_>>(), ["b1"]);
        let known = own.by_id(&Tenant::new("one"), "aaa").unwrap();
        let mut ids: Vec<_> = known.builds.iter().map(|build| &build.id[..]).collect();
        ids.sort();
        assert_eq!(ids, ["b2", "b3", "b9"]);
        assert_eq!(known.tags["v1"].build, "b3");
        assert_eq!(known.tags["mine"].build, "b9");
        assert!(!known.tags.contains_key("v2"));
        assert!(own.by_id(&Tenant::new("two"), "aaa").is_none());
    }
}
