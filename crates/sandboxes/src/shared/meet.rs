//! What nodes tell each other about a tenant's templates.

use std::time::{Instant, SystemTime};

use belljar_objects::{Expected, Version};

use super::collect::PATIENCE;
use super::{FRESH, Shared, TRIES, View, away, claim_of, record_of, templates_of};
use crate::clock::now;
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::start::Actions;
use crate::template::{BuildRecord, Own, Record};

/// Versions that a record does not name any more.
pub(super) type Gone = Vec<(Record, Vec<BuildRecord>)>;

impl Shared {
    /// Takes over what others changed since the last look, unless that was not before
    /// `since`.
    pub(super) async fn meet(
        &self,
        own: &Own,
        tenant: &Tenant,
        since: Option<Instant>,
    ) -> Result<Gone, Problem> {
        let view = self.view(tenant);
        let mut view = view.lock().await;
        if view.at.is_some_and(|at| since.is_some_and(|since| at >= since)) {
            return Ok(Gone::new());
        }
        let began = Instant::now();
        let listed = self.objects.list_records(&templates_of(tenant)).await;
        let listed = listed.map_err(|error| away("list templates", &error))?;
        let mut gone = Gone::new();
        let mut there = Vec::new();
        for (name, version) in listed {
            let id = name.rsplit('/').next().unwrap_or_default().to_owned();
            // It becomes the name of a file here.
            if !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                continue;
            }
            if view.versions.get(&id) != Some(&version) {
                match self.read(tenant, &id).await? {
                    Seen::Record(record, version) => {
                        gone.extend(absorb(own, &mut view, *record, version)?);
                    }
                    Seen::Unreadable => {}
                    Seen::Nothing => continue,
                }
            }
            there.push(id);
        }
        for record in own.of(tenant) {
            if record.is_shared && !there.contains(&record.id) {
                view.versions.remove(&record.id);
                gone.extend(forget(own, &record)?);
            }
        }
        view.at = Some(began);
        Ok(gone)
    }

    async fn read(&self, tenant: &Tenant, id: &str) -> Result<Seen, Problem> {
        let found = self.objects.get_record(&record_of(tenant, id)).await;
        let found = found.map_err(|error| away("find a template", &error))?;
        let Some((content, version)) = found else { return Ok(Seen::Nothing) };
        match serde_json::from_slice::<Record>(&content) {
            Ok(record) if record.tenant == *tenant && record.id == id => {
                Ok(Seen::Record(Box::new(record), version))
            }
            Ok(_) => {
                tracing::error!(id, "template record belongs to another tenant");
                Ok(Seen::Unreadable)
            }
            Err(error) => {
                tracing::error!(%error, id, "cannot parse template record");
                Ok(Seen::Unreadable)
            }
        }
    }

    /// Changes a template here and for everybody. The change is made again when
    /// another node was quicker.
    pub(super) async fn change<T>(
        &self,
        own: &Own,
        (tenant, id): (&Tenant, &str),
        mut change: impl FnMut(&mut Record) -> Result<T, Problem>,
    ) -> Result<(T, Gone), Problem> {
        let view = self.view(tenant);
        let mut view = view.lock().await;
        let mut gone = Gone::new();
        for _ in 0..TRIES {
            let expected = match self.read(tenant, id).await? {
                Seen::Record(record, version) => {
                    gone.extend(absorb(own, &mut view, *record, version.clone())?);
                    Expected::Is(version)
                }
                Seen::Unreadable => return Err(Problem::not_found("template", id)),
                Seen::Nothing => {
                    let known = own.by_id(tenant, id);
                    let known = known.ok_or_else(|| Problem::not_found("template", id))?;
                    if known.is_shared {
                        // Deleted on another node.
                        view.at = None;
                        return Err(Problem::not_found("template", id));
                    }
                    Expected::Absent
                }
            };
            let before = own.by_id(tenant, id);
            let before = before.ok_or_else(|| Problem::not_found("template", id))?;
            let mut after = before.clone();
            let answer = change(&mut after)?;
            // What only this node knows is told to nobody: a build under way.
            let told = after.for_others();
            let is_known = match expected {
                Expected::Absent => told.builds.is_empty(),
                Expected::Is(_) => written(&told)? == written(&before.for_others())?,
            };
            after.updated_at = now();
            if is_known {
                own.replace(after)?;
                return Ok((answer, gone));
            }
            after.is_shared = true;
            let content = written(&after.for_others())?;
            let name = record_of(tenant, id);
            if expected == Expected::Absent {
                self.claim(tenant, &after.name, id).await?;
            }
            match self.objects.put_record(&name, content, &expected).await {
                Ok(version) => {
                    own.replace(after)?;
                    view.versions.insert(id.to_owned(), version);
                    return Ok((answer, gone));
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(away("record the template", &error)),
            }
        }
        Err(Problem::conflict("too many concurrent changes of the template; retry"))
    }

    /// The id that a name belongs to: this one, unless it is taken.
    pub(super) async fn claim(
        &self,
        tenant: &Tenant,
        name: &str,
        id: &str,
    ) -> Result<String, Problem> {
        let claim = claim_of(tenant, name);
        let cannot = |error| away("claim the name of a template", &error);
        for _ in 0..TRIES {
            let mine = id.as_bytes().to_vec();
            match self.objects.put_record(&claim, mine, &Expected::Absent).await {
                Ok(_) => return Ok(id.to_owned()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(cannot(error)),
            }
            // Gone again meanwhile: then it is free.
            if let Some((theirs, _)) = self.objects.get_record(&claim).await.map_err(cannot)?
                && let Ok(theirs) = String::from_utf8(theirs)
            {
                return Ok(theirs);
            }
        }
        Err(Problem::conflict("too many concurrent claims of the name; retry"))
    }

    /// Deletes a template for everybody, and here.
    pub(super) async fn delete(&self, own: &Own, record: &Record) -> Result<Record, Problem> {
        let view = self.view(&record.tenant);
        let mut view = view.lock().await;
        let cannot = |error| away("delete the template", &error);
        let name = record_of(&record.tenant, &record.id);
        self.objects.delete_record(&name).await.map_err(cannot)?;
        let claim = claim_of(&record.tenant, &record.name);
        self.objects.delete_record(&claim).await.map_err(cannot)?;
        view.versions.remove(&record.id);
        own.remove(&record.tenant, &record.id)
    }
}

fn written(record: &Record) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(record).map_err(|error| Problem::internal("write a record", &error))
}

