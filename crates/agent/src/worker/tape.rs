//! The tape of a run's sandbox: the exchanges of its code with operations and hosts are recorded
//! beside the model's answers, and played in a replay.
//!
//! ```text
//!   record:  sandbox (nothing goes out) ─► tape on ─► calls ─► cassette ─► object of the tenant
//!   replay:  sandbox (nothing goes out) ─► cassette of the object ─► tape on ─► calls
//! ```

use std::io;

use belljar_api::network::Network;
use belljar_client::{Backoff, Error, Outcome, Sandbox};
use belljar_domain::SandboxId;
use belljar_domain::network::{CassetteId, InvalidCassetteId, Miss, Policy, Tape};
use belljar_journal::BlobRef;
use belljar_journal::event::NetworkAccess;
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;

use super::{Work, WorkError, chain};
use crate::data::DataError;
use crate::recording::cassette_item;
use crate::room;

/// A cassette that no sandbox has: the name is too short to be a sandbox's.
const NO_CASSETTE: &str = "none";
/// The longest cassette that is kept. No server takes a longer one for a replay.
const MAX_CASSETTE_BYTES: u64 = 1 << 30;

/// The tape of a sandbox cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum TapeError {
    #[error("cannot set the sandbox's tape")]
    Set(#[source] Error),
    #[error("cannot put the recorded cassette into place")]
    Write(#[source] Error),
    #[error("cannot read the sandbox's cassette")]
    Read(#[source] Error),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("the sandbox's id cannot name a cassette")]
    Name(#[from] InvalidCassetteId),
    #[error("the sandbox's cassette is longer than {MAX_CASSETTE_BYTES} bytes")]
    TooLong,
}

impl TapeError {
    /// Splits off errors that a later attempt may not meet; the run is put off for these. The
    /// others come again.
    pub(super) fn lasting(self) -> Result<Self, WorkError> {
        match self {
            Self::Set(error) | Self::Write(error) | Self::Read(error)
                if error.code() == Some("stale_generation") =>
            {
                Err(WorkError::Fenced)
            }
            Self::Set(error) | Self::Write(error) | Self::Read(error)
                if error.outcome() != Outcome::Refused =>
            {
                Err(WorkError::Tape(error))
            }
            Self::Data(DataError::Changed(name)) => Ok(DataError::Changed(name).into()),
            Self::Data(error) => Err(error.into()),
            lasting => Ok(lasting),
        }
    }
}

/// The cassette beside a recording.
#[derive(Debug, Default)]
pub(super) struct KeptCassette {
    pub(super) cassette: Option<BlobRef>,
    /// The reason why exchanges are missing on it; none: there is none missing.
    pub(super) incomplete: Option<String>,
}

/// The use of a sandbox's own cassette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunTape {
    Record,
    /// Of the cassette in the recording. None: nothing is on it.
    Replay(Option<BlobRef>),
}

impl Work<'_> {
    /// The tape that the run's sandboxes have beside the tape of the model's answers. A run that
    /// has no network, or chose a cassette itself, has none.
    pub(super) fn tape(&self) -> Option<RunTape> {
        let access = &self.story.view.network;
        if !access.is_connected() || access.policy.tape != Tape::Off {
            return None;
        }
        match &self.recording {
            Some(recording) => Some(RunTape::Replay(recording.cassette)),
            None => self.brief.record.as_ref().map(|_| RunTape::Record),
        }
    }

    /// Puts the tape in, before any code runs. Until then nothing goes out.
    pub(super) async fn insert_tape(&self, id: &SandboxId) -> Result<(), TapeError> {
        let Some(tape) = self.tape() else { return Ok(()) };
        let sandbox = self.worker.rooms.at(id, self.lease.generation);
        let cassette: CassetteId = id.as_str().parse()?;
        let tape = match tape {
            RunTape::Record => Tape::Record { cassette },
            RunTape::Replay(recorded) => {
                if let Some(recorded) = recorded {
                    let archive = self.worker.rooms.depot.open(&cassette_item(recorded)).await?;
                    let written = sandbox.write_cassette(room::pieces(archive)).await;
                    written.map_err(TapeError::Write)?;
                }
                Tape::Replay { cassette, miss: Miss::Judged }
            }
        };
        let access = &self.story.view.network;
        let policy = Policy { tape, ..access.policy.clone() };
        let network = Network::of(&policy, access.packages);
        let set = Backoff::of_safe().run(|| sandbox.set_network(&network)).await;
        set.map(drop).map_err(TapeError::Set)
    }

    /// Keeps what was recorded of the sandbox's exchanges. A sandbox that is gone took its
    /// cassette along.
    pub(super) async fn keep_cassette(&self) -> KeptCassette {
        let id = self.story.view.sandbox.as_ref();
        let Some(id) = id.filter(|_| self.tape() == Some(RunTape::Record)) else {
            return KeptCassette::default();
        };
        let sandbox = self.worker.rooms.at(id, self.lease.generation);
        match self.take_cassette(&sandbox).await {
            Ok(cassette) => {
                let incomplete = lost_exchanges(self.story.view.sandboxes);
                KeptCassette { cassette: Some(cassette), incomplete }
            }
            Err(error) => {
                let incomplete = Some(format!("the cassette is not kept: {}", chain(&error)));
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, run.id = %self.lease.address.run, "cassette not kept");
                KeptCassette { cassette: None, incomplete }
            }
        }
    }

    async fn take_cassette(&self, sandbox: &Sandbox) -> Result<BlobRef, TapeError> {
        const NAME: &str = "cassette";
        let depot = &self.worker.rooms.depot;
        let mut archive = sandbox.read_cassette().await.map_err(TapeError::Read)?;
        let failed = |source| DataError::Write { name: NAME.to_owned(), source };
        let file = depot.fresh(NAME)?;
        let mut writer = writer(&file).map_err(failed)?;
        let mut bytes = 0;
        while let Some(piece) = archive.next().await.map_err(TapeError::Read)? {
            bytes += piece.len() as u64;
            if bytes > MAX_CASSETTE_BYTES {
                return Err(TapeError::TooLong);
            }
            writer.write_all(&piece).await.map_err(failed)?;
        }
        writer.flush().await.map_err(failed)?;
        let kept = depot.take(NAME, file).await?;
        Ok(BlobRef { sha256: kept.fingerprint, bytes: kept.bytes })
    }
}

