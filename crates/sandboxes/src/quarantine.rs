//! Records that this version cannot read are set aside, not deleted: a torn one may be repaired,
//! and one of a newer version is readable again after an upgrade.
//!
//! ```text
//! <state>/sandboxes/unreadable/<id>.*   all that was on disk of a sandbox
//! <state>/snapshots/unreadable/<id>.*   the same of a snapshot
//! ```

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::private;

/// The directory for them, beside those that can be read.
pub(crate) const DIR: &str = "unreadable";

/// What a record is of, as metrics say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sandbox,
    Snapshot,
    Volume,
    Secret,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Snapshot => "snapshot",
            Self::Volume => "volume",
            Self::Secret => "secret",
        }
    }
}

/// Moves a record and what lies beside it, under the same name with these extensions, out of the
/// way. Nothing that was set aside before is replaced.
pub(crate) fn set_aside(
    kind: Kind,
    record: &Path,
    extensions: &[&str],
    why: &dyn fmt::Display,
) -> io::Result<()> {
    let dir = record.with_file_name(DIR);
    private::make_dir(&dir)?;
    let name = record.file_stem().unwrap_or_default();
    let stem = free_stem(&dir, name.to_owned(), extensions)?;
    // The record last: until it is gone, nobody takes the rest for what belongs to nothing.
    let others = extensions.iter().filter(|extension| **extension != "json");
    for extension in others.chain(&["json"]) {
        let mut to = stem.clone();
        to.push(".");
        to.push(extension);
        match fs::rename(record.with_extension(extension), dir.join(&to)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::File::open(&dir)?.sync_all()?;
    belljar_telemetry::metrics().record_unreadable(kind.as_str());
    tracing::error!(
        kind = kind.as_str(),
        record = %record.display(),
        moved_to = %dir.join(&stem).display(),
        error = %why,
        "unreadable record quarantined; stop the server, start the version that wrote it or \
         repair it, and move the files back"
    );
    Ok(())
}

/// Tells of a record that cannot be read and stays where it is.
pub(crate) fn report(kind: Kind, record: &Path, why: &dyn fmt::Display) {
    belljar_telemetry::metrics().record_unreadable(kind.as_str());
    tracing::error!(
        kind = kind.as_str(),
        record = %record.display(),
        error = %why,
        "unreadable record ignored; start the version that wrote it, or repair it"
    );
}

/// A name that nothing in the directory has.
fn free_stem(dir: &Path, name: OsString, extensions: &[&str]) -> io::Result<OsString> {
    let is_taken = |stem: &OsString| {
        extensions.iter().any(|extension| {
            let mut file = stem.clone();
            file.push(".");
            file.push(extension);
            fs::symlink_metadata(dir.join(file)).is_ok()
        })
    };
    let numbered = (2..1000).map(|number| {
        let mut stem = name.clone();
        stem.push(format!("-{number}"));
        stem
    });
    let free = std::iter::once(name.clone()).chain(numbered).find(|stem| !is_taken(stem));
    free.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

/// The records that were set aside below `dir`.
#[cfg(test)]
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join(DIR)).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns true if this is the directory of what was set aside.
pub(crate) fn is_dir(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == DIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_aside_before_stays() {
        let dir = tempfile::tempdir().unwrap();
        for content in ["first", "second", "third"] {
            let record = dir.path().join("a.json");
            fs::write(&record, content).unwrap();
            set_aside(Kind::Sandbox, &record, &["json", "files"], &"torn").unwrap();
            assert!(!record.exists());
        }
        assert_eq!(names(dir.path()), ["a-2.json", "a-3.json", "a.json"]);
        let first = fs::read_to_string(dir.path().join(DIR).join("a.json")).unwrap();
        assert_eq!(first, "first");
    }
}
