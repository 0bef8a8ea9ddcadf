//! A file on its way out, hashed as it goes.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::sync::Arc;
use std::time::SystemTime;

use super::{Entry, Inner, Key};
use crate::digest::Hasher;

/// Up to here a file is read and checked as a whole.
const SMALL: u64 = 2 << 20;
const PIECE: u64 = 256 << 10;

/// A file of the cache, piece by piece.
///
/// The last piece is given only when all of them together were right: an answer
/// that ends is one that was promised. After an error, break the transfer off.
#[derive(Debug)]
pub struct Reader {
    size: u64,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    /// Checked already.
    Whole(Vec<u8>),
    Pieces(Box<Pieces>),
    Nothing,
}

#[derive(Debug)]
struct Pieces {
    inner: Arc<Inner>,
    key: Key,
    file: File,
    left: u64,
    hasher: Hasher,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the cached file is damaged: its digest has changed")]
    Damaged,
    #[error("cannot read the cached file")]
    Io(#[source] io::Error),
}

impl Reader {
    pub(super) fn open(inner: &Arc<Inner>, key: Key, entry: Entry) -> Result<Self, ReadError> {
        let mut file = inner.shelf.get(&key).map_err(ReadError::Io)?;
        let size = file.metadata().map_err(ReadError::Io)?.len();
        if size != entry.size {
            return Err(ReadError::Damaged);
        }
        // What was used last must be known after a restart too.
        let _ = file.set_modified(SystemTime::now());
        let rest = if size <= SMALL {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            (&mut file).take(size).read_to_end(&mut bytes).map_err(ReadError::Io)?;
            if !key.digest.is_of(&bytes) {
                return Err(ReadError::Damaged);
            }
            Rest::Whole(bytes)
        } else {
            let hasher = key.digest.hasher();
            let mut pieces = Pieces { inner: Arc::clone(inner), key, file, left: size, hasher };
            if !entry.is_checked {
                // Found out now it is a miss; later it would be a broken transfer.
                while pieces.next()?.is_some() {}
                inner.set_checked(&key);
                pieces.file.rewind().map_err(ReadError::Io)?;
                pieces.left = size;
                pieces.hasher = key.digest.hasher();
            }
            Rest::Pieces(Box::new(pieces))
        };
        Ok(Self { size, rest })
    }

    /// Of the whole file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Blocks on the disk. None: that was all of it, and it was right.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Nothing => Ok(None),
            Rest::Whole(bytes) => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Rest::Pieces(mut pieces) => {
                let piece =
                    pieces.next().inspect_err(|error| pieces.inner.forget(&pieces.key, error));
                if matches!(piece, Ok(Some(_))) {
                    self.rest = Rest::Pieces(pieces);
                }
                piece
            }
        }
    }
}

impl Pieces {
    fn next(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        if self.left == 0 {
            return Ok(None);
        }
        let length = self.left.min(PIECE);
        let mut piece = vec![0; usize::try_from(length).map_err(|_| ReadError::Damaged)?];
        self.file.read_exact(&mut piece).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::Damaged,
            _ => ReadError::Io(error),
        })?;
        self.hasher.update(&piece);
        self.left -= length;
        if self.left == 0 && !self.hasher.is_met() {
            return Err(ReadError::Damaged);
        }
        Ok(Some(piece))
    }
}
