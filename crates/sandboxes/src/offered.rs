//! What a tenant can make sandboxes from.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::keys::Tenant;
use crate::problem::Problem;
use crate::snapshots::Snapshot;
use crate::start::Actions;
use crate::template::Known;

impl Actions {
    /// Templates of everybody and of the tenant's own, each in the version that
    /// its name means.
    pub fn offered(&self, tenant: &Tenant) -> Result<Vec<Arc<Known>>, Problem> {
        let templates = self.templates();
        let stored = templates.store().list();
        let stored = stored.map_err(|error| Problem::internal("read the templates", &error))?;
        let mut all = BTreeMap::new();
        for manifest in stored {
            if let Some(known) = templates.built_in(&manifest.name)? {
                all.insert(known.id().to_owned(), known);
            }
        }
        if let Some(known) = templates.built_in(belljar_template::host::NAME)? {
            all.insert(known.id().to_owned(), known);
        }
        for record in templates.own().of(tenant) {
            // One that was never built is nothing to make a sandbox from.
            if let Ok(known) = templates.find(tenant, &record.id) {
                all.insert(known.id().to_owned(), known);
            }
        }
        Ok(all.into_values().collect())
    }

    /// One template that the tenant may use, by any of its names.
    pub async fn offered_as(&self, tenant: &Tenant, name: &str) -> Result<Arc<Known>, Problem> {
        self.find_template(tenant, name).await
    }

    /// A tenant's own snapshot, by id or name.
    pub fn find_snapshot(&self, tenant: &Tenant, name: &str) -> Result<Arc<Snapshot>, Problem> {
        let found = self.snapshots().find(tenant, name);
        found.ok_or_else(|| Problem::not_found("snapshot", name))
    }
}
