//! Files on their way: hashed while they pass, never in memory as a whole.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use crate::digest::Digest;
use crate::error::{ObjectsError, at};

const CHUNK: usize = 256 * 1024;
/// Between two pieces; longer, and nobody is there any more.
const SILENCE: Duration = Duration::from_secs(60);

/// Writes all that the reader has to a file without a name, and answers that file
/// from its beginning.
pub(crate) async fn receive(
    scratch: &Path,
    mut content: impl AsyncRead + Unpin,
) -> Result<(File, Digest), ObjectsError> {
    let mut spool = Spool::new(scratch)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        match content.read(&mut buffer).await.map_err(ObjectsError::Broken)? {
            0 => return spool.finish().await,
            count => spool.take(&buffer[..count]).await?,
        }
    }
}

/// The same for what comes in pieces.
pub(crate) async fn receive_stream(
    scratch: &Path,
    mut content: impl Stream<Item = object_store::Result<Bytes>> + Unpin,
    key: &object_store::path::Path,
) -> Result<(File, Digest), ObjectsError> {
    let mut spool = Spool::new(scratch)?;
    loop {
        let next = tokio::time::timeout(SILENCE, content.next()).await;
        let late = |_| ObjectsError::Broken(io::ErrorKind::TimedOut.into());
        match next.map_err(late)? {
            Some(Ok(piece)) => spool.take(&piece).await?,
            Some(Err(source)) => {
                let (action, name, source) = ("read", key.to_string(), Box::new(source));
                return Err(ObjectsError::Bucket { action, name, source });
            }
            None => return spool.finish().await,
        }
    }
}

/// A file without a name that is being filled.
struct Spool<'a> {
    scratch: &'a Path,
    file: tokio::fs::File,
    hash: Sha256,
}

impl<'a> Spool<'a> {
    fn new(scratch: &'a Path) -> Result<Self, ObjectsError> {
        let file = tempfile::tempfile_in(scratch).map_err(at("create a file in", scratch))?;
        Ok(Self { scratch, file: tokio::fs::File::from_std(file), hash: Sha256::new() })
    }

    async fn take(&mut self, piece: &[u8]) -> Result<(), ObjectsError> {
        self.hash.update(piece);
        self.file.write_all(piece).await.map_err(at("write to", self.scratch))
    }

    /// The file, from its beginning.
    async fn finish(mut self) -> Result<(File, Digest), ObjectsError> {
        self.file.flush().await.map_err(at("write to", self.scratch))?;
        let mut file = self.file.into_std().await;
        file.rewind().map_err(at("read in", self.scratch))?;
        Ok((file, Digest::from_hash(self.hash)))
    }
}

/// Opens a file and finds its digest.
pub(crate) async fn read(path: &Path) -> Result<(File, Digest), ObjectsError> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let open = || {
            let mut file = File::open(&path)?;
            let mut hash = Sha256::new();
            let mut buffer = vec![0; CHUNK];
            loop {
                let count = io::Read::read(&mut file, &mut buffer)?;
                if count == 0 {
                    break;
                }
                hash.update(&buffer[..count]);
            }
            file.rewind()?;
            Ok::<_, io::Error>((file, Digest::from_hash(hash)))
        };
        open().map_err(at("read", &path))
    });
    read.await.map_err(ObjectsError::broken)?
}
