//! Files of the host that a sandbox is shown: its datasets.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The directory of datasets inside a sandbox.
pub const FOLDER: &str = "/mnt/data";

/// The parts of a tenant's place among the objects: files that it uploaded for runs, and what was
/// made of them.
pub const UPLOADED: &str = "files";
pub const PLANNED: &str = "plans";

/// Each is a mount, and a descriptor on its way there.
pub const MOST_FILES: usize = 32;

/// What a sandbox is shown in [`FOLDER`], read-only, for as long as it lives. Most
/// are shown nothing, and specs are handed around a lot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Listed", into = "Listed")]
pub struct Data(Option<Arc<Listed>>);

/// One file. The shelf has it as `<content>/<content>`, alone in its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// What it is called inside.
    pub name: String,
    /// Its digest, as the shelf writes it.
    pub content: String,
    pub identity: Identity,
}

/// Which file it is, and since when nobody has changed it. Whoever mounts it
/// compares this with what was mounted, so no name has to be trusted twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub inode: u64,
    pub bytes: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
    /// The same, of the inode: nobody can set this one back.
    pub changed: (i64, i64),
}

/// Files that cannot be shown.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unfit {
    #[error("a sandbox is shown {MOST_FILES} files at most, not {0}")]
    Many(usize),
    #[error("{0:?} cannot be the name of a file")]
    Name(String),
    #[error("two files are called {0:?}")]
    Twice(String),
    #[error("a shelf is named by an absolute path")]
    Shelf,
}

/// As it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Listed {
    shelf: PathBuf,
    files: Vec<Shown>,
}

impl From<Data> for Listed {
    fn from(data: Data) -> Self {
        data.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }
}

impl TryFrom<Listed> for Data {
    type Error = Unfit;

    fn try_from(listed: Listed) -> Result<Self, Unfit> {
        Self::new(listed.shelf, listed.files)
    }
}

impl Data {
    pub fn new(shelf: PathBuf, files: Vec<Shown>) -> Result<Self, Unfit> {
        if files.is_empty() {
            return Ok(Self::default());
        }
        if !shelf.is_absolute() {
            return Err(Unfit::Shelf);
        }
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        Self::check(&names)?;
        if let Some(bad) = files.iter().find(|file| !is_name(&file.content)) {
            return Err(Unfit::Name(bad.content.clone()));
        }
        Ok(Self(Some(Arc::new(Listed { shelf, files }))))
    }

    /// Whether files may be shown under these names.
    pub fn check(names: &[&str]) -> Result<(), Unfit> {
        if names.len() > MOST_FILES {
            return Err(Unfit::Many(names.len()));
        }
        for (at, name) in names.iter().enumerate() {
            if !is_name(name) {
                return Err(Unfit::Name((*name).to_owned()));
            }
            if names[..at].contains(name) {
                return Err(Unfit::Twice((*name).to_owned()));
            }
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn files(&self) -> &[Shown] {
        self.0.as_ref().map_or(&[], |listed| &listed.files)
    }

    /// The directories of the host that hold the files, each once: two names may
    /// have the same content.
    pub fn places(&self) -> impl Iterator<Item = PathBuf> {
        let files = self.files();
        let is_first =
            |at: usize| files[..at].iter().all(|other| other.content != files[at].content);
        let firsts = (0..files.len()).filter(move |at| is_first(*at));
        let shelf = self.0.as_ref().map(|listed| &listed.shelf);
        firsts.filter_map(move |at| Some(shelf?.join(&files[at].content)))
    }
}

/// Whether it names a file by itself, in any directory.
pub fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len())
        && !matches!(name, "." | "..")
        && !name.contains(|letter: char| letter == '/' || letter.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Shown {
        let identity = Identity { inode: 1, bytes: 2, modified: (3, 4), changed: (5, 6) };
        Shown { name: name.into(), content: "c".into(), identity }
    }

    fn of(names: &[&str]) -> Result<Data, Unfit> {
        Data::new("/shelf".into(), names.iter().map(|name| file(name)).collect())
    }

    #[test]
    fn names_lead_nowhere_else() {
        assert!(of(&["a.csv", "b b.json", "ü", ".hidden"]).is_ok());
        for name in ["", ".", "..", "a/b", "/a", "a\nb", "a\0", &"a".repeat(256)] {
            assert_eq!(of(&[name]), Err(Unfit::Name(name.into())), "{name:?}");
        }
        assert_eq!(of(&["a", "b", "a"]), Err(Unfit::Twice("a".into())));
        let away = Shown { content: "../c".into(), ..file("a") };
        assert_eq!(Data::new("/shelf".into(), vec![away]), Err(Unfit::Name("../c".into())));
        assert_eq!(Data::new("shelf".into(), vec![file("a")]), Err(Unfit::Shelf));
    }

    #[test]
    fn the_same_content_is_in_one_place() {
        let other = Shown { content: "d".into(), ..file("x") };
        let files = vec![file("a"), other, file("b")];
        let data = Data::new("/shelf".into(), files).unwrap();
        let places: Vec<_> = data.places().collect();
        assert_eq!(places, [PathBuf::from("/shelf/c"), PathBuf::from("/shelf/d")]);
    }

    #[test]
    fn what_was_written_down_is_checked_again() {
        let mut text = serde_json::to_value(of(&["a"]).unwrap()).unwrap();
        assert_eq!(serde_json::from_value::<Data>(text.clone()).unwrap(), of(&["a"]).unwrap());
        text["files"][0]["name"] = "../a".into();
        assert!(serde_json::from_value::<Data>(text).is_err());
    }
}
