//! A file that is read piece by piece, as fast as somebody takes the pieces.

use belljar_domain::User;
use belljar_guest_proto::{Reply, Request, ToGuest, WINDOW};

use crate::files::FileError;
use crate::link::{Channel, Incoming, LinkError};
use crate::sandbox::Sandbox;

/// A regular file that is open for reading; dropped, it is closed.
#[derive(Debug)]
pub struct Reading {
    channel: Channel,
    size: u64,
    got: u64,
    /// Bytes taken that the guest has no credit for yet.
    owed: usize,
    over: bool,
}

impl Reading {
    /// How long the file was when it was opened; no more is read of it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        if self.over {
            return Ok(None);
        }
        // In larger pieces: each grant is a message of its own.
        if self.owed >= WINDOW as usize / 2 {
            self.channel.grant(self.owed).await.map_err(FileError::Link)?;
            self.owed = 0;
        }
        loop {
            match self.channel.next().await.map_err(FileError::Link)? {
                Incoming::Data(bytes) => {
                    self.got += bytes.len() as u64;
                    if self.got > self.size {
                        return Err(FileError::TooLarge { size: self.got, limit: self.size });
                    }
                    self.owed += bytes.len();
                    return Ok(Some(bytes));
                }
                Incoming::Eof => break,
                _ => {}
            }
        }
        self.over = true;
        self.channel.cancel_on_drop(false);
        let (got, size) = (self.got, self.size);
        if got == size { Ok(None) } else { Err(FileError::Shrunk { got, size }) }
    }
}

impl Sandbox {
    /// Opens a regular file for reading.
    pub async fn open(&self, user: User, path: &[u8]) -> Result<Reading, FileError> {
        let mut channel = self.link.open();
        let request = Request::Read { user: user.id(), path: path.to_vec() };
        channel.cancel_on_drop(true);
        channel.send(&ToGuest::Request(request), &[]).await.map_err(FileError::Link)?;
        match channel.reply().await.map_err(FileError::Link)?? {
            Reply::Size(size) => Ok(Reading { channel, size, got: 0, owed: 0, over: false }),
            _ => Err(FileError::Link(LinkError::Gone)),
        }
    }
}
