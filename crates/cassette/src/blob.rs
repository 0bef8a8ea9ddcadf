//! Content of a tenant, kept once, under the digest of its plain bytes.
//!
//! A blob is written under another name and renamed when it is whole. It is
//! never believed: whoever reads one has hashed all of it before the first byte
//! is handed on, so what was changed on the disk is an error and not an answer.
//! A blob that is there already is replaced by its equal, which also heals one
//! that was damaged.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, Read, Seek as _, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use zstd::stream::{read::Decoder, write::Encoder};

use crate::Digest;

/// Names a blob, and says how much to expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    pub sha256: Digest,
    /// Of the plain content.
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("cannot {attempt} `{path}`")]
    Io { attempt: &'static str, path: PathBuf, source: io::Error },
    #[error("blob {0} is missing")]
    Missing(Digest),
    #[error("blob {0} is not what its name says: it was damaged or changed")]
    Damaged(Digest),
    #[error("blob {0} is larger than is read")]
    TooLarge(Digest),
}

/// Fast enough to keep up with a network, and small enough.
const LEVEL: i32 = 3;
/// What is at most held in memory between checking and handing out.
const HELD: u64 = 4 << 20;
const CHUNK: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    folder: PathBuf,
    unfinished: PathBuf,
}

fn at<'a>(attempt: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> BlobError + 'a {
    move |source| BlobError::Io { attempt, path: path.to_owned(), source }
}

/// Makes folders that only we can enter.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

impl Blobs {
    pub(crate) fn new(tenant: &Path) -> Self {
        Self { folder: tenant.join("blobs"), unfinished: tenant.join("unfinished") }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn unfinished(&self) -> &Path {
        &self.unfinished
    }

    pub(crate) fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        let (first, rest) = name.split_at(2);
        self.folder.join(first).join(format!("{rest}.zst"))
    }

    pub(crate) fn writer(&self) -> Result<Writer, BlobError> {
        make_folder(&self.unfinished).map_err(at("make", &self.unfinished))?;
        let file = NamedTempFile::new_in(&self.unfinished);
        let file = file.map_err(at("make a file in", &self.unfinished))?;
        let encoder = Encoder::new(file, LEVEL).map_err(at("compress into", &self.unfinished))?;
        Ok(Writer { blobs: self.clone(), encoder, hasher: Sha256::new(), bytes: 0 })
    }

    pub(crate) fn put(&self, content: &[u8]) -> Result<Blob, BlobError> {
        let mut writer = self.writer()?;
        writer.write(content)?;
        writer.finish()
    }

    /// Checks a blob without keeping it.
    pub(crate) fn check(&self, blob: &Blob) -> Result<(), BlobError> {
        self.copy(blob, &mut io::sink()).map(drop)
    }

    /// The content of a blob that the caller knows to be small enough.
    pub(crate) fn get(&self, blob: &Blob, most: u64) -> Result<Vec<u8>, BlobError> {
        if blob.bytes > most {
            return Err(BlobError::TooLarge(blob.sha256));
        }
        let mut content = Vec::new();
        self.copy(blob, &mut content)?;
        Ok(content)
    }

    /// Content that has been checked, to be read from its beginning.
    pub(crate) fn open(&self, blob: &Blob) -> Result<Content, BlobError> {
        if blob.bytes <= HELD {
            return self.get(blob, HELD).map(|held| Content::Held(io::Cursor::new(held)));
        }
        // The same open file is read twice, so nobody can put another in between.
        let mut file = self.copy(blob, &mut io::sink())?;
        let path = self.path(&blob.sha256);
        file.rewind().map_err(at("read", &path))?;
        let decoder = Decoder::new(file).map_err(at("read", &path))?;
        Ok(Content::Streamed(Box::new(decoder)))
    }

    fn copy(&self, blob: &Blob, out: &mut dyn Write) -> Result<File, BlobError> {
        let path = self.path(&blob.sha256);
        let mut file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BlobError::Missing(blob.sha256),
            _ => at("open", &path)(error),
        })?;
        let damaged = |_| BlobError::Damaged(blob.sha256);
        let mut decoder = Decoder::new(&mut file).map_err(damaged)?.take(blob.bytes + 1);
        let mut hasher = Sha256::new();
        let mut bytes = 0;
        let mut chunk = vec![0; CHUNK];
        loop {
            // Whatever the decoder does not like was not written by us.
            let count = decoder.read(&mut chunk).map_err(damaged)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            let read = chunk.get(..count).unwrap_or_default();
            hasher.update(read);
            out.write_all(read).map_err(at("copy", &path))?;
        }
        if bytes != blob.bytes || Digest::from_hasher(hasher) != blob.sha256 {
            return Err(BlobError::Damaged(blob.sha256));
        }
        Ok(file)
    }
}

/// A blob on its way. Dropped before its end, it leaves nothing.
pub(crate) struct Writer {
    blobs: Blobs,
    encoder: Encoder<'static, NamedTempFile>,
    hasher: Sha256,
    bytes: u64,
}

impl Writer {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn write(&mut self, content: &[u8]) -> Result<(), BlobError> {
        self.hasher.update(content);
        self.bytes += content.len() as u64;
        self.encoder.write_all(content).map_err(at("write to", &self.blobs.unfinished))
    }

    pub(crate) fn finish(self) -> Result<Blob, BlobError> {
        self.finish_as(None)
    }

    /// Keeps nothing that is not what it was promised to be.
    pub(crate) fn finish_as(self, promised: Option<Digest>) -> Result<Blob, BlobError> {
        let file = self.encoder.finish().map_err(at("write to", &self.blobs.unfinished))?;
        let sha256 = Digest::from_hasher(self.hasher);
        if let Some(promised) = promised.filter(|promised| *promised != sha256) {
            return Err(BlobError::Damaged(promised));
        }
        let path = self.blobs.path(&sha256);
        if let Some(parent) = path.parent() {
            make_folder(parent).map_err(at("make", parent))?;
        }
        file.persist(&path).map_err(|error| at("rename to", &path)(error.error))?;
        Ok(Blob { sha256, bytes: self.bytes })
    }
}

/// Content that has been checked already.
pub(crate) enum Content {
    Held(io::Cursor<Vec<u8>>),
    Streamed(Box<Decoder<'static, BufReader<File>>>),
}

impl Read for Content {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Held(content) => content.read(out),
            Self::Streamed(decoder) => decoder.read(out),
        }
    }
}

/// Every blob that is there, by its name; other files are not ours to judge.
pub(crate) fn all(blobs: &Blobs) -> io::Result<Vec<Digest>> {
    let mut found = Vec::new();
    let folders = match fs::read_dir(blobs.folder()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        folders => folders?,
    };
    for folder in folders {
        let folder = folder?;
        for file in fs::read_dir(folder.path())? {
            let name = format!(
                "{}{}",
                folder.file_name().to_string_lossy(),
                file?.file_name().to_string_lossy()
            );
            found.extend(name.strip_suffix(".zst").and_then(|name| name.parse::<Digest>().ok()));
        }
    }
    Ok(found)
}
