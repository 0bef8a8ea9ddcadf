//! The session of a program, kept with the run: another sandbox can go on from there.

use std::time::Duration;

use belljar_client::{Command, Sandbox};
use belljar_journal::NewEvent;
use belljar_journal::event::{Body, SessionSaved};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::super::Work;
use super::super::call::read;
use super::ProgramError;
use super::hear::Hearing;
use crate::room;

const FILE: &str = "/tmp/.belljar/session.tgz";
/// Bytes of a session. One that is larger is kept without the files of the task.
const MAX_SESSION_BYTES: usize = 48 << 20;
/// Time to pack or unpack one.
const PACK_TIMEOUT: Duration = Duration::from_secs(120);
/// Time after which a session is kept first. Each of the following times is twice the one before.
const FIRST_SAVE: Duration = Duration::from_secs(60);

/// Packs the home directory, or where that is too large, what the program keeps of its sessions.
/// Files may change meanwhile: `tar` says so with its status, and the archive is good all the same.
const PACK: &str = "cd \"$HOME\" && mkdir -p /tmp/.belljar && f=/tmp/.belljar/session.tgz\n\
    tar -czf $f --exclude=./.cache --exclude=./.npm . 2>/dev/null\n\
    [ \"$(wc -c < $f)\" -le 50331648 ] || \
        tar -czf $f $(ls -d .claude .claude.json .codex 2>/dev/null) 2>/dev/null\n\
    [ -s $f ]";

const UNPACK: &str = "tar -xzf /tmp/.belljar/session.tgz -C \"$HOME\"; \
    status=$?; rm -f /tmp/.belljar/session.tgz; exit $status";

/// The times at which a session is kept while its program works.
#[derive(Debug)]
pub(super) struct SaveTimes {
    next: Instant,
    pause: Duration,
    /// The last turn of the session that is kept.
    turn: u32,
}

impl SaveTimes {
    pub(super) fn begin(now: Instant) -> Self {
        Self { next: now + FIRST_SAVE, pause: FIRST_SAVE, turn: 0 }
    }

    /// Returns true if it is time, and there is more to keep than before.
    pub(super) fn is_due(&self, now: Instant, turn: u32) -> bool {
        now >= self.next && turn > self.turn
    }

    fn saved(&mut self, now: Instant, turn: u32) {
        self.pause *= 2;
        (self.next, self.turn) = (now + self.pause, turn);
    }
}

/// A session on its way out of the sandbox.
pub(super) type Packing = BoxFuture<'static, Result<Vec<u8>, belljar_client::Error>>;

/// Waits until a session is packed; if none is, without an end.
pub(super) async fn packed(
    packing: &mut Option<Packing>,
) -> Result<Vec<u8>, belljar_client::Error> {
    match packing {
        Some(packing) => packing.await,
        None => std::future::pending().await,
    }
}

impl Hearing<'_> {
    /// Begins to pack the session as it is now. None: the program has named none.
    pub(super) fn pack_session(&mut self) -> Option<Packing> {
        self.transcript.work.session.as_ref()?;
        self.saves.saved(Instant::now(), self.transcript.turn());
        Some(Box::pin(pack(self.room.clone())))
    }
}

impl Work<'_> {
    /// Keeps the session as it is now.
    pub(super) async fn save_session(
        &mut self,
        hearing: &mut Hearing<'_>,
    ) -> Result<(), ProgramError> {
        let Some(packing) = hearing.pack_session() else { return Ok(()) };
        let packed = packing.await;
        self.keep_session(hearing, packed).await
    }

    /// Keeps a session that was packed. A sandbox that cannot pack it loses nothing but this.
    pub(super) async fn keep_session(
        &mut self,
        hearing: &Hearing<'_>,
        packed: Result<Vec<u8>, belljar_client::Error>,
    ) -> Result<(), ProgramError> {
        let Some(session) = hearing.transcript.work.session.clone() else { return Ok(()) };
        let bytes = match packed {
            Ok(bytes) => bytes,
            Err(error) if room::is_gone(&error) => return Err(error.into()),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, run.id = %self.lease.address.run, "session not saved");
                return Ok(());
            }
        };
        let content = self.keep_blob(bytes).await?;
        let is_same = |body: &Body| matches!(body, Body::SessionSaved(it) if it.content == content);
        if !self.events.iter().any(|event| is_same(&event.body)) {
            let call = hearing.call.call.clone();
            self.append(NewEvent::new(SessionSaved { call, session, content })).await?;
            self.catch_up().await?;
        }
        Ok(())
    }

    /// Puts a session into a sandbox in which its program has not begun.
    pub(super) async fn restore_session(
        &self,
        sandbox: &Sandbox,
        saved: &SessionSaved,
    ) -> Result<(), ProgramError> {
        let journal = &self.worker.journal;
        let content = journal.get_blob(&self.lease.address, &saved.content).await;
        let content = content.map_err(super::super::WorkError::Blob)?;
        sandbox.write_file(FILE, content).await?;
        let unpack = Command { timeout: Some(PACK_TIMEOUT), ..Command::script(UNPACK) };
        let ran = sandbox.run(&unpack, None).await?.finish().await?;
        if ran.end.exit_code != Some(0) {
            tracing::warn!(run.id = %self.lease.address.run, "session not unpacked whole");
        }
        Ok(())
    }
}

async fn pack(sandbox: Sandbox) -> Result<Vec<u8>, belljar_client::Error> {
    let command = Command { timeout: Some(PACK_TIMEOUT), ..Command::script(PACK) };
    sandbox.run(&command, None).await?.finish().await?;
    read(&sandbox, FILE, MAX_SESSION_BYTES).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_kept_less_and_less_often_and_only_if_it_grew() {
        let begin = Instant::now();
        let mut times = SaveTimes::begin(begin);
        assert!(!times.is_due(begin, 1));
        let first = begin + FIRST_SAVE;
        assert!(times.is_due(first, 1) && !times.is_due(first, 0));
        times.saved(first, 1);
        assert!(!times.is_due(first + FIRST_SAVE, 2));
        assert!(times.is_due(first + FIRST_SAVE * 2, 2));
        assert!(!times.is_due(first + FIRST_SAVE * 2, 1));
    }
}
