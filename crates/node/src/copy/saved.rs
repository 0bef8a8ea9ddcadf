//! Checkpoints on a disk: files only.
//!
//! ```text
//! file:  "belljarf" · version (u16) · length of the archive (u64) · archive
//! ```
//!
//! Numbers are little endian. What the sandbox is (its base, its limits) is not
//! in there: who loads a checkpoint says it, because a base is a path of the host
//! and no file may choose that. The archive itself is looked at where it is laid
//! out, by the first process of a sandbox with that sandbox's rights; a forged
//! one can do no more than the code that runs after it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_domain::Spec;
use belljar_engine::Files;

use super::{Checkpoint, Taken, begins_with_files};
use crate::whole::Whole;

/// Why a checkpoint was not saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error("cannot save a checkpoint with interpreters, only one of files")]
    HasInterpreters,
    #[error("only sandboxes of the jail and oci tiers with a disk in memory can start with files")]
    NoSuchSandbox,
    #[error("`{path}` is not a checkpoint")]
    NotACheckpoint { path: PathBuf },
    #[error("`{path}` is a checkpoint of version {version}; this program reads version {VERSION}")]
    Version { path: PathBuf, version: u16 },
    #[error("`{path}` has a guest of generation {generation}, which this program does not support")]
    Guest { path: PathBuf, generation: u16 },
    #[error("`{path}` has a sandbox of another tier, template or size than requested")]
    Another { path: PathBuf },
    #[error("`{path}` has {found} bytes instead of {wanted}")]
    Length { path: PathBuf, wanted: u64, found: u64 },
    #[error("`{path}` has {found} bytes, more than fit on the sandbox's disk")]
    TooLarge { path: PathBuf, found: u64 },
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: io::Error },
}

const MAGIC: &[u8; 8] = b"belljarf";
const VERSION: u16 = 1;
const HEADER: usize = MAGIC.len() + 2 + 8;

/// What names and attributes may take beside the content of files.
const BESIDE: u64 = 64 << 20;

impl Checkpoint {
    /// Writes it to `path`, whole or not at all, and safely on the disk: a file
    /// with files, or a directory with a whole sandbox. Answers how many bytes that
    /// are.
    pub async fn save(&self, path: &Path) -> Result<u64, SaveError> {
        let failed = |source| SaveError::Write { path: path.to_owned(), source };
        let target = path.to_owned();
        let written = match &self.taken {
            Taken::Parts { memory: Some(_), .. } => return Err(SaveError::HasInterpreters),
            Taken::Parts { files, memory: None } => {
                let files = files.try_clone().map_err(failed)?;
                tokio::task::spawn_blocking(move || write(&files, &target)).await
            }
            Taken::Whole(whole) => {
                let whole = whole.clone();
                tokio::task::spawn_blocking(move || whole.copy_to(&target)).await
            }
        };
        written.map_err(|error| failed(error.into()))?.map_err(failed)
    }

    /// Reads what [`Checkpoint::save`] wrote, here or in another process. `spec`
    /// is what the sandbox was, its base above all: the files are laid over it.
    pub async fn load(path: &Path, spec: Spec) -> Result<Self, SaveError> {
        if path.is_dir() {
            let whole = Arc::new(Whole::open(path)?);
            return Ok(Self { spec, taken: Taken::Whole(whole) });
        }
        if !begins_with_files(&spec) {
            return Err(SaveError::NoSuchSandbox);
        }
        let most = spec.limits.disk_bytes.saturating_mul(2).saturating_add(BESIDE);
        let source = path.to_owned();
        let read = tokio::task::spawn_blocking(move || read(&source, most)).await;
        let lost = |error: tokio::task::JoinError| SaveError::Read {
            path: path.to_owned(),
            source: error.into(),
        };
        let files = read.map_err(lost)??;
        Ok(Self { spec, taken: Taken::Parts { files, memory: None } })
    }
}

fn write(files: &Files, path: &Path) -> io::Result<u64> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = fill(files, &beside).and_then(|count| {
        std::fs::rename(&beside, path)?;
        // The name is safe when its directory is.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(count)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn fill(files: &Files, path: &Path) -> io::Result<u64> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let length = files.size();
    file.write_all(&[&MAGIC[..], &VERSION.to_le_bytes(), &length.to_le_bytes()].concat())?;
    let count = files.write(&mut file)?;
    if count != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.sync_all()?;
    Ok(HEADER as u64 + count)
}

fn read(path: &Path, most: u64) -> Result<Files, SaveError> {
    let failed = |source| SaveError::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?.len();
    let mut header = [0u8; HEADER];
    let path = path.to_owned();
    match file.read_exact(&mut header) {
        Ok(()) if header.starts_with(MAGIC) => {}
        Ok(()) => return Err(SaveError::NotACheckpoint { path }),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(SaveError::NotACheckpoint { path });
        }
        Err(error) => return Err(failed(error)),
    }
    let [.., v0, v1, _, _, _, _, _, _, _, _] = header;
    let version = u16::from_le_bytes([v0, v1]);
    if version != VERSION {
        return Err(SaveError::Version { path, version });
    }
    let [.., l0, l1, l2, l3, l4, l5, l6, l7] = header;
    let length = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
    let wanted = length.saturating_add(HEADER as u64);
    if wanted != found {
        return Err(SaveError::Length { path, wanted, found });
    }
    if length > most {
        return Err(SaveError::TooLarge { path, found });
    }
    Files::read(&mut file, length).map_err(failed)
}
