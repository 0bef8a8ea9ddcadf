//! The tape of a run's sandbox: the exchanges of its code with operations and hosts are recorded
//! beside the model's answers, and played in a replay.
//!
//! ```text
//!   record:  sandbox (nothing goes out) ─► tape on ─► calls ─► cassette ─► object of the tenant
//!   replay:  sandbox (nothing goes out) ─► cassette of the object ─► tape on ─► calls
//! ```

use std::io::Write as _;

use belljar_api::network::Network;
use belljar_client::{Error, Sandbox};
use belljar_journal::BlobRef;
use belljar_journal::event::NetworkAccess;
use belljar_model::SandboxId;
use belljar_model::network::{CassetteId, InvalidCassetteId, Miss, Policy, Tape};

use super::Work;
use crate::data::DataError;
use crate::recording::cassette_item;
use crate::room;

/// A cassette that no sandbox has: the name is too short to be a sandbox's.
const NO_CASSETTE: &str = "none";

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
        let sandbox = self.worker.rooms.client.sandbox(id.as_str());
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
        let set = sandbox.set_network(&Network::of(&policy, access.packages)).await;
        set.map(drop).map_err(TapeError::Set)
    }

    /// Keeps what was recorded of the sandbox's exchanges. A sandbox that is gone took its
    /// cassette along.
    pub(super) async fn keep_cassette(&self) -> Option<BlobRef> {
        let id = self.story.view.sandbox.as_ref();
        let id = id.filter(|_| self.tape() == Some(RunTape::Record))?;
        let sandbox = self.worker.rooms.at(id, self.lease.generation);
        match self.take_cassette(&sandbox).await {
            Ok(cassette) => Some(cassette),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, run.id = %self.lease.address.run, "cassette not kept");
                None
            }
        }
    }

    async fn take_cassette(&self, sandbox: &Sandbox) -> Result<BlobRef, TapeError> {
        const NAME: &str = "cassette";
        let depot = &self.worker.rooms.depot;
        let mut archive = sandbox.read_cassette().await.map_err(TapeError::Read)?;
        let mut file = depot.fresh(NAME)?;
        while let Some(piece) = archive.next().await.map_err(TapeError::Read)? {
            let written = file.write_all(&piece);
            written.map_err(|source| DataError::Write { name: NAME.to_owned(), source })?;
        }
        let kept = depot.take(NAME, file).await?;
        Ok(BlobRef { sha256: kept.fingerprint, bytes: kept.bytes })
    }
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
    use belljar_model::network::Reach;

    use super::*;

    #[test]
    fn nothing_goes_out_before_the_tape_is_in() {
        let policy = Policy { reach: Reach::Open, ..Policy::default() };
        let access = NetworkAccess { policy, packages: true, ..NetworkAccess::default() };
        let waiting = waiting(&access);
        assert!(waiting.policy.tape.is_sealed() && waiting.packages);
        assert_eq!(waiting.policy.reach, Reach::Open);
    }
}
