//! Archives of skills.

use std::collections::BTreeMap;
use std::io::Read as _;

use tar::{Archive, Builder, EntryType, Header};

use super::{Files, MAIN, MAX_ARCHIVE_BYTES, MAX_SKILL_BYTES, MAX_SKILL_FILES, SkillError};

/// Entries of an archive: its files, and directories beside them.
const MAX_ENTRIES: usize = MAX_SKILL_FILES * 4;

/// Reads the files of an archive. The folder itself may be in it: then the files are below that.
pub(super) fn read(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, SkillError> {
    if archive.len() as u64 > MAX_ARCHIVE_BYTES {
        return Err(SkillError::TooLarge);
    }
    let mut files = Files::default();
    let mut archive = Archive::new(archive);
    for (count, entry) in archive.entries().map_err(SkillError::Archive)?.enumerate() {
        if count >= MAX_ENTRIES {
            return Err(SkillError::TooManyFiles);
        }
        let mut entry = entry.map_err(SkillError::Archive)?;
        let raw = entry.path_bytes().into_owned();
        let path = String::from_utf8(raw).map_err(|error| SkillError::Path(error.to_string()))?;
        let path = path.trim_start_matches("./").to_owned();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            _ => return Err(SkillError::Kind(path)),
        }
        let mut content = Vec::new();
        let bounded = entry.by_ref().take(MAX_SKILL_BYTES + 1).read_to_end(&mut content);
        bounded.map_err(SkillError::Archive)?;
        files.add(path, content)?;
    }
    Ok(without_folder(files.0))
}

/// Removes the one folder that all files are in, if the skill is below it.
fn without_folder(files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let folder = files.keys().next().and_then(|path| path.split_once('/'));
    let Some(folder) = folder.map(|(folder, _)| format!("{folder}/")) else { return files };
    let is_in_it = |path: &String| path.starts_with(&folder);
    if files.contains_key(MAIN) || !files.keys().all(is_in_it) {
        return files;
    }
    let inside = |path: String| path[folder.len()..].to_owned();
    files.into_iter().map(|(path, content)| (inside(path), content)).collect()
}

/// Writes an archive without times and owners.
pub(super) fn write(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, SkillError> {
    let mut builder = Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content.as_slice()).map_err(SkillError::Archive)?;
    }
    builder.into_inner().map_err(SkillError::Archive)
}
