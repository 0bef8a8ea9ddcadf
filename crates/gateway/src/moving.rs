//! Cassettes as files that come from the node and go to it: a run's recording travels with them
//! to another node.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::time::Duration;

use belljar_cassette::{Limits, StoreError, Tenant, TransferError};
use belljar_domain::network::CassetteId;
use belljar_peer_proto::gateway::FromGateway;

use crate::shared::{Gateway, Shared};

/// Plain bytes of a cassette that is moved.
const MAX_MOVED_BYTES: u64 = 1 << 30;
/// Content of cassettes in use is looked at again after so long.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// A cassette that is moved, or removed.
#[derive(Debug)]
pub(crate) enum Move {
    Save { cassette: CassetteId, file: OwnedFd },
    Load { cassette: CassetteId, file: OwnedFd },
    Remove { cassette: CassetteId },
}

/// A cassette was not moved.
#[derive(Debug, thiserror::Error)]
enum MoveError {
    #[error("the gateway has no directory for cassettes")]
    NoPlace,
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("work on the cassette was aborted")]
    Aborted,
}

impl Gateway {
    /// Moves a cassette of a tenant on another thread, and answers the node then.
    pub(crate) fn move_cassette(&self, sequence: u64, tenant: String, wanted: Move) {
        let (store, events) = (self.cassettes(), self.events());
        tokio::spawn(async move {
            let moved = match store {
                Some(store) => {
                    let limits = Limits { cassette_bytes: MAX_MOVED_BYTES, ..Limits::default() };
                    let tenant = store.bounded(limits).tenant(&tenant);
                    let moved = tokio::task::spawn_blocking(move || wanted.carry_out(&tenant));
                    moved.await.unwrap_or(Err(MoveError::Aborted))
                }
                None => Err(MoveError::NoPlace),
            };
            let answer = match moved {
                Ok(()) => FromGateway::Done { sequence },
                Err(error) => FromGateway::Refused { sequence, why: error.to_string() },
            };
            // A node that is gone needs no answer.
            let _ = events.send(answer).await;
        });
    }
}

/// Removes what no cassette needs and could not be removed when it was due, again and again.
pub(crate) async fn sweep_again(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(store) = shared.upgrade().map(|shared| shared.live().cassettes.clone()) else {
            return;
        };
        let Some(store) = store else { continue };
        let swept = tokio::task::spawn_blocking(move || store.sweep_overdue()).await;
        if let Ok(Err(error)) = swept {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot sweep cassettes");
        }
    }
}

impl Move {
    fn carry_out(self, tenant: &Tenant) -> Result<(), MoveError> {
        match self {
            Self::Save { cassette, file } => tenant.export(&cassette, File::from(file))?,
            Self::Load { cassette, file } => {
                tenant.replace(&cassette, File::from(file))?;
            }
            Self::Remove { cassette } => drop(tenant.remove(&cassette)?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use belljar_cassette::Store;

    use super::*;

    #[test]
    fn an_empty_cassette_travels_and_takes_the_place_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Limits::default()).unwrap();
        let (one, other) = (store.tenant("one"), store.tenant("other"));
        let cassette: CassetteId = "a".parse().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let to = |file: &File| OwnedFd::from(file.try_clone().unwrap());
        let save = || Move::Save { cassette: cassette.clone(), file: to(&file) };
        assert!(matches!(save().carry_out(&one), Err(MoveError::Transfer(_))), "there is none");
        one.make(&cassette).unwrap();
        save().carry_out(&one).unwrap();
        for _ in 0..2 {
            file.rewind().unwrap();
            let load = Move::Load { cassette: cassette.clone(), file: to(&file) };
            load.carry_out(&other).unwrap();
            assert!(other.entries(&cassette).unwrap().is_empty());
        }
        Move::Remove { cassette: cassette.clone() }.carry_out(&other).unwrap();
        assert!(!other.has(&cassette) && one.has(&cassette));
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(b"no archive").unwrap();
        file.rewind().unwrap();
        let load = Move::Load { cassette: cassette.clone(), file: to(&file) };
        assert!(matches!(load.carry_out(&other), Err(MoveError::Transfer(_))));
        assert!(!other.has(&cassette), "nothing is left of it");
    }
}
