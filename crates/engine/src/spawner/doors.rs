//! The way out of a sandbox: a listener inside its network namespace, which
//! somebody outside holds.

use std::io;
use std::os::fd::AsFd;

use belljar_domain::SandboxId;
use belljar_sys::net::{Door, door_into, own_namespace};

use super::Spawner;
use crate::jail::{Attempt, Failure};
use crate::wire::{self, FromSpawner};

impl Spawner {
    pub(super) fn answer_listen(&self, sequence: u64, id: &SandboxId, port: u16) -> io::Result<()> {
        match self.listen(id, port) {
            Ok(Door { listener, diagnosis }) => {
                let descriptors = [listener.as_fd(), diagnosis.as_fd()];
                wire::send(&self.socket, &FromSpawner::Listening { sequence }, &descriptors)
            }
            Err(failure) => {
                wire::send(&self.socket, &FromSpawner::Failed { sequence, failure }, &[])
            }
        }
    }

    fn listen(&self, id: &SandboxId, port: u16) -> Result<Door, Failure> {
        let sandbox = self.sandboxes.get(id).filter(|sandbox| sandbox.birth.is_none());
        let sandbox = sandbox.ok_or(io::ErrorKind::NotFound);
        let sandbox = sandbox.map_err(io::Error::from).doing("find the sandbox")?;
        let home = own_namespace().doing("open the host's network namespace")?;
        door_into(sandbox.pidfd.as_fd(), home.as_fd(), port)
            .doing("listen inside the sandbox's network namespace")
    }
}
