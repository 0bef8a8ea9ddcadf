//! Files of a sandbox, moved and looked at by its guest.

use std::io;

use belljar_domain::User;
use belljar_guest_proto::{
    Attribute, CHUNK, Entry, Failure, Reply, Request, ToGuest, WINDOW, WatchEvent, encode_header,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::link::{Channel, Incoming, Link, LinkError, Outgoing};
use crate::sandbox::Sandbox;

/// Why a file operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("the sandbox does not respond")]
    Link(#[source] LinkError),
    #[error("cannot {doing}")]
    Refused { doing: String, source: io::Error },
    #[error("cannot read the data to upload")]
    Source(#[source] io::Error),
    #[error("cannot write the downloaded data")]
    Target(#[source] io::Error),
    #[error("the file was truncated while it was read: {got} of {size} bytes")]
    Shrunk { got: u64, size: u64 },
    #[error("the file has {size} bytes; no more than {limit} are accepted")]
    TooLarge { size: u64, limit: u64 },
}

impl FileError {
    /// The kernel's error inside the sandbox, if that is what it was.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// What kind of refusal it was: `NotFound`, `IsADirectory`, `NotADirectory`,
    /// `AlreadyExists`, `StorageFull`, `PermissionDenied` and the like; `Other`
    /// when the sandbox refused nothing.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Refused { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        }
    }
}

impl From<Failure> for FileError {
    fn from(failure: Failure) -> Self {
        let source = io::Error::from_raw_os_error(failure.errno);
        Self::Refused { doing: failure.doing, source }
    }
}

/// The user whose rights count when something is made, and its owner. A user alone is both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Creator {
    pub user: User,
    /// Another than the user takes the capabilities of root: see
    /// [`Sandbox::root_has_capabilities`].
    pub owner: User,
}

impl From<User> for Creator {
    fn from(user: User) -> Self {
        Self { user, owner: user }
    }
}

/// Entries of a directory; `complete` is false when a limit cut the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    pub complete: bool,
}

/// Watches a directory until it is dropped.
#[derive(Debug)]
pub struct Changes {
    channel: Channel,
}

impl Changes {
    pub async fn next(&mut self) -> Result<WatchEvent, FileError> {
        loop {
            if let Incoming::Changed(event) = self.channel.next().await.map_err(FileError::Link)? {
                return Ok(event);
            }
        }
    }
}

/// Entries asked for in one listing.
const MOST_ENTRIES: u32 = 10_000;

impl Sandbox {
    /// Writes a file; it appears under its name only when it is complete.
    pub async fn upload(
        &self,
        user: User,
        path: &[u8],
        mode: u32,
        source: &mut (dyn AsyncRead + Unpin + Send),
    ) -> Result<u64, FileError> {
        self.upload_with(user.into(), path, mode, &[], source).await
    }

