//! Asking for a build.

use std::collections::BTreeMap;
use std::io;

use belljar_domain::MaxLimits;

use super::{MOST_WAITING, NewBuild, Requested};
use crate::clock::now;
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::secret::Secret;
use crate::start::Actions;
use crate::template::{BuildRecord, BuildStatus, DEFAULT_TAG, Name, Record, new_build, tags};

/// What a sandbox can work with.
const LEAST_MEMORY_MB: u64 = 128;

impl Actions {
    /// Takes down that somebody wants to build a template, new or not.
    pub async fn request_build(
        &self,
        tenant: &Tenant,
        wish: &NewBuild,
    ) -> Result<Requested, Problem> {
        self.refuse_when_draining()?;
        let Name { name, tag } = Name::parse(tenant, &wish.name)?;
        let asked: Vec<_> = tag.into_iter().chain(wish.tags.iter().cloned()).collect();
        let mut tags = tags(&asked)?;
        if tags.is_empty() {
            tags.push(DEFAULT_TAG.to_owned());
        }
        if self.templates().is_taken(&name)? {
            let message = format!("the name '{name}' belongs to a template of this server");
            return Err(Problem::new(Kind::Invalid, "name_taken", message)
                .hint("choose another name; to build on that template, use from_template"));
        }
        let (cpu_count, memory_mb) = self.machine_size(wish)?;
        let cannot = |error: io::Error| Problem::internal("generate an id", &error);
        let build = BuildRecord {
            id: new_build().map_err(cannot)?,
            status: BuildStatus::Waiting,
            reason: None,
            version: None,
            tags: tags.clone(),
            cpu_count,
            memory_mb,
            disk_mb: wish.disk_mb,
            created_at: now(),
            finished_at: None,
            packed: None,
        };
        self.meet(tenant).await?;
        let id = Secret::random().map_err(cannot)?.expose()[..20].to_owned();
        let id = self.claim_name(tenant, &name, id).await?;
        let record = Record {
            id,
            tenant: tenant.clone(),
            name: name.clone(),
            created_at: now(),
            updated_at: now(),
            builds: Vec::new(),
            tags: BTreeMap::new(),
            is_shared: false,
        };
        let own = self.templates().own();
        let record = own.add(record, self.config().quota.templates)?;
        let build_id = build.id.clone();
        own.change(tenant, &record.id, |record| {
            let waits = |build: &BuildRecord| build.status == BuildStatus::Waiting;
            if record.builds.iter().filter(|build| waits(build)).count() >= MOST_WAITING {
                let oldest = record.builds.iter().position(waits);
                oldest.map(|oldest| record.builds.remove(oldest));
            }
            record.builds.push(build);
            Ok(())
        })?;
        self.prune(&record).await;
        Ok(Requested { template: record.id, build: build_id, name, tags })
    }

    /// How many CPUs and how much memory sandboxes of the template get.
    fn machine_size(&self, wish: &NewBuild) -> Result<(u32, u64), Problem> {
        let MaxLimits { memory_bytes, cpu_millis, disk_bytes, .. } = self.config().max_limits;
        let (most_cpus, most_memory, most_disk) =
            (cpu_millis / 1000, memory_bytes >> 20, disk_bytes >> 20);
        let cpus = wish.cpu_count.unwrap_or(2.min(most_cpus));
        let memory = wish.memory_mb.unwrap_or(1024.min(most_memory));
        if let Some(disk) = wish.disk_mb.filter(|disk| *disk > most_disk) {
            let message = format!("a template has at most {most_disk} MB of disk, not {disk}");
            return Err(Problem::invalid(message));
        }
        if (1..=most_cpus).contains(&cpus) && (LEAST_MEMORY_MB..=most_memory).contains(&memory) {
            // Files that a sandbox writes are in its memory.
            if wish.disk_mb.is_some_and(|disk| disk > memory) {
                let message = format!("{memory} MB of memory are too little for so many files");
                return Err(Problem::invalid(message).hint("increase memoryMB"));
            }
            return Ok((cpus, memory));
        }
        Err(Problem::invalid(format!(
            "a template has 1 to {most_cpus} CPUs and {LEAST_MEMORY_MB} to {most_memory} MB of \
             memory, not {cpus} and {memory}"
        )))
    }
}
