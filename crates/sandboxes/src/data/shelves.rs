//! Files of tenants that were fetched to this host, to be mounted.
//!
//! ```text
//! <state>/fetched/<SHA-256 of the tenant>/    a shelf of its own
//! ```
//!
//! A tenant gets what lies in its own place among the objects, and nothing else: knowing the
//! digest of another tenant's file opens nothing. A file is fetched when a sandbox first needs it
//! here, once, and removed when none has needed it for a while.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_domain::data::{PLANNED, UPLOADED};
use belljar_objects::{Digest, Objects, ObjectsError, Place, Shelf, ShelfError};

use super::unknown;
use crate::config::Config;
use crate::keys::Tenant;
use crate::private;
use crate::problem::{Kind, Problem};
use crate::shared::{Fetching, away, blocking};

/// How long a sandbox of a platform waits for its files. Meanwhile it takes a turn at control, where
/// only so many sandboxes are made at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// A handle to the shelves; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Shelves(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    /// How long to wait for files; none: however long it takes.
    patience: Option<Duration>,
    /// The source of files; none: no file can be fetched.
    source: Option<Place>,
    scratch: PathBuf,
    /// By the digest of the tenant.
    open: Mutex<HashMap<Digest, Shelf>>,
    fetching: Fetching,
}

impl Shelves {
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        // Not in `datasets`: `belljar ask` may have its own shelf there.
        let root = std::path::absolute(config.state.join("fetched"))?;
        if config.datasets.is_some() {
            private::make_dir(&root)?;
        }
        Ok(Self(Arc::new(Inner {
            root,
            patience: config.is_member.then_some(PATIENCE),
            source: config.datasets.clone(),
            scratch: config.state.join("objects"),
            open: Mutex::default(),
            fetching: Fetching::default(),
        })))
    }

    /// The shelf of a tenant, with these files on it. Fetching goes on if the request gives up: the
    /// next sandbox finds what was fetched.
    pub(crate) async fn bring(
        &self,
        tenant: &Tenant,
        wanted: &[(String, Digest)],
    ) -> Result<Shelf, Problem> {
        let (own, tenant, wanted) = (self.0.clone(), tenant.clone(), wanted.to_vec());
        let bringing = tokio::spawn(async move { own.bring(&tenant, &wanted).await });
        let brought = match self.0.patience {
            None => bringing.await,
            Some(patience) => match tokio::time::timeout(patience, bringing).await {
                Ok(brought) => brought,
                Err(_) => {
                    let message = "the datasets are still being fetched to this host";
                    return Err(Problem::new(Kind::Conflict, "dataset_not_ready", message)
                        .hint("retry later, or write them into the sandbox as files"));
                }
            },
        };
        brought.map_err(|error| Problem::internal("fetch datasets", &error))?
    }

    /// Removes files that were not wanted for so long, but not from the directories that are
    /// `used`; answers how many.
    pub(super) async fn sweep(
        &self,
        used: &HashSet<PathBuf>,
        age: Duration,
    ) -> Result<usize, Problem> {
        self.0.sweep(used, age).await
    }
}

impl Inner {
    async fn bring(&self, tenant: &Tenant, wanted: &[(String, Digest)]) -> Result<Shelf, Problem> {
        let whose = Digest::of(tenant.as_str().as_bytes());
        let shelf = self.shelf(&whose);
        for (_, digest) in wanted {
            let Some(source) = &self.source else { return Err(unknown(digest)) };
            // Also if it is here already: its tenant may have deleted it.
            let place = source.of_tenant(tenant.as_str());
            let objects = find(&place, &self.scratch, digest).await?;
            let _turn = self.fetching.turn(turn(&whose, digest)).await;
            if !touch(&shelf, digest).await? {
                fetch(&objects, &shelf, digest).await?;
            }
        }
        Ok(shelf)
    }

    fn shelf(&self, whose: &Digest) -> Shelf {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = open.entry(*whose);
        shelf.or_insert_with(|| Shelf::new(self.root.join(whose.to_string()))).clone()
    }

    async fn sweep(&self, used: &HashSet<PathBuf>, age: Duration) -> Result<usize, Problem> {
        let root = self.root.clone();
        let tenants = blocking("list datasets", move || tenants(&root)).await?;
        let mut count = 0;
        for whose in tenants {
            let shelf = self.shelf(&whose);
            let listed = shelf.clone();
            for digest in blocking("list datasets", move || listed.list()).await? {
                if used.contains(&self.root.join(whose.to_string()).join(digest.to_string())) {
                    continue;
                }
                let _turn = self.fetching.turn(turn(&whose, &digest)).await;
                let swept = shelf.clone();
                let remove = move || swept.remove_unused(&digest, age);
                count += usize::from(blocking("remove a dataset", remove).await?);
            }
        }
        Ok(count)
    }
}

fn turn(whose: &Digest, digest: &Digest) -> String {
    format!("{whose}/{digest}")
}

/// The tenants that have a shelf here.
fn tenants(root: &Path) -> io::Result<Vec<Digest>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<Digest>().ok()));
    }
    Ok(found)
}

