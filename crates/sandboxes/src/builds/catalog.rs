//! What has been built: names, tags, and what becomes of old versions.

use belljar_template::Reference;

use super::{Kind, REMEMBERED, Stop};
use crate::clock::now;
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::start::Actions;
use crate::template::{BuildRecord, BuildStatus, DEFAULT_TAG, Name, Record, Tag, tags};

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    pub template: String,
    /// Everybody's.
    pub public: bool,
}

impl Actions {
    /// Whether there is a template of this name that the tenant may use.
    pub async fn template_alias(&self, tenant: &Tenant, text: &str) -> Result<Alias, Problem> {
        if let Some(known) = self.templates().built_in(text)? {
            return Ok(Alias { template: known.id().to_owned(), public: true });
        }
        let Name { name, tag } = Name::parse(tenant, text)?;
        let mut record = self.own_template(tenant, &name).await?;
        if tag.as_deref().is_some_and(|tag| record.tagged(tag).is_none()) {
            self.meet_anew(tenant).await?;
            record = self.own_template(tenant, &name).await?;
        }
        if let Some(tag) = tag
            && !record.tagged(&tag).is_some_and(|build| build.status == BuildStatus::Ready)
        {
            return Err(unknown_tag(&tag, &name));
        }
        Ok(Alias { template: record.id, public: false })
    }

    /// A tenant's own template, by id or name.
    pub async fn own_template(&self, tenant: &Tenant, name: &str) -> Result<Record, Problem> {
        // Who cannot look around goes on with what is known here.
        let _ = self.meet(tenant).await;
        if let Some(found) = self.templates().own().find(tenant, name) {
            return Ok(found);
        }
        self.meet_anew(tenant).await?;
        if let Some(found) = self.templates().own().find(tenant, name) {
            return Ok(found);
        }
        let message = format!("template '{name}' not found");
        Err(Problem::new(Kind::NotFound, "template_not_found", message))
    }

    /// A tenant's own templates, newest first.
    pub async fn own_templates(&self, tenant: &Tenant) -> Result<Vec<Record>, Problem> {
        self.meet(tenant).await?;
        let mut own = self.templates().own().of(tenant);
        own.sort_by_key(|record| std::cmp::Reverse((record.created_at, record.id.clone())));
        Ok(own)
    }

    /// Gives a build more tags; answers the build's id and the tags.
    pub async fn assign_tags(
        &self,
        tenant: &Tenant,
        target: &str,
        asked: &[String],
    ) -> Result<(String, Vec<String>), Problem> {
        let given = some_tags(asked)?;
        let Name { name, tag } = Name::parse(tenant, target)?;
        let record = self.own_template(tenant, &name).await?;
        let tag = tag.as_deref().unwrap_or(DEFAULT_TAG);
        let build = self.change_template(tenant, &record.id, |record| {
            let build = record.tagged(tag).filter(|build| build.status == BuildStatus::Ready);
            let build = build.ok_or_else(|| unknown_tag(tag, &name))?.id.clone();
            let to = Tag { build: build.clone(), at: now() };
            record.tags.extend(given.iter().map(|tag| (tag.clone(), to.clone())));
            Ok(build)
        });
        Ok((build.await?, given))
    }

    pub async fn remove_tags(
        &self,
        tenant: &Tenant,
        target: &str,
        asked: &[String],
    ) -> Result<(), Problem> {
        let gone = some_tags(asked)?;
        if gone.iter().any(|tag| tag == DEFAULT_TAG) {
            return Err(Problem::invalid(format!("Cannot delete the '{DEFAULT_TAG}' tag")));
        }
        let Name { name, tag } = Name::parse(tenant, target)?;
        if tag.is_some() {
            let message = "Template name should not contain a tag, use the 'tags' field instead";
            return Err(Problem::invalid(message));
        }
        let record = self.own_template(tenant, &name).await?;
        self.change_template(tenant, &record.id, |record| {
            record.tags.retain(|tag, _| !gone.contains(tag));
            Ok(())
        })
        .await
    }

    /// Deletes a tenant's template. Sandboxes of it go on.
    pub async fn delete_template(&self, tenant: &Tenant, name: &str) -> Result<(), Problem> {
        let name = Name::parse(tenant, name)?.name;
        let record = self.own_template(tenant, &name).await?;
        let record = self.remove_template(&record).await?;
        self.stop_builds(&record);
        let gone = record.builds.iter().filter(|build| build.version.is_some());
        self.discard(&record, gone.cloned().collect());
        Ok(())
    }

    /// Ends the builds of a template that is gone.
    pub(crate) fn stop_builds(&self, record: &Record) {
        for known in self.builds().lock().values().filter(|known| known.template == record.id) {
            known.stop.send_replace(Some(Stop::Deleted));
        }
    }

    /// Forgets old builds that no tag names.
    pub(super) async fn prune(&self, record: &Record) {
        let pruned = self.change_template(&record.tenant, &record.id, |record| {
            let tagged: Vec<_> = record.tags.values().map(|tag| tag.build.clone()).collect();
            let over = |build: &BuildRecord| {
                matches!(build.status, BuildStatus::Ready | BuildStatus::Error)
                    && !tagged.contains(&build.id)
            };
            let most = record.builds.iter().filter(|build| over(build)).count();
            let mut left = most.saturating_sub(REMEMBERED);
            let mut gone = Vec::new();
            record.builds.retain(|build| {
                let goes = left > 0 && over(build);
                if goes {
                    left -= 1;
                    gone.push(build.clone());
                }
                !goes
            });
            Ok(gone)
        });
        // Without a record there is nothing left to prune.
        if let Ok(gone) = pruned.await {
            let gone = gone.into_iter().filter(|build| build.version.is_some()).collect();
            self.discard(record, gone);
        }
    }

    /// Removes versions from the store, in the background: it looks at every
    /// layer.
    pub(crate) fn discard(&self, record: &Record, builds: Vec<BuildRecord>) {
        if builds.is_empty() {
            return;
        }
        let name = record.stored_name();
        let store = self.templates().store().clone();
        // The record is gone: what a server that stops left there, no other removes.
        let actions = self.clone();
        self.builds().active.send_modify(|active| *active += 1);
        tokio::task::spawn_blocking(move || {
            for build in builds {
                let reference = format!("{name}@{}", build.version.unwrap_or_default());
                let Ok(reference) = reference.parse::<Reference>() else { continue };
                if let Err(error) = store.remove(&reference) {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot remove template `{reference}`");
                }
            }
            actions.builds().active.send_modify(|active| *active -= 1);
        });
    }
}

fn some_tags(asked: &[String]) -> Result<Vec<String>, Problem> {
    let given = tags(asked)?;
    if given.is_empty() {
        return Err(Problem::invalid("At least one tag is required"));
    }
    Ok(given)
}

fn unknown_tag(tag: &str, name: &str) -> Problem {
    let message = format!("tag '{tag}' does not exist for template '{name}'");
    Problem::new(Kind::NotFound, "template_not_found", message)
}
