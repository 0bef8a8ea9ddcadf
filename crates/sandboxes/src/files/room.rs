//! Room for what is written.
//!
//! The writable layer of a sandbox is charged to its memory. A sandbox without
//! memory loses its processes, the guest among them; so what is written from
//! outside stops before that, as on a disk that is full.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use belljar_node::Sandbox;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that are passed on between two looks.
const EVERY: u64 = 4 << 20;

/// The part of its memory that a sandbox keeps for its processes.
const KEPT: u64 = 32;

/// Passes a file on for as long as the sandbox has room for it.
pub(super) struct Room<'a> {
    source: &'a mut (dyn AsyncRead + Unpin + Send),
    machine: &'a Sandbox,
    passed: u64,
    next_look: u64,
}

impl<'a> Room<'a> {
    pub(super) fn new(
        source: &'a mut (dyn AsyncRead + Unpin + Send),
        machine: &'a Sandbox,
    ) -> Self {
        Self { source, machine, passed: 0, next_look: 0 }
    }

    fn is_there(&self) -> bool {
        let usage = self.machine.usage();
        let used = usage.memory_bytes.unwrap_or(0);
        let used = used.saturating_sub(usage.cache_bytes.unwrap_or(0));
        let limit = usage.memory_limit_bytes;
        used.saturating_add(EVERY) < limit - limit / KEPT
    }
}

impl AsyncRead for Room<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.passed >= self.next_look {
            if !self.is_there() {
                return Poll::Ready(Err(io::ErrorKind::StorageFull.into()));
            }
            self.next_look = self.passed + EVERY;
        }
        let before = into.filled().len();
        let read = Pin::new(&mut *self.source).poll_read(context, into);
        self.passed += (into.filled().len() - before) as u64;
        read
    }
}