    /// As [`Sandbox::upload`], with extended attributes (`user.` names). They are
    /// the new file's only ones, whatever was there under its name. Refused with
    /// `Unsupported` where the file system has none.
    pub async fn upload_with(
        &self,
        creator: Creator,
        path: &[u8],
        mode: u32,
        attributes: &[Attribute],
        source: &mut (dyn AsyncRead + Unpin + Send),
    ) -> Result<u64, FileError> {
        let mut channel = self.link.open();
        let (path, attributes) = (path.to_vec(), attributes.to_vec());
        let (user, owner) = (creator.user.id(), creator.owner.id());
        let request = Request::Write { user, owner, path, mode, attributes };
        channel.send(&ToGuest::Request(request), &[]).await.map_err(FileError::Link)?;
        // Whatever ends this early, the guest drops what it has of the file.
        channel.cancel_on_drop(true);
        let mut prefix = Vec::new();
        ToGuest::Data(&[]).encode(&mut prefix, channel.number);
        #[expect(clippy::indexing_slicing, reason = "every frame has a header of nine bytes")]
        let (header, kind) = (prefix.len(), prefix[4]);
        let mut total = 0u64;
        loop {
            let mut frame = Vec::with_capacity(header + CHUNK);
            frame.extend_from_slice(&prefix);
            let count = match (&mut *source).take(CHUNK as u64).read_buf(&mut frame).await {
                Ok(count) => count,
                Err(error) => {
                    // At once, so that nothing of the file is left when the
                    // caller hears of it; the order of frames sees to that.
                    let _ = channel.send(&ToGuest::Cancel, &[]).await;
                    return Err(FileError::Source(error));
                }
            };
            if count == 0 {
                break;
            }
            let mut head = Vec::with_capacity(header);
            encode_header(&mut head, kind, channel.number, count);
            #[expect(clippy::indexing_slicing, reason = "it begins with the prefix")]
            frame[..header].copy_from_slice(&head);
            let frame = Outgoing { bytes: frame, descriptors: Vec::new() };
            self.link.send_frame(frame).await.map_err(FileError::Link)?;
            total += count as u64;
            // A refusal comes at once; the rest need not be sent.
            if let Some(Incoming::Reply(Err(failure))) = channel.try_next() {
                return Err(failure.into());
            }
        }
        channel.send(&ToGuest::Eof, &[]).await.map_err(FileError::Link)?;
        channel.reply().await.map_err(FileError::Link)??;
        channel.cancel_on_drop(false);
        Ok(total)
    }

    /// Reads a regular file of at most `limit` bytes.
    pub async fn download(
        &self,
        user: User,
        path: &[u8],
        limit: u64,
        target: &mut (dyn AsyncWrite + Unpin + Send),
    ) -> Result<u64, FileError> {
        download(&self.link, user, path, limit, target).await
    }

    /// Tells about a file; a link is told about, not followed, and so is what it
    /// leads to.
    pub async fn stat(&self, user: User, path: &[u8]) -> Result<Entry, FileError> {
        self.stat_with(user, path, None).await
    }

    /// As [`Sandbox::stat`], with the extended attributes whose names begin with
    /// `attributes`, which begins with `user.`; at most [`MOST_ATTRIBUTES`] of
    /// [`ATTRIBUTE_BYTES`] together.
    ///
    /// [`MOST_ATTRIBUTES`]: belljar_guest_proto::MOST_ATTRIBUTES
    /// [`ATTRIBUTE_BYTES`]: belljar_guest_proto::ATTRIBUTE_BYTES
    pub async fn stat_with(
        &self,
        user: User,
        path: &[u8],
        attributes: Option<&[u8]>,
    ) -> Result<Entry, FileError> {
        let (path, attributes) = (path.to_vec(), attributes.map(<[u8]>::to_vec));
        match self.ask(Request::Stat { user: user.id(), path, attributes }).await? {
            Reply::Entry(entry) => Ok(entry),
            _ => Err(FileError::Link(LinkError::Gone)),
        }
    }

    pub async fn list(&self, user: User, path: &[u8], depth: u32) -> Result<Listing, FileError> {
        self.list_with(user, path, depth, None).await
    }

    /// As [`Sandbox::list`], with extended attributes as [`Sandbox::stat_with`].
    pub async fn list_with(
        &self,
        user: User,
        path: &[u8],
        depth: u32,
        attributes: Option<&[u8]>,
    ) -> Result<Listing, FileError> {
        let (path, attributes) = (path.to_vec(), attributes.map(<[u8]>::to_vec));
        let limit = MOST_ENTRIES;
        let request = Request::List { user: user.id(), path, depth, limit, attributes };
        match self.ask(request).await? {
            Reply::Entries { entries, complete } => Ok(Listing { entries, complete }),
            _ => Err(FileError::Link(LinkError::Gone)),
        }
    }

    /// Makes a directory and those above it, as far as they are missing.
    pub async fn make_dir(&self, user: User, path: &[u8]) -> Result<(), FileError> {
        self.make_dir_with(user.into(), path).await
    }

