//! What engines on one host share: numbered leases, and the reclaiming of what
//! a dead engine left.
//!
//! A lease is a locked file `leases/<n>`. It stands for [`SLOTS`] ranges of user
//! ids that no other live sandbox has, and the first lease of an engine is also
//! its number, which names its cgroups. The kernel drops the lock with the last
//! process that holds it, so an unlocked file means that its owner is gone and
//! that whatever it left can be killed and removed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_sys::{lock, tree};

use crate::cgroup::Hierarchies;

/// Ranges of user ids in one lease.
pub(crate) const SLOTS: u32 = 16;

/// The first user id of the first range: far above what hosts hand out.
const FIRST_UID: u32 = 0x1000_0000;

/// As many leases as fit below the largest user id.
const MOST_LEASES: u32 = (u32::MAX - FIRST_UID) / crate::jail::parent::IDS / SLOTS;

/// Where root's engines meet.
const ROOTS: &str = "/run/belljar";

/// The directory that all engines of this user share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub(crate) dir: PathBuf,
}

impl State {
    /// Opens the directory, making it if need be. Others may pass through it,
    /// because sandboxes have user ids of their own, but not look into it.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let parts = [
            (dir.to_owned(), 0o711),
            (dir.join("leases"), 0o700),
            (dir.join("base"), 0o711),
            (dir.join("dev"), 0o755),
            (dir.join("work"), 0o711),
            (dir.join("oci"), 0o755),
        ];
        for (part, mode) in parts {
            fs::DirBuilder::new().recursive(true).mode(mode).create(part)?;
        }
        let user = rustix::process::geteuid();
        let found = fs::metadata(dir)?;
        if found.uid() != user.as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if user.is_root() {
            let mode = found.mode() | 0o011;
            fs::set_permissions(dir, fs::Permissions::from_mode(mode))?;
            can_be_passed(&fs::canonicalize(dir)?)?;
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// Where it is unless someone says otherwise.
    pub fn default_dir(runtime_dir: Option<&Path>) -> PathBuf {
        let user = rustix::process::geteuid();
        match runtime_dir {
            _ if user.is_root() => PathBuf::from(ROOTS),
            Some(dir) => dir.join("belljar"),
            None => std::env::temp_dir().join(format!("belljar-{}", user.as_raw())),
        }
    }

    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The host's cgroups, if ours can be made there. Lease numbers mean
    /// something in this directory only, so each directory has a tree of its own.
    pub(crate) fn hierarchies(&self) -> Option<Hierarchies> {
        let mut found = Hierarchies::detect().ok()?;
        if self.dir != Path::new(ROOTS) {
            found.name_apart(self.dir.as_os_str());
        }
        found.is_writable().then_some(found)
    }

    /// An empty directory that sandboxes mount over, each in its own namespace.
    pub(crate) fn base(&self) -> PathBuf {
        self.dir.join("base")
    }

    /// An empty directory that each spawner mounts its `/dev` over, in its own
    /// namespace.
    pub(crate) fn devices(&self) -> PathBuf {
        self.dir.join("dev")
    }

    /// An empty directory that each spawner mounts over, in its own namespace,
    /// what its containers share.
    pub(crate) fn containers(&self) -> PathBuf {
        self.dir.join("oci")
    }

    /// The working directory of a sandbox without a root of its own.
    pub(crate) fn work(&self, engine: u32, id: &str) -> PathBuf {
        self.dir.join("work").join(format!("{engine}-{id}"))
    }

    /// Removes the working directories that an engine left.
    fn remove_works(&self, engine: u32) -> io::Result<()> {
        let work = self.dir.join("work");
        let prefix = format!("{engine}-");
        for entry in fs::read_dir(&work)? {
            let name = entry?.file_name();
            if name.to_string_lossy().starts_with(&prefix) {
                remove_tree(&work, &name)?;
            }
        }
        Ok(())
    }

    /// Takes the first free lease.
    pub(crate) fn lease(&self, hierarchies: Option<&Hierarchies>) -> io::Result<Lease> {
        for number in 0..MOST_LEASES {
            if let Some(lease) = self.try_lease(number)? {
                self.reclaim(&lease, hierarchies)?;
                return Ok(lease);
            }
        }
        Err(io::ErrorKind::QuotaExceeded.into())
    }

    /// Removes what the last owner of a lease left.
    fn reclaim(&self, lease: &Lease, hierarchies: Option<&Hierarchies>) -> io::Result<()> {
        if let Some(hierarchies) = hierarchies {
            // The kill is asynchronous: groups are busy until the last one is gone.
            crate::wait::until(Duration::from_secs(5), || {
                match hierarchies.remove_engine(lease.number) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(None),
                    Err(error) => Err(error),
                    Ok(()) => Ok(Some(())),
                }
            })?;
        }
        self.remove_works(lease.number)
    }

    fn try_lease(&self, number: u32) -> io::Result<Option<Lease>> {
        let path = self.dir.join("leases").join(number.to_string());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)?;
        if !lock::try_exclusive(&file)? {
            return Ok(None);
        }
        // Its last owner may have removed the file between our open and lock.
        let is_it = fs::metadata(&path)
            .is_ok_and(|now| file.metadata().is_ok_and(|ours| ours.ino() == now.ino()));
        Ok(is_it.then_some(Lease { number, path, file }))
    }

    /// Reclaims what dead engines left behind. Answers how many there were.
    pub fn sweep(&self) -> io::Result<usize> {
        let hierarchies = self.hierarchies();
        let mut numbers: Vec<u32> = fs::read_dir(self.dir.join("leases"))?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        numbers.extend(hierarchies.iter().flat_map(Hierarchies::engines));
        numbers.sort_unstable();
        numbers.dedup();
        let mut found = 0;
        for number in numbers {
            if let Some(lease) = self.try_lease(number)? {
                self.reclaim(&lease, hierarchies.as_ref())?;
                lease.give_back();
                found += 1;
            }
        }
        Ok(found)
    }
}

/// A locked lease.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) number: u32,
    path: PathBuf,
    file: File,
}

impl Lease {
    /// The first user id of range `slot`.
    pub(crate) fn first_uid(number: u32, slot: u32) -> u32 {
        FIRST_UID + (number * SLOTS + slot) * crate::jail::parent::IDS
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Takes over a lease whose lock came from another process.
    pub(crate) fn adopt(state: &State, number: u32, file: OwnedFd) -> Self {
        let path = state.dir.join("leases").join(number.to_string());
        Self { number, path, file: file.into() }
    }

    /// Removes the file while it is still locked, then lets go.
    pub(crate) fn give_back(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a tree of `parent` that a stranger made, without trusting any of it.
pub(crate) fn remove_tree(parent: &Path, name: &OsStr) -> io::Result<()> {
    match tree::remove(File::open(parent)?, name, usize::MAX) {
        Ok(_) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Refuses a directory that the user ids of sandboxes cannot reach: every
/// sandbox would fail later, with words that say nothing about the reason.
fn can_be_passed(dir: &Path) -> io::Result<()> {
    for part in dir.ancestors() {
        if fs::metadata(part)?.mode() & 0o001 == 0 {
            let part = part.display();
            return Err(io::Error::other(format!(
                "sandboxes have their own user ids, which cannot pass through `{part}` (chmod o+x)"
            )));
        }
    }
    Ok(())
}
