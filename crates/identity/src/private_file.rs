//! Files that hold secrets: read only if other users cannot, written for their owner.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The reason a file that holds a secret was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "`{path}` holds a secret, and its mode {mode:04o} lets other users at it: run `chmod 600 {path}`"
    )]
    TooOpen { path: PathBuf, mode: u32 },
    #[error("`{0}` is not a regular file, or is longer than {MAX_BYTES} bytes")]
    Form(PathBuf),
}

/// No secret of ours is longer.
const MAX_BYTES: u64 = 64 << 10;

/// Write access for the group, and any access for others. Reading by the group is
/// allowed: secrets that Kubernetes and systemd mount for a service without root are 0440.
const FORBIDDEN_MODE: u32 = 0o027;

/// Reads a secret, unless other users of the host could read or change it.
pub fn read(path: &Path) -> Result<Vec<u8>, PrivateFileError> {
    let cannot = |source| PrivateFileError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(cannot)?;
    // Of the file that is open, not of the name: it cannot be replaced in between.
    let metadata = file.metadata().map_err(cannot)?;
    let mode = metadata.mode() & 0o7777;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(PrivateFileError::Form(path.to_owned()));
    }
    if mode & FORBIDDEN_MODE != 0 {
        return Err(PrivateFileError::TooOpen { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

/// Writes a secret that only its owner can read, and replaces what was there in one step.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), PrivateFileError> {
    let written = || -> io::Result<()> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(new, path)?;
        File::open(directory)?.sync_all()
    };
    written().map_err(|source| PrivateFileError::Write { path: path.to_owned(), source })
}

/// Writes a secret to a file that must not exist yet.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secret_readable_by_others_is_refused_with_the_fix() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write(&path, b"secret").unwrap();
        assert_eq!(read(&path).unwrap(), b"secret");
        for mode in [0o644, 0o604, 0o620, 0o666, 0o602] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("chmod 600 {}", path.display())), "{error}");
        }
        for mode in [0o600, 0o400, 0o440, 0o640] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).unwrap(), b"secret", "{mode:o}");
        }
    }

    #[test]
    fn secret_is_written_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap(), b"two");
        assert!(create(&path, b"three").is_err(), "it is there already");
    }
}