/// Returns false if the file is not on the shelf, or is not what it was.
async fn touch(shelf: &Shelf, digest: &Digest) -> Result<bool, Problem> {
    let (shelf, digest) = (shelf.clone(), *digest);
    blocking("find a dataset", move || match shelf.touch(&digest) {
        Ok(_) => Ok(true),
        Err(ShelfError::Absent(_) | ShelfError::Changed(_)) => Ok(false),
        Err(error) => Err(error),
    })
    .await
}

/// The part of a tenant's place that has a file.
async fn find(place: &Place, scratch: &Path, digest: &Digest) -> Result<Objects, Problem> {
    for part in [UPLOADED, PLANNED] {
        let objects = Objects::open(&place.below(part), scratch);
        let objects = objects.map_err(|error| Problem::internal("open the datasets", &error))?;
        let found = objects.find_blob(digest).await;
        if found.map_err(|error| away("find a dataset", &error))?.is_some() {
            return Ok(objects);
        }
    }
    Err(unknown(digest))
}

/// A fetched file is proven, and proven again when it is on the shelf.
async fn fetch(objects: &Objects, shelf: &Shelf, digest: &Digest) -> Result<(), Problem> {
    let mut file = match objects.get_blob(digest).await {
        Err(ObjectsError::NoBlob(_)) => return Err(unknown(digest)),
        fetched => fetched.map_err(|error| away("fetch a dataset", &error))?,
    };
    let shelf = shelf.clone();
    blocking("keep a dataset", move || shelf.put(&mut file).map(drop)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::show;

    const HOUR: Duration = Duration::from_secs(3600);

    struct World {
        shelves: Shelves,
        place: Place,
        dir: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let place = Place::Directory(dir.path().join("data"));
            let mut config = Config::new(dir.path().join("state"), dir.path().join("store"));
            config.datasets = Some(place.clone());
            Self { shelves: Shelves::open(&config).unwrap(), place, dir }
        }

        /// Keeps a file as a tenant's run would find it.
        async fn upload(&self, tenant: &str, part: &str, text: &str) -> Digest {
            let place = self.place.of_tenant(tenant).below(part);
            let objects = Objects::open(&place, &self.dir.path().join("scratch")).unwrap();
            objects.put_blob(text.as_bytes()).await.unwrap()
        }

        async fn bring(&self, tenant: &str, digest: Digest) -> Result<Shelf, Problem> {
            self.shelves.bring(&Tenant::new(tenant), &[("a.csv".to_owned(), digest)]).await
        }
    }

    #[tokio::test]
    async fn a_file_is_fetched_for_its_tenant_alone() {
        let world = World::new();
        for part in [UPLOADED, PLANNED] {
            let digest = world.upload("one", part, part).await;
            let shelf = world.bring("one", digest).await.unwrap();
            let kept = shelf.find(&digest).unwrap();
            assert_eq!(std::fs::read_to_string(&kept.path).unwrap(), part);
            let data = show(shelf, vec![("a.csv".to_owned(), digest)]).await.unwrap();
            assert_eq!(data.files()[0].identity, kept.identity);
            for other in ["two", "../one", ""] {
                let refused = world.bring(other, digest).await.unwrap_err();
                assert_eq!(refused.code, "dataset_not_found", "{other}");
            }
            // It is here now: the second sandbox gets the same file.
            let again = world.bring("one", digest).await.unwrap().find(&digest).unwrap();
            assert_eq!(again, kept);
        }
        let none = world.bring("one", Digest::of(b"none")).await.unwrap_err();
        assert_eq!(none.code, "dataset_not_found");
    }

    #[tokio::test]
    async fn a_file_that_its_tenant_deleted_is_not_mounted_any_more() {
        let world = World::new();
        let digest = world.upload("one", UPLOADED, "1").await;
        assert!(world.bring("one", digest).await.unwrap().find(&digest).is_ok());
        let place = world.place.of_tenant("one").below(UPLOADED);
        let objects = Objects::open(&place, &world.dir.path().join("scratch")).unwrap();
        objects.delete_blob(&digest).await.unwrap();
        let refused = world.bring("one", digest).await.unwrap_err();
        assert_eq!(refused.code, "dataset_not_found");
    }

    #[tokio::test]
    async fn files_that_no_sandbox_needs_are_removed() {
        let world = World::new();
        let (used, unused) =
            (world.upload("one", UPLOADED, "1").await, world.upload("one", PLANNED, "2").await);
        let shelf = world.bring("one", used).await.unwrap();
        world.bring("one", unused).await.unwrap();
        let data = show(shelf.clone(), vec![("a.csv".to_owned(), used)]).await.unwrap();
        let places: HashSet<PathBuf> = data.places().collect();
        // A sandbox that is being created is not known yet.
        assert_eq!(world.shelves.sweep(&places, HOUR).await.unwrap(), 0);
        assert_eq!(world.shelves.sweep(&places, Duration::ZERO).await.unwrap(), 1);
        assert_eq!(shelf.list().unwrap(), [used]);
        // It is fetched again when it is needed again.
        assert!(world.bring("one", unused).await.unwrap().find(&unused).is_ok());
    }
}
