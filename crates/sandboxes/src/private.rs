//! Records on disk that only the server may read.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::quarantine::{self, Kind};

/// Makes a directory that nobody else can look into, and sees to it that this
/// is so if it was there already.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

/// Writes a record; whoever reads finds the old one or the new one, whole. Once this has
/// answered, it is the new one, also after a power cut.
pub(crate) fn write(path: &Path, record: &impl Serialize) -> io::Result<()> {
    write_by(&path.with_extension("new"), path, record)
}

/// The same, by way of a file of this name.
pub(crate) fn write_by(new: &Path, path: &Path, record: &impl Serialize) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(new)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.sync_all()?;
    fs::rename(new, path)?;
    sync_parent(path)
}

/// Has the name of a file survive a power cut, as [`fs::File::sync_all`] does its content.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::File::open(directory)?.sync_all()
}

/// Every record of a directory. What was left half written is removed; what
/// cannot be read is left where it is, and told of.
pub(crate) fn read_all<T: DeserializeOwned>(dir: &Path, kind: Kind) -> io::Result<Vec<T>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => match serde_json::from_slice(&fs::read(&path)?) {
                Ok(record) => all.push(record),
                Err(error) => quarantine::report(kind, &path, &error),
            },
            Some("new") => fs::remove_file(path)?,
            _ => {}
        }
    }
    Ok(all)
}

/// A file, or a directory and all in it; nothing, if nothing is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_half_written_is_not_seen() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("a.json"), &"whole").unwrap();
        fs::write(dir.path().join("b.new"), b"\"hal").unwrap();
        fs::write(dir.path().join("c.json"), b"\"hal").unwrap();
        assert_eq!(read_all::<String>(dir.path(), Kind::Volume).unwrap(), ["whole"]);
        assert!(!dir.path().join("b.new").exists());
        assert!(dir.path().join("c.json").exists());
    }
}
