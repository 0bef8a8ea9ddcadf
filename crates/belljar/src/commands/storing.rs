//! Charges the bytes that tenants keep, once an hour.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use belljar_domain::{StoredBytes, StoredKind};
use belljar_journal::{LedgerDirectory, LedgerEntry, stored_run_bytes};
use belljar_runs::Runs;
use belljar_sandboxes::{Actions, Tenant};
use belljar_store::{ChargedStorage, Store, StoredHour, StoredPart};
use belljar_telemetry::metrics;
use tokio::task::JoinHandle;

use super::running;

/// Interval of looks for an hour that is not charged.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// Longest time of a replica for an hour; then another one does it.
const HOUR_LEASE: Duration = Duration::from_secs(900);

/// Charges each hour of a server that is alone, in which it ran for a minute.
pub(super) fn of_server(actions: &Actions, data: &Path, runs: &Runs) -> JoinHandle<()> {
    let server = ServerStorage {
        actions: actions.clone(),
        ledger: running::ledger_of_server(data),
        runs_root: running::runs_of_server(data),
        runs: runs.clone(),
    };
    tokio::spawn(async move {
        let mut charged = None;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let hour = hour_of(SystemTime::now());
            if charged == Some(hour) {
                continue;
            }
            match server.charge(hour).await {
                Ok(()) => charged = Some(hour),
                Err(error) => note_failure(&error),
            }
        }
    })
}

/// Charges each hour of a platform. One replica does it: each part of the hour is leased in the
/// database. Datasets are left to replicas that work on runs.
pub(super) fn of_platform(store: &Store, runs: Option<Runs>) -> JoinHandle<()> {
    let store = store.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if let Err(error) = charge_part(&store, None).await {
                note_failure(&error);
            }
            let Some(runs) = &runs else { continue };
            if let Err(error) = charge_part(&store, Some(runs)).await {
                note_failure(&error);
            }
        }
    })
}

fn note_failure(error: &anyhow::Error) {
    tracing::warn!(error = %format_args!("{error:#}"), "stored bytes not charged; retrying");
}

/// Charges the datasets of `runs`, or without it all that the tables know.
async fn charge_part(store: &Store, runs: Option<&Runs>) -> anyhow::Result<()> {
    let part = if runs.is_some() { StoredPart::Datasets } else { StoredPart::Tables };
    let Some(hour) = store.lease_stored_hour(part, HOUR_LEASE).await? else { return Ok(()) };
    let charged = charge_hour(store, hour, runs).await;
    if charged.is_err()
        && let Err(error) = store.release_stored_hour(hour).await
    {
        // Then the lease expires by itself.
        let error = anyhow::Error::from(error);
        tracing::warn!(error = %format_args!("{error:#}"), "lease of an hour not given back");
    }
    let charged = charged?;
    metrics().charged("storage", charged.nano_dollars);
    tracing::info!(charges = charged.charges, "stored bytes charged");
    Ok(())
}

async fn charge_hour(
    store: &Store,
    hour: StoredHour,
    runs: Option<&Runs>,
) -> anyhow::Result<ChargedStorage> {
    let mut datasets = Listings::default();
    if let Some(runs) = runs {
        for entry in store.tenants().await? {
            let tenant = &entry.tenant.name;
            datasets.add(tenant, dataset_bytes(runs, tenant).await);
        }
    }
    Ok(store.charge_stored(hour, &datasets.usable()?).await?)
}

/// The parts of a server that keep bytes of tenants.
struct ServerStorage {
    actions: Actions,
    ledger: LedgerDirectory,
    runs_root: PathBuf,
    runs: Runs,
}