    /// As [`Sandbox::make_dir`], for another user.
    pub async fn make_dir_with(&self, creator: Creator, path: &[u8]) -> Result<(), FileError> {
        let (user, owner, path) = (creator.user.id(), creator.owner.id(), path.to_vec());
        self.ask(Request::MakeDir { user, owner, path, new: false }).await.map(drop)
    }

    /// As [`Sandbox::make_dir_with`]; refused with `AlreadyExists` if anything is there.
    pub async fn make_new_dir(&self, creator: Creator, path: &[u8]) -> Result<(), FileError> {
        let (user, owner, path) = (creator.user.id(), creator.owner.id(), path.to_vec());
        self.ask(Request::MakeDir { user, owner, path, new: true }).await.map(drop)
    }

    pub async fn rename(&self, user: User, from: &[u8], to: &[u8]) -> Result<(), FileError> {
        let (from, to) = (from.to_vec(), to.to_vec());
        self.ask(Request::Rename { user: user.id(), from, to }).await.map(drop)
    }

    /// Removes a file or a whole tree, however large.
    pub async fn remove(&self, user: User, path: &[u8]) -> Result<(), FileError> {
        const EAGAIN: i32 = 11;
        loop {
            match self.ask(Request::Remove { user: user.id(), path: path.to_vec() }).await {
                // The guest stops now and then, to serve others in between.
                Err(FileError::Refused { source, .. }) if source.raw_os_error() == Some(EAGAIN) => {
                }
                other => return other.map(drop),
            }
        }
    }

    pub async fn watch(
        &self,
        user: User,
        path: &[u8],
        recursive: bool,
    ) -> Result<Changes, FileError> {
        let mut channel = self.link.open();
        channel.cancel_on_drop(true);
        let request = Request::Watch { user: user.id(), path: path.to_vec(), recursive };
        channel.send(&ToGuest::Request(request), &[]).await.map_err(FileError::Link)?;
        channel.reply().await.map_err(FileError::Link)??;
        Ok(Changes { channel })
    }

    /// Files below `paths` that changed since the sandbox started.
    pub async fn changed(&self, user: User, paths: &[&str]) -> Result<Listing, FileError> {
        let paths = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let request = Request::Changed { user: user.id(), paths, limit: MOST_ENTRIES };
        match self.ask(request).await? {
            Reply::Changed(found) => {
                Ok(Listing { entries: found.entries, complete: found.complete })
            }
            _ => Err(FileError::Link(LinkError::Gone)),
        }
    }

    async fn ask(&self, request: Request) -> Result<Reply, FileError> {
        Ok(self.link.ask(request).await.map_err(FileError::Link)??)
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) async fn download(
    link: &Link,
    user: User,
    path: &[u8],
    limit: u64,
    target: &mut (dyn AsyncWrite + Unpin + Send),
) -> Result<u64, FileError> {
    let mut channel = link.open();
    let request = Request::Read { user: user.id(), path: path.to_vec() };
    channel.cancel_on_drop(true);
    channel.send(&ToGuest::Request(request), &[]).await.map_err(FileError::Link)?;
    let size = match channel.reply().await.map_err(FileError::Link)?? {
        Reply::Size(size) => size,
        _ => return Err(FileError::Link(LinkError::Gone)),
    };
    if size > limit {
        return Err(FileError::TooLarge { size, limit });
    }
    let (mut got, mut owed) = (0u64, 0);
    loop {
        match channel.next().await.map_err(FileError::Link)? {
            Incoming::Data(bytes) => {
                got += bytes.len() as u64;
                if got > size {
                    return Err(FileError::TooLarge { size: got, limit: size });
                }
                target.write_all(&bytes).await.map_err(FileError::Target)?;
                // In larger pieces: each grant is a message of its own.
                owed += bytes.len();
                if owed >= WINDOW as usize / 2 {
                    channel.grant(owed).await.map_err(FileError::Link)?;
                    owed = 0;
                }
            }
            Incoming::Eof => break,
            _ => {}
        }
    }
    channel.cancel_on_drop(false);
    target.flush().await.map_err(FileError::Target)?;
    if got == size { Ok(got) } else { Err(FileError::Shrunk { got, size }) }
}