enum Seen {
    Record(Box<Record>, Version),
    /// Left alone: perhaps a newer version of Belljar wrote it.
    Unreadable,
    Nothing,
}

fn absorb(own: &Own, view: &mut View, record: Record, version: Version) -> Result<Gone, Problem> {
    let id = record.id.clone();
    let gone = own.absorb(record.clone())?;
    view.versions.insert(id, version);
    Ok(if gone.is_empty() { Gone::new() } else { vec![(record, gone)] })
}

/// Somebody deleted it on another node.
fn forget(own: &Own, record: &Record) -> Result<Gone, Problem> {
    let record = own.remove(&record.tenant, &record.id)?;
    let builds = record.builds.iter().filter(|build| build.version.is_some()).cloned().collect();
    Ok(vec![(record, builds)])
}

impl Actions {
    /// Takes over what other nodes changed of a tenant's templates, up to [`FRESH`]
    /// ago.
    pub(crate) async fn meet(&self, tenant: &Tenant) -> Result<(), Problem> {
        self.meet_since(tenant, Instant::now().checked_sub(FRESH)).await
    }

    /// The same, up to now: for who looks for what is not known here. Those that ask
    /// at the same time share one look.
    pub(crate) async fn meet_anew(&self, tenant: &Tenant) -> Result<(), Problem> {
        self.meet_since(tenant, Some(Instant::now())).await
    }

    async fn meet_since(&self, tenant: &Tenant, since: Option<Instant>) -> Result<(), Problem> {
        let Some(shared) = self.templates().shared() else { return Ok(()) };
        let gone = shared.meet(self.templates().own(), tenant, since).await?;
        self.discard_all(gone);
        Ok(())
    }

    /// Changes a tenant's template, on every node that has it.
    pub(crate) async fn change_template<T>(
        &self,
        tenant: &Tenant,
        id: &str,
        mut change: impl FnMut(&mut Record) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let own = self.templates().own();
        let Some(shared) = self.templates().shared() else {
            return own.change(tenant, id, change);
        };
        let (answer, gone) = shared.change(own, (tenant, id), &mut change).await?;
        self.discard_all(gone);
        Ok(answer)
    }

    /// Removes a tenant's template from every node.
    pub(crate) async fn remove_template(&self, record: &Record) -> Result<Record, Problem> {
        let own = self.templates().own();
        match self.templates().shared() {
            Some(shared) => shared.delete(own, record).await,
            None => own.remove(&record.tenant, &record.id),
        }
    }

    /// Under which id a new template of this name goes: its own, or that which
    /// another node has given out.
    pub(crate) async fn claim_name(
        &self,
        tenant: &Tenant,
        name: &str,
        id: String,
    ) -> Result<String, Problem> {
        let Some(shared) = self.templates().shared() else { return Ok(id) };
        if self.templates().own().find(tenant, name).is_some() {
            return Ok(id);
        }
        shared.claim(tenant, name, &id).await
    }

    /// Drops what was deleted elsewhere, also of tenants that ask for nothing here,
    /// and what nothing names any more.
    pub(crate) async fn follow_objects(&self) {
        let Some(shared) = self.templates().shared() else { return };
        loop {
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
            for tenant in self.templates().own().tenants() {
                // Whoever found that they are away has said so.
                let _ = self.meet(&tenant).await;
            }
            match shared.collect(SystemTime::now(), PATIENCE).await {
                Ok(0) | Err(_) => {}
                Ok(count) => tracing::info!("removed {count} unused objects"),
            }
        }
    }

    fn discard_all(&self, gone: Gone) {
        for (record, builds) in gone {
            if self.templates().own().by_id(&record.tenant, &record.id).is_none() {
                self.stop_builds(&record);
            }
            self.discard(&record, builds);
        }
    }
}
