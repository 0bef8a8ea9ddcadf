//! Skills: folders that teach a model a task. Each has a `SKILL.md` that begins with its name and
//! its description; the model reads the rest when the task comes up.
//!
//! A skill travels as a tar archive, named by its digest. It is unpacked into memory and checked
//! there: no path leads out of the folder, there are no links, and size and count are bounded.

mod archive;
mod front;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of skills inside a sandbox.
pub const SKILLS: &str = "/mnt/skills";
/// Skills of one run.
pub const MAX_SKILLS: usize = 16;
/// Bytes of all files of one skill.
pub(crate) const MAX_SKILL_BYTES: u64 = 8 << 20;
/// Bytes of one archive: its files, and what tar adds to each entry.
pub const MAX_ARCHIVE_BYTES: u64 = MAX_SKILL_BYTES + (4 << 20);
/// Files of one skill.
pub(crate) const MAX_SKILL_FILES: usize = 256;
/// Bytes of a path in a skill, and directories in it.
const MAX_PATH_BYTES: usize = 255;
const MAX_PATH_DEPTH: usize = 8;
/// The file that every skill has.
const MAIN: &str = "SKILL.md";

/// A skill in memory. It is valid by construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFolder {
    name: String,
    description: String,
    /// By path, relative to the folder.
    files: BTreeMap<String, Vec<u8>>,
}

/// A folder or an archive that is no skill.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the skill is not a tar archive")]
    Archive(#[source] io::Error),
    #[error("a skill has at most {MAX_SKILL_BYTES} bytes")]
    TooLarge,
    #[error("a skill has at most {MAX_SKILL_FILES} files")]
    TooManyFiles,
    #[error("`{0}` is neither a file nor a directory; a skill has no links")]
    Kind(String),
    #[error("`{0}` cannot be a path in a skill")]
    Path(String),
    #[error("the skill has the file `{0}` twice")]
    Twice(String),
    #[error("the skill has no `{MAIN}`")]
    NoMain,
    #[error("`{MAIN}` must begin with lines of `name:` and `description:` between lines of `---`")]
    NoFront,
    #[error("a skill's name has 1 to 64 characters of a-z, 0-9 and `-`, not at its ends: `{0}`")]
    Name(String),
    #[error("a skill's description has 1 to 1024 characters and no control characters")]
    Description,
}

impl SkillFolder {
    /// Reads a skill from a folder of this host.
    pub fn read_folder(folder: &Path) -> Result<Self, SkillError> {
        let mut files = Files::default();
        files.add_folder(folder, "", 0)?;
        Self::of(files.0)
    }

    /// Reads a skill from its archive.
    pub fn read_archive(archive: &[u8]) -> Result<Self, SkillError> {
        Self::of(archive::read(archive)?)
    }

    /// Writes the archive of the skill: the same bytes for the same files.
    pub fn to_archive(&self) -> Result<Vec<u8>, SkillError> {
        archive::write(&self.files)
    }

    fn of(files: BTreeMap<String, Vec<u8>>) -> Result<Self, SkillError> {
        let main = files.get(MAIN).ok_or(SkillError::NoMain)?;
        let front = front::parse(&String::from_utf8_lossy(main)).ok_or(SkillError::NoFront)?;
        let front::Front { name, description } = front;
        if !is_name(&name) {
            return Err(SkillError::Name(name.chars().take(64).collect()));
        }
        let is_long = description.chars().count() > 1024;
        if description.is_empty() || is_long || description.contains(char::is_control) {
            return Err(SkillError::Description);
        }
        Ok(Self { name, description, files })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    /// The files, each with its path inside a sandbox.
    pub(crate) fn placed_files(&self) -> impl Iterator<Item = (String, &[u8])> {
        let place = |path: &String| format!("{SKILLS}/{}/{path}", self.name);
        self.files.iter().map(move |(path, content)| (place(path), content.as_slice()))
    }
}

/// The path inside a sandbox of the file that a model reads first.
pub(crate) fn main_file(name: &str) -> String {
    format!("{SKILLS}/{name}/{MAIN}")
}

/// Files of a skill that grow up to the bounds.
#[derive(Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn add(&mut self, path: String, content: Vec<u8>) -> Result<(), SkillError> {
        if !is_path(&path) {
            return Err(SkillError::Path(path.chars().take(MAX_PATH_BYTES).collect()));
        }
        if self.0.len() >= MAX_SKILL_FILES {
            return Err(SkillError::TooManyFiles);
        }
        let bytes = self.0.values().map(|file| file.len() as u64).sum::<u64>();
        if bytes + content.len() as u64 > MAX_SKILL_BYTES {
            return Err(SkillError::TooLarge);
        }
        match self.0.insert(path.clone(), content) {
            Some(_) => Err(SkillError::Twice(path)),
            None => Ok(()),
        }
    }

    fn add_folder(&mut self, folder: &Path, before: &str, depth: usize) -> Result<(), SkillError> {
        let read = |source| SkillError::Read { path: folder.to_owned(), source };
        if depth > MAX_PATH_DEPTH {
            return Err(SkillError::Path(before.to_owned()));
        }
        for entry in fs::read_dir(folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            let name = entry.file_name();
            let name = name
                .to_str()
                .ok_or_else(|| SkillError::Path(name.to_string_lossy().into_owned()))?;
            let path = format!("{before}{name}");
            // Of the entry itself: a link is not followed.
            let kind = entry.file_type().map_err(read)?;
            if kind.is_dir() {
                self.add_folder(&entry.path(), &format!("{path}/"), depth + 1)?;
            } else if kind.is_file() {
                let content = read_bounded(&entry.path())?;
                self.add(path, content)?;
            } else {
                return Err(SkillError::Kind(path));
            }
        }
        Ok(())
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, SkillError> {
    let read = |source| SkillError::Read { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(read)?;
    let mut content = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_SKILL_BYTES + 1), &mut content)
        .map_err(read)?;
    if content.len() as u64 > MAX_SKILL_BYTES {
        return Err(SkillError::TooLarge);
    }
    Ok(content)
}

/// Returns true if a path stays in its folder.
fn is_path(path: &str) -> bool {
    path.len() <= MAX_PATH_BYTES
        && path.split('/').count() <= MAX_PATH_DEPTH
        && path.split('/').all(belljar_domain::data::is_name)
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len())
        && name.bytes().all(is_letter)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests;
