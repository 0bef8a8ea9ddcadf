//! Volumes: files that outlive sandboxes.
//!
//! ```text
//! <state>/volumes/<id>.json       whose it is, its name, its token
//! <state>/volumes/<id>/files/     what it holds
//! <state>/volumes/<id>/moving/    what is on its way in or out
//! ```
//!
//! Nobody but the server can look into these directories, so files in them may
//! belong to any user without anything on the host being theirs. Ids of owners
//! are those that a sandbox would see.

mod entry;
mod tree;
mod write;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

pub use entry::{VolumeEntry, VolumeEntryKind};
pub use tree::VolumeOwner;
pub use write::Incoming;

use crate::clock::{Moment, now};
use crate::keys::Tenant;
use crate::private;
use crate::problem::{Kind, Problem};
use crate::quarantine;
use crate::secret::Secret;
use crate::start::Actions;
use tree::{Measure, Path as Inside, Tree};

/// One volume.
#[derive(Debug)]
pub struct Volume {
    record: Record,
    dir: PathBuf,
    tree: Tree,
    most_bytes: u64,
    /// What is taken; counted when it is first asked for.
    taken: Mutex<Option<Measure>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    id: String,
    tenant: Tenant,
    name: String,
    token: Secret,
    created_at: Moment,
}

#[derive(Debug)]
pub(crate) struct Volumes {
    dir: PathBuf,
    most_bytes: u64,
    known: Mutex<BTreeMap<String, Arc<Volume>>>,
}

const LONGEST_NAME: usize = 128;

/// Entries of one volume: files, directories and links.
const MOST_ENTRIES: u64 = 1_000_000;

