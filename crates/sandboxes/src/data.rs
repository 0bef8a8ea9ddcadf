//! Datasets that sandboxes are shown.

mod shelves;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::{Data, Tier};
use belljar_objects::{Digest, Shelf, ShelfError};

use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::start::Actions;

pub(crate) use shelves::Shelves;

/// How often files are looked for that no sandbox needs.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);
/// How long a file stays after it was last wanted.
const UNUSED_AGE: Duration = Duration::from_secs(3600);

impl Actions {
    /// Returns true if a sandbox of the tenant, made of a template with this tier, can mount files
    /// of the tenant.
    pub fn mounts_files(&self, tenant: &Tenant, template: Option<Tier>) -> bool {
        let has_files = self.config().shelf.is_some() || self.config().datasets.is_some();
        has_files && self.choose_tier(tenant, None, template).is_ok_and(Tier::shows_files)
    }

    /// What a new sandbox is to be shown, found and proven.
    pub(crate) async fn shown(
        &self,
        tenant: &Tenant,
        tier: Tier,
        wanted: &[(String, Digest)],
    ) -> Result<Data, Problem> {
        if wanted.is_empty() {
            return Ok(Data::default());
        }
        if !tier.shows_files() {
            let message = format!("sandboxes of the tier `{tier}` cannot mount datasets");
            let problem = Problem::new(Kind::Unsupported, "datasets_not_shown", message);
            return Err(problem.hint("write them into the sandbox as files"));
        }
        let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
        Data::check(&names).map_err(|unfit| Problem::invalid(unfit.to_string()))?;
        let shelf = match &self.config().shelf {
            Some(shelf) => shelf.clone(),
            None => self.shelves().bring(tenant, wanted).await?,
        };
        show(shelf, wanted.to_vec()).await
    }

    /// Removes files that were fetched and that no sandbox and no checkpoint needs.
    pub(crate) async fn sweep_shelves(&self) {
        if self.config().datasets.is_none() {
            return;
        }
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            match self.shelves().sweep(&self.shown_places(), UNUSED_AGE).await {
                Ok(0) | Err(_) => {}
                Ok(count) => tracing::info!("removed {count} unused datasets"),
            }
        }
    }

    /// The directories whose files a sandbox or a checkpoint needs.
    fn shown_places(&self) -> HashSet<PathBuf> {
        let sandboxes = self.registry().all();
        let shown = sandboxes.iter().map(|sandbox| sandbox.facts().data.clone());
        let shown: Vec<Data> = shown.chain(self.snapshots().data()).collect();
        shown.iter().flat_map(Data::places).collect()
    }
}

async fn show(shelf: Shelf, wanted: Vec<(String, Digest)>) -> Result<Data, Problem> {
    // To read them takes as long as it takes.
    let shown = tokio::task::spawn_blocking(move || shelf.show(&wanted)).await;
    let shown = shown.map_err(|error| Problem::internal("find datasets", &error))?;
    shown.map_err(|error| match error {
        ShelfError::Absent(digest) | ShelfError::Changed(digest) => unknown(&digest),
        ShelfError::Unfit(unfit) => Problem::invalid(unfit.to_string()),
        ShelfError::Read { .. } | ShelfError::Keep { .. } => {
            Problem::internal("find datasets", &error)
        }
    })
}

fn unknown(digest: &Digest) -> Problem {
    let message = format!("dataset {digest} not found");
    Problem::new(Kind::NotFound, "dataset_not_found", message)
        .hint("upload it with POST /v1/data, or write it into the sandbox as a file")
}
