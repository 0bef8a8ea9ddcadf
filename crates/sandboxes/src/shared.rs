//! Templates that every node has.
//!
//! ```text
//! records/templates/<tenant>/<id>   names, tags, finished builds: the truth
//!         names/<tenant>/<name>     which id a name belongs to
//!         layers/<whose>/<digest>   which blob holds a layer
//!         garbage                   blobs that nothing names: see [`collect`]
//! blobs/                            packed layers, and what a build is made of
//! ```
//!
//! A tenant stands there as the hash of its name, so that no name leads to
//! another's. What this node knows of a tenant is at most [`FRESH`] old when it is
//! used; what others changed or deleted is taken over then. Content is fetched when
//! it is first needed, once, and proven before it is used.

mod carry;
mod collect;
mod fetch;
mod meet;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_objects::{Objects, ObjectsError, OpenError, Version};
use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::secret::hex;
pub(crate) use carry::blocking;

/// How old what is known of a tenant's records may be.
const FRESH: Duration = Duration::from_secs(1);

/// How often a change is tried against those of others.
const TRIES: usize = 20;

#[derive(Debug)]
pub(crate) struct Shared {
    objects: Objects,
    /// One change or look at a time for each tenant: whoever compared what is there
    /// with what is known here must not be overtaken by a change from here.
    views: Mutex<HashMap<Tenant, Arc<tokio::sync::Mutex<View>>>>,
    fetching: Fetching,
}

/// What was seen of a tenant's records.
#[derive(Debug, Default)]
pub(crate) struct View {
    at: Option<Instant>,
    versions: HashMap<String, Version>,
}

/// What is being fetched, so that it is fetched once.
#[derive(Debug, Default)]
pub(crate) struct Fetching(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Shared {
    pub(crate) fn open(config: &Config) -> Result<Option<Self>, OpenError> {
        let Some(place) = &config.objects else { return Ok(None) };
        let objects = Objects::open(place, &config.state.join("objects"))?;
        Ok(Some(Self { objects, views: Mutex::default(), fetching: Fetching::default() }))
    }

    fn view(&self, tenant: &Tenant) -> Arc<tokio::sync::Mutex<View>> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        views.entry(tenant.clone()).or_default().clone()
    }
}

impl Fetching {
    /// Waits until nobody else fetches this.
    pub(crate) async fn turn(&self, what: String) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, lock| Arc::strong_count(lock) > 1);
            all.entry(what).or_default().clone()
        };
        lock.lock_owned().await
    }
}

/// A tenant's name may hold anything; its hash is a plain name.
fn place_of(tenant: &Tenant) -> String {
    hex(&Sha256::digest(tenant.as_str()))[..32].to_owned()
}

fn templates_of(tenant: &Tenant) -> String {
    format!("templates/{}", place_of(tenant))
}

fn record_of(tenant: &Tenant, id: &str) -> String {
    format!("{}/{id}", templates_of(tenant))
}

fn claim_of(tenant: &Tenant, name: &str) -> String {
    // A name of dots and the like would be no name of a record.
    format!("names/{}/n-{name}", place_of(tenant))
}

/// The objects cannot be reached, and what depends on them has to wait; or they are
/// not what they should be.
pub(crate) fn away(attempted: &str, error: &ObjectsError) -> Problem {
    // Logs all of it.
    let Problem { message, hint, .. } = Problem::internal(attempted, error);
    let problem = match error {
        ObjectsError::NoBlob(_) | ObjectsError::WrongDigest { .. } => {
            Problem::new(Kind::Internal, "objects_damaged", message)
        }
        _ => Problem::new(Kind::Busy, "objects_unavailable", message),
    };
    Problem { hint, ..problem }
}

#[cfg(test)]
mod tests;