impl ServerStorage {
    async fn charge(&self, hour: u64) -> anyhow::Result<()> {
        let tenants = self.actions.keys().tenants();
        let mut datasets = Listings::default();
        for tenant in &tenants {
            datasets.add(tenant.as_str(), dataset_bytes(&self.runs, tenant.as_str()).await);
        }
        // The other kinds are charged even if no listing succeeded.
        let mut stored = datasets.stored;
        let (actions, ledger) = (self.actions.clone(), self.ledger.clone());
        let root = self.runs_root.clone();
        let written = tokio::task::spawn_blocking(move || {
            stored.extend(actions.stored_bytes());
            stored.extend(tenants.iter().filter_map(|tenant| run_bytes(&root, tenant)));
            let entries: Vec<_> =
                stored.iter().map(|stored| LedgerEntry::of_stored(stored, hour)).collect();
            ledger.put(&entries)
        });
        written.await?.context("cannot write to the ledger")
    }
}

async fn dataset_bytes(runs: &Runs, tenant: &str) -> anyhow::Result<u64> {
    let files = runs.data().list(tenant).await.context("cannot list datasets")?;
    Ok(files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes)))
}

/// Datasets of the tenants whose files could be listed.
#[derive(Debug, Default)]
struct Listings {
    stored: Vec<StoredBytes>,
    succeeded: usize,
    failure: Option<anyhow::Error>,
}

impl Listings {
    /// Adds what a tenant has. A listing that failed costs no other tenant its place.
    fn add(&mut self, tenant: &str, listed: anyhow::Result<u64>) {
        match listed {
            Ok(bytes) => {
                self.succeeded += 1;
                self.stored.extend(some_bytes(tenant, StoredKind::Datasets, bytes));
            }
            Err(error) => {
                tracing::warn!(tenant, error = %format_args!("{error:#}"), "datasets not counted");
                self.failure = Some(error);
            }
        }
    }

    /// Returns what was listed, or the failure if no listing succeeded.
    fn usable(self) -> anyhow::Result<Vec<StoredBytes>> {
        match self.failure {
            Some(error) if self.succeeded == 0 => Err(error),
            _ => Ok(self.stored),
        }
    }
}

fn run_bytes(root: &Path, tenant: &Tenant) -> Option<StoredBytes> {
    let bytes = stored_run_bytes(root, tenant.as_str());
    some_bytes(tenant.as_str(), StoredKind::Runs, bytes)
}

fn some_bytes(tenant: &str, kind: StoredKind, bytes: u64) -> Option<StoredBytes> {
    let tenant = tenant.to_owned();
    (bytes > 0).then_some(StoredBytes { tenant, kind, bytes })
}

/// Hours since 1970.
fn hour_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 3600
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_that_of_the_ledger() {
        let time = UNIX_EPOCH + Duration::from_secs(3 * 3600 + 3599);
        assert_eq!(hour_of(time), 3);
        let stored = some_bytes("ann", StoredKind::Runs, 7).unwrap();
        let entry = LedgerEntry::of_stored(&stored, hour_of(time));
        assert_eq!((entry.source.as_str(), entry.began), ("stored:runs:3", 10_800_000_000));
        assert_eq!(some_bytes("ann", StoredKind::Runs, 0), None);
    }

    #[test]
    fn runs_are_those_of_the_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(belljar_objects::Digest::of(b"ann").to_string());
        std::fs::create_dir_all(place.join("run")).unwrap();
        std::fs::write(place.join("run/log"), [0; 100]).unwrap();
        std::fs::write(place.join("other"), [0; 11]).unwrap();
        let of = |tenant| run_bytes(folder.path(), &Tenant::new(tenant)).map(|it| it.bytes);
        assert_eq!((of("ann"), of("bob")), (Some(111), None));
    }

    #[test]
    fn a_failing_listing_leaves_other_tenants_charged() {
        let mut listings = Listings::default();
        listings.add("ann", Err(anyhow::anyhow!("no such bucket")));
        listings.add("bob", Ok(7));
        listings.add("cy", Ok(0));
        let stored = listings.usable().unwrap();
        assert_eq!(stored, some_bytes("bob", StoredKind::Datasets, 7).as_slice());
    }

    #[test]
    fn an_hour_is_not_closed_if_no_listing_succeeded() {
        let mut listings = Listings::default();
        assert!(Listings::default().usable().unwrap().is_empty());
        listings.add("ann", Err(anyhow::anyhow!("no such bucket")));
        assert!(listings.usable().is_err());
    }
}
