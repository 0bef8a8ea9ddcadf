//! Transfers that must answer in time, whatever they answer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::User;
use belljar_node::{FileError, Listing, Sandbox};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::timeout;

/// What is not over by then hangs, also on a small machine that others use.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(30);

/// Downloads at most this much unless an act says otherwise.
pub(crate) const LIMIT: u64 = 16 << 20;

/// The outer error: it hung. The inner one: it was refused.
pub(crate) async fn download(
    sandbox: &Sandbox,
    path: &[u8],
    limit: u64,
) -> anyhow::Result<Result<Vec<u8>, FileError>> {
    download_as(User::User, sandbox, path, limit).await
}

pub(crate) async fn download_as(
    user: User,
    sandbox: &Sandbox,
    path: &[u8],
    limit: u64,
) -> anyhow::Result<Result<Vec<u8>, FileError>> {
    let mut target = Vec::new();
    let done = timeout(HANG_LIMIT, sandbox.download(user, path, limit, &mut target)).await;
    let done = done.with_context(|| format!("download of {} hangs", path.escape_ascii()))?;
    Ok(done.map(|_| target))
}

pub(crate) async fn upload(
    sandbox: &Sandbox,
    path: &[u8],
    bytes: &[u8],
) -> anyhow::Result<Result<u64, FileError>> {
    upload_as(User::User, sandbox, path, bytes).await
}

pub(crate) async fn upload_as(
    user: User,
    sandbox: &Sandbox,
    path: &[u8],
    bytes: &[u8],
) -> anyhow::Result<Result<u64, FileError>> {
    let mut source = bytes;
    let done = timeout(HANG_LIMIT, sandbox.upload(user, path, 0o644, &mut source)).await;
    done.with_context(|| format!("upload to {} hangs", path.escape_ascii()))
}

pub(crate) async fn list(
    sandbox: &Sandbox,
    path: &[u8],
) -> anyhow::Result<Result<Listing, FileError>> {
    let done = timeout(HANG_LIMIT, sandbox.list(User::User, path, 1)).await;
    done.with_context(|| format!("list of {} hangs", path.escape_ascii()))
}

/// A source that gives some bytes and then breaks, or never goes on.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) byte: u8,
    pub(crate) left: usize,
    pub(crate) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Fail,
    Stall,
}

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let count = self.left.min(buffer.remaining());
        match (count, self.then) {
            (0, Then::Fail) => Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into())),
            (0, Then::Stall) => Poll::Pending,
            _ => {
                buffer.put_slice(&vec![self.byte; count]);
                self.left -= count;
                Poll::Ready(Ok(()))
            }
        }
    }
}
