//! Cassettes as one file: a tar archive, compressed with zstd, of every blob
//! under its digest and then the index.
//!
//! The same cassette always makes the same archive. One that comes in is not
//! believed: only the names above, only plain files, every blob hashed before
//! it is kept, every line of the index checked, all sizes bounded as they are
//! when recording, and nothing can be named that the archive does not bring. It is unpacked
//! beside the cassettes, and becomes one when all of it is checked.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, Read, Write};

use belljar_domain::network::CassetteId;
use tar::{Archive, Builder, EntryType, Header};

use crate::blob::{BlobError, Blobs, make_folder};
use crate::index::{Entry, Index};
use crate::limits::{INDEX_BYTES, TIMING_BYTES};
use crate::store::{Summary, Tenant, at};
use crate::{Blob, Digest, IndexError, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot move a body")]
    Blob(#[from] BlobError),
    #[error("cannot write the archive")]
    Write(#[source] io::Error),
    #[error("the archive is damaged")]
    Read(#[source] io::Error),
    #[error("cassette `{0}` is there already")]
    Exists(CassetteId),
    #[error("`{0}` does not belong into a cassette")]
    Name(String),
    #[error("the archive is larger than a cassette may be")]
    TooLarge,
    #[error("the tenant's cassettes take all the space that they may; remove some")]
    TenantFull,
    #[error("the archive's index is damaged")]
    Index(#[source] IndexError),
    #[error("the archive has no index, or not all that it names, or more")]
    Incomplete,
    #[error("exchange {0} says something else of its request than the request itself")]
    Request(usize),
}

const INDEX: &str = "index.jsonl";
const BLOBS: &str = "blobs/";
const LEVEL: i32 = 6;
/// What unpacking may take of memory, as a power of two.
const WINDOW: u32 = 25;

/// The treatment of an import whose name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfTaken {
    Refuse,
    Replace,
}

/// An archive that was unpacked and checked, and is no cassette yet.
struct Staged {
    /// Removed with all that is left in it.
    _folder: tempfile::TempDir,
    blobs: Blobs,
    brought: BTreeMap<Digest, Blob>,
    entries: Vec<Entry>,
}

impl Tenant {
    /// Writes a cassette as one file. It may be empty, and may be recorded meanwhile.
    pub fn export(&self, name: &CassetteId, out: impl Write) -> Result<(), TransferError> {
        let _tenant = self.hold()?;
        let index = match self.read(name) {
            Err(StoreError::Index { source: IndexError::Absent, .. }) if self.has(name) => {
                Index::default()
            }
            index => index?,
        };
        let bytes = index.entries.iter().map(Entry::bytes).fold(0, u64::saturating_add);
        if bytes > self.limits.cassette_bytes {
            return Err(TransferError::TooLarge);
        }
        let encoder = zstd::Encoder::new(out, LEVEL).map_err(TransferError::Write)?;
        let mut archive = Builder::new(encoder);
        let blobs: BTreeMap<Digest, Blob> = index
            .entries
            .iter()
            .flat_map(|entry| entry.blobs().map(|blob| (blob.sha256, blob)))
            .collect();
        for (digest, blob) in &blobs {
            let content = self.blobs.open(blob)?;
            append(&mut archive, &format!("{BLOBS}{digest}"), blob.bytes, content)?;
        }
        let lines: Vec<u8> = index.entries.iter().filter_map(Entry::to_line).flatten().collect();
        append(&mut archive, INDEX, lines.len() as u64, lines.as_slice())?;
        let encoder = archive.into_inner().map_err(TransferError::Write)?;
        encoder.finish().and_then(|mut out| out.flush()).map_err(TransferError::Write)
    }

    /// Reads a cassette from one file, under a name that is not taken. Secrets
    /// are not looked for: whoever made the archive has taken them out.
    pub fn import(&self, name: &CassetteId, input: impl Read) -> Result<Summary, TransferError> {
        self.bring(name, input, IfTaken::Refuse)
    }

    /// Reads a cassette from one file, in the place of the one of that name if there is one. That
    /// one stays if the archive is refused.
    pub fn replace(&self, name: &CassetteId, input: impl Read) -> Result<Summary, TransferError> {
        let replaced = self.bring(name, input, IfTaken::Replace)?;
        // The cassette is there, whatever becomes of the content of the one before.
        let _ = self.sweep();
        Ok(replaced)
    }

    fn bring(
        &self,
        name: &CassetteId,
        input: impl Read,
        if_taken: IfTaken,
    ) -> Result<Summary, TransferError> {
        let tenant = self.hold()?;
        if if_taken == IfTaken::Refuse && self.index(name).exists() {
            return Err(TransferError::Exists(name.clone()));
        }
        let was_there = self.has(name);
        let cassette = self.lock(name)?;
        let staged = match self.stage(input) {
            Ok(staged) => staged,
            Err(error) => {
                if !was_there {
                    // It has nothing but its lock, which is held.
                    let _ = fs::remove_dir_all(self.cassette(name));
                }
                return Err(error);
            }
        };
        let kept = self.keep(name, &staged);
        if kept.is_err() {
            drop((staged, cassette, tenant));
            // Some of it may be among the blobs already.
            let _ = self.sweep();
        }
        kept
    }

    /// Unpacks and checks an archive in a directory of its own: whatever is wrong with it, nothing
    /// of it stays.
    fn stage(&self, input: impl Read) -> Result<Staged, TransferError> {
        let used = self.stored_bytes()?;
        let unfinished = self.blobs.unfinished();
        make_folder(unfinished).map_err(at("make", unfinished))?;
        let folder = tempfile::Builder::new().prefix("import").tempdir_in(unfinished);
        let folder = folder.map_err(at("make a directory in", unfinished))?;
        let blobs = Blobs::new(folder.path());
        let mut staging = self.clone();
        staging.blobs = blobs.clone();
        let left = self.limits.tenant_bytes.saturating_sub(used);
        let (brought, entries) = staging.unpack(input, left)?;
        staging.check(&entries, &brought)?;
        Ok(Staged { _folder: folder, blobs, brought, entries })
    }

    /// Puts what was staged among the blobs, and then its index into the place of the one before.
    fn keep(&self, name: &CassetteId, staged: &Staged) -> Result<Summary, TransferError> {
        for digest in staged.brought.keys() {
            let (from, to) = (staged.blobs.path(digest), self.blobs.path(digest));
            if let Some(parent) = to.parent() {
                make_folder(parent).map_err(at("make", parent))?;
            }
            fs::rename(&from, &to).map_err(at("rename to", &to))?;
        }
        let entries = &staged.entries;
        self.write_index(name, entries)?;
        let bytes = entries.iter().map(Entry::bytes).fold(0, u64::saturating_add);
        Ok(Summary { name: name.clone(), exchanges: entries.len(), bytes })
    }

    /// Reads all of an archive. It may take `left` bytes.
    fn unpack(
        &self,
        input: impl Read,
        mut left: u64,
    ) -> Result<(BTreeMap<Digest, Blob>, Vec<Entry>), TransferError> {
        let mut decoder = zstd::Decoder::new(input).map_err(TransferError::Read)?;
        decoder.window_log_max(WINDOW).map_err(TransferError::Read)?;
        let mut archive = Archive::new(decoder);
        let mut brought = BTreeMap::new();
        let mut entries = None;
        let mut room = self.limits.cassette_bytes;
        // Raw: extensions of the format (long names, sparse files) are refused
        // as what they are.
        for file in archive.entries().map_err(TransferError::Read)?.raw(true) {
            let mut file = file.map_err(TransferError::Read)?;
            let path = String::from_utf8_lossy(&file.path_bytes()).into_owned();
            if entries.is_some() || file.header().entry_type() != EntryType::Regular {
                return Err(TransferError::Name(path));
            }
            let size = file.size();
            match path.strip_prefix(BLOBS).map(str::parse::<Digest>) {
                Some(Ok(digest)) if !brought.contains_key(&digest) => {
                    let most = self.limits.exchange_bytes.max(TIMING_BYTES);
                    room = room.checked_sub(size).ok_or(TransferError::TooLarge)?;
                    let number = brought.len() as u64 / 3;
                    if size > most || number > self.limits.exchanges {
                        return Err(TransferError::TooLarge);
                    }
                    left = left.checked_sub(size).ok_or(TransferError::TenantFull)?;
                    brought.insert(digest, self.take_blob(digest, &mut file)?);
                }
                None if path == INDEX => {
                    if size > INDEX_BYTES {
                        return Err(TransferError::TooLarge);
                    }
                    left = left.checked_sub(size).ok_or(TransferError::TenantFull)?;
                    let most = usize::try_from(self.limits.exchanges).unwrap_or(usize::MAX);
                    let index = Index::from_reader(&mut file, path.as_ref(), most);
                    let index = index.map_err(|error| match error {
                        IndexError::TooLarge => TransferError::TooLarge,
                        error => TransferError::Index(error),
                    })?;
                    if index.length != size {
                        return Err(TransferError::Index(IndexError::Line(
                            index.entries.len() + 1,
                        )));
                    }
                    entries = Some(index.entries);
                }
                _ => return Err(TransferError::Name(path)),
            }
        }
        Ok((brought, entries.ok_or(TransferError::Incomplete)?))
    }

    fn take_blob(&self, digest: Digest, content: &mut impl Read) -> Result<Blob, TransferError> {
        let mut writer = self.blobs.writer()?;
        let mut chunk = vec![0; 64 << 10];
        loop {
            match content.read(&mut chunk).map_err(TransferError::Read)? {
                0 => return Ok(writer.finish_as(Some(digest))?),
                count => writer.write(chunk.get(..count).unwrap_or_default())?,
            }
        }
    }

    fn check(
        &self,
        entries: &[Entry],
        brought: &BTreeMap<Digest, Blob>,
    ) -> Result<(), TransferError> {
        let mut named = HashSet::new();
        for blob in entries.iter().flat_map(Entry::blobs) {
            if brought.get(&blob.sha256) != Some(&blob) {
                return Err(TransferError::Incomplete);
            }
            named.insert(blob.sha256);
        }
        if named.len() != brought.len() {
            return Err(TransferError::Incomplete);
        }
        // Content is counted once in the archive, and once for each use here.
        let bytes = entries.iter().map(Entry::bytes).fold(0, u64::saturating_add);
        if bytes > self.limits.cassette_bytes {
            return Err(TransferError::TooLarge);
        }
        for (number, entry) in entries.iter().enumerate() {
            if entry.bytes() > self.limits.exchange_bytes {
                return Err(TransferError::TooLarge);
            }
            if !self.is_honest(&entry.request)? {
                return Err(TransferError::Request(number));
            }
        }
        Ok(())
    }

    fn write_index(&self, name: &CassetteId, entries: &[Entry]) -> Result<(), StoreError> {
        let path = self.index(name);
        let folder = self.cassette(name);
        let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(at("write in", &folder))?;
        let lines: Vec<u8> = entries.iter().filter_map(Entry::to_line).flatten().collect();
        file.write_all(&lines).map_err(at("write", &path))?;
        file.persist(&path).map_err(|error| at("rename to", &path)(error.error))?;
        Ok(())
    }
}

/// Without anything that depends on when and where it is written.
fn append(
    archive: &mut Builder<impl Write>,
    name: &str,
    bytes: u64,
    content: impl Read,
) -> Result<(), TransferError> {
    let mut header = Header::new_ustar();
    header.set_path(name).map_err(TransferError::Write)?;
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_cksum();
    archive.append(&header, content).map_err(TransferError::Write)
}