impl Volumes {
    pub(crate) fn open(state: &Path, most_bytes: u64) -> io::Result<Self> {
        let dir = state.join("volumes");
        private::make_dir(&dir)?;
        let mut known = BTreeMap::new();
        for record in private::read_all::<Record>(&dir, quarantine::Kind::Volume)? {
            let volume = Volume::open(&dir, record, most_bytes)?;
            known.insert(volume.record.id.clone(), Arc::new(volume));
        }
        Ok(Self { dir, most_bytes, known: Mutex::new(known) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Volume>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create(&self, tenant: &Tenant, name: &str, most: usize) -> Result<Arc<Volume>, Problem> {
        check_name(name)?;
        let mut known = self.lock();
        let own = || known.values().filter(|volume| volume.record.tenant == *tenant);
        if own().any(|volume| volume.record.name == name) {
            let message = format!("Volume with name '{name}' already exists");
            return Err(Problem::new(Kind::Conflict, "volume_exists", message));
        }
        if own().count() >= most {
            let message = format!("your quota of {most} volumes is used up");
            return Err(Problem::new(Kind::TooMany, "too_many_volumes", message));
        }
        let random =
            || Secret::random().map_err(|error| Problem::internal("generate an id", &error));
        let record = Record {
            id: format!("vol{}", &random()?.expose()[..20]),
            tenant: tenant.clone(),
            name: name.to_owned(),
            token: random()?,
            created_at: now(),
        };
        let made = private::write(&self.dir.join(format!("{}.json", record.id)), &record)
            .and_then(|()| Volume::open(&self.dir, record, self.most_bytes));
        let made = made.map_err(|error| Problem::internal("create a volume", &error))?;
        let made = Arc::new(made);
        known.insert(made.record.id.clone(), made.clone());
        Ok(made)
    }

    /// The bytes of each volume. One that cannot be measured is left out.
    pub(crate) fn stored_bytes(&self) -> Vec<(Tenant, u64)> {
        let all: Vec<Arc<Volume>> = self.lock().values().cloned().collect();
        let measured = all
            .iter()
            .filter_map(|volume| Some((volume.record.tenant.clone(), volume.stored_bytes().ok()?)));
        measured.collect()
    }

    fn find(&self, tenant: &Tenant, id: &str) -> Result<Arc<Volume>, Problem> {
        let known = self.lock();
        let found = known.get(id).filter(|volume| volume.record.tenant == *tenant);
        found.cloned().ok_or_else(|| unknown(id))
    }

    /// Takes a volume away; whoever still uses it finds nothing below it.
    fn delete(&self, tenant: &Tenant, id: &str) -> Result<(), Problem> {
        let found = self.find(tenant, id)?;
        let record = self.dir.join(format!("{id}.json"));
        let gone = std::fs::remove_file(record).and_then(|()| {
            self.lock().remove(id);
            std::fs::remove_dir_all(&found.dir)
        });
        gone.map_err(|error| Problem::internal("remove the volume", &error))
    }
}

fn unknown(id: &str) -> Problem {
    Problem::new(Kind::NotFound, "volume_not_found", format!("volume '{id}' not found"))
}

fn full(of: &str) -> Problem {
    let message = format!("the volume is full: its limit is {of}");
    Problem::new(Kind::NoSpace, "volume_full", message)
}

fn check_name(name: &str) -> Result<(), Problem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    let message =
        format!("a volume's name is 1 to {LONGEST_NAME} letters, digits, _ and -, not {name:?}");
    Err(Problem::invalid(message))
}

impl Volume {
    fn open(dir: &Path, record: Record, most_bytes: u64) -> io::Result<Self> {
        let dir = dir.join(&record.id);
        private::make_dir(&dir)?;
        for part in ["files", "moving"] {
            private::make_dir(&dir.join(part))?;
        }
        // What was on its way when a server ended arrives no more.
        for left in std::fs::read_dir(dir.join("moving"))? {
            let path = left?.path();
            if path.is_dir() && !path.is_symlink() {
                std::fs::remove_dir_all(path)?;
            } else {
                std::fs::remove_file(path)?;
            }
        }
        let tree = Tree::open(&dir.join("files"))?;
        Ok(Self { record, dir, tree, most_bytes, taken: Mutex::default() })
    }

    pub fn id(&self) -> &str {
        &self.record.id
    }

    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// What whoever reads and writes its content must show.
    pub fn token(&self) -> &Secret {
        &self.record.token
    }

    pub fn stat(&self, path: &str) -> Result<VolumeEntry, Problem> {
        self.tree.stat(&Inside::parse(path)?)
    }

    pub fn list(&self, path: &str, depth: u32) -> Result<Vec<VolumeEntry>, Problem> {
        self.tree.list(&Inside::parse(path)?, depth)
    }

    /// Opens a regular file to be read; answers its size as well.
    pub fn read(&self, path: &str) -> Result<(std::fs::File, u64), Problem> {
        self.tree.read(&Inside::parse(path)?)
    }

    pub fn make_dir(
        &self,
        path: &str,
        owner: VolumeOwner,
        force: bool,
    ) -> Result<VolumeEntry, Problem> {
        let path = Inside::parse(path)?;
        self.take_room(Measure { bytes: 0, entries: 1 })?;
        let (made, entries) = self.tree.make_dir(&path, owner, force);
        // One was taken; there may be more of them, or none.
        self.count(Measure { bytes: 0, entries }, Measure { bytes: 0, entries: 1 });
        made
    }

    pub fn change(&self, path: &str, owner: VolumeOwner) -> Result<VolumeEntry, Problem> {
        self.tree.change(&Inside::parse(path)?, owner)
    }

    /// Removes a file, or a directory with all that is in it.
    pub fn remove(&self, path: &str) -> Result<(), Problem> {
        let path = Inside::parse(path)?;
        let cannot = |error: io::Error| Problem::internal("remove from the volume", &error);
        let random = Secret::random().map_err(cannot)?;
        // Out of sight in one step; what is inside goes by a path of our own.
        let trash = self.dir.join("moving").join(random.expose());
        self.tree.take_out(&path, &trash)?;
        let about = std::fs::symlink_metadata(&trash).map_err(cannot)?;
        let freed = if about.is_dir() {
            let inside = Tree::open(&trash).and_then(|tree| tree.measure()).map_err(cannot)?;
            std::fs::remove_dir_all(&trash).map_err(cannot)?;
            inside
        } else {
            std::fs::remove_file(&trash).map_err(cannot)?;
            Measure { bytes: about.len(), entries: 0 }
        };
        self.count(Measure::default(), Measure { entries: freed.entries + 1, ..freed });
        Ok(())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        let mut taken = self.taken();
        let now = match *taken {
            Some(now) => now,
            None => self.tree.measure()?,
        };
        *taken = Some(now);
        Ok(now.bytes)
    }

    /// Takes room for more. Whoever writes does so before, so that all together
    /// cannot take more than there is.
    fn take_room(&self, more: Measure) -> Result<(), Problem> {
        let mut taken = self.taken();
        let now = match *taken {
            Some(now) => now,
            None => {
                let counted = self.tree.measure();
                counted.map_err(|error| Problem::internal("measure the volume", &error))?
            }
        };
        *taken = Some(now);
        let then = now.plus(more);
        if then.bytes > self.most_bytes {
            return Err(full(&format!("{} bytes", self.most_bytes)));
        }
        if then.entries > MOST_ENTRIES {
            return Err(full(&format!("{MOST_ENTRIES} entries")));
        }
        *taken = Some(then);
        Ok(())
    }

    /// Corrects what is taken.
    fn count(&self, more: Measure, less: Measure) {
        let mut taken = self.taken();
        *taken = taken.map(|now| now.plus(more).minus(less));
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Option<Measure>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Actions {
    pub fn create_volume(&self, tenant: &Tenant, name: &str) -> Result<Arc<Volume>, Problem> {
        self.volumes().create(tenant, name, self.config().quota.volumes)
    }

    pub fn volume(&self, tenant: &Tenant, id: &str) -> Result<Arc<Volume>, Problem> {
        self.volumes().find(tenant, id)
    }

    /// All of a tenant's volumes, by name.
    pub fn list_volumes(&self, tenant: &Tenant) -> Vec<Arc<Volume>> {
        let known = self.volumes().lock();
        let own = known.values().filter(|volume| volume.record.tenant == *tenant);
        let mut own: Vec<_> = own.cloned().collect();
        own.sort_by(|one, other| one.name().cmp(other.name()));
        own
    }

    pub fn delete_volume(&self, tenant: &Tenant, id: &str) -> Result<(), Problem> {
        self.volumes().delete(tenant, id)
    }

    /// The volume that this is the token of. A wrong token and a volume that is
    /// not there are the same to whoever asks.
    pub fn volume_content(&self, id: &str, token: &str) -> Result<Arc<Volume>, Problem> {
        let found = self.volumes().lock().get(id).cloned();
        found.filter(|volume| volume.record.token.is(token)).ok_or_else(|| unknown(id))
    }
}

#[cfg(test)]
mod tests;