/// Writes to the file on threads that may wait for the disk.
pub(super) fn writer(file: &NamedTempFile) -> io::Result<tokio::fs::File> {
    Ok(tokio::fs::File::from_std(file.as_file().try_clone()?))
}

/// The exchanges that are missing after this many sandboxes: each has a cassette of its own, and
/// the last one is kept.
fn lost_exchanges(sandboxes: u32) -> Option<String> {
    (sandboxes > 1).then(|| {
        format!("the run had {sandboxes} sandboxes: the cassette has the requests of the last one")
    })
}

/// The network of a sandbox that waits for its tape: connected like the run's, and nothing goes
/// out.
pub(super) fn waiting(access: &NetworkAccess) -> NetworkAccess {
    let policy = match NO_CASSETTE.parse() {
        Ok(cassette) => {
            let tape = Tape::Replay { cassette, miss: Miss::Judged };
            Policy { tape, ..access.policy.clone() }
        }
        Err(InvalidCassetteId) => Policy::default(),
    };
    NetworkAccess { policy, ..access.clone() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use belljar_client::{Protocol, Transport};
    use belljar_domain::network::Reach;

    use super::*;

    #[test]
    fn a_run_is_closed_for_errors_that_come_again_alone() {
        let silent = || Error::Transport(Transport::Silent(Duration::from_secs(1)));
        assert!(matches!(TapeError::Set(silent()).lasting(), Err(WorkError::Tape(_))));
        let begun = Error::Protocol(Protocol::NotBegun);
        assert!(matches!(TapeError::Write(begun).lasting(), Err(WorkError::Tape(_))));
        let changed = TapeError::Data(DataError::Changed("c".to_owned()));
        assert!(matches!(changed.lasting(), Ok(TapeError::Data(_))));
        let source = io::Error::other("no space");
        let full = TapeError::Data(DataError::Write { name: "c".to_owned(), source });
        assert!(matches!(full.lasting(), Err(WorkError::Data(_))));
        assert!(matches!(TapeError::Set(Error::SandboxGone).lasting(), Ok(TapeError::Set(_))));
    }

    #[test]
    fn a_cassette_of_one_sandbox_is_whole() {
        assert_eq!((lost_exchanges(0), lost_exchanges(1)), (None, None));
        assert!(lost_exchanges(2).is_some_and(|why| why.contains("2 sandboxes")));
    }

    #[test]
    fn nothing_goes_out_before_the_tape_is_in() {
        let policy = Policy { reach: Reach::Open, ..Policy::default() };
        let access = NetworkAccess { policy, packages: true, ..NetworkAccess::default() };
        let waiting = waiting(&access);
        assert!(waiting.policy.tape.is_sealed() && waiting.packages);
        assert_eq!(waiting.policy.reach, Reach::Open);
    }
}
