//! The cassette of one sandbox, which is named after it: it comes with a request, goes with one,
//! and is removed with the sandbox.
//!
//! A tenant's other cassettes have names that the tenant chose, and stay beside the gateway.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use belljar_domain::SandboxId;
use belljar_domain::network::{CassetteId, Tape};
use belljar_node::GatewayError;

use super::transfers::Transfer;
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::sandbox::Sandbox;
use crate::start::Actions;

/// The gateway lets go of a cassette within this time after its sandbox's end.
const RELEASE_DELAY: Duration = Duration::from_secs(5);

impl Actions {
    /// A file without a name, for a cassette on its way.
    pub fn new_archive(&self) -> Result<File, Problem> {
        let made = tempfile::tempfile_in(&self.config().state);
        made.map_err(|error| Problem::internal("make a file for the cassette", &error))
    }

    /// Begins to move the sandbox's own cassette out: before anything is written for it.
    pub async fn begin_cassette_read(
        &self,
        tenant: &Tenant,
        id: &str,
    ) -> Result<Transfer, Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        Self::recorded_name(&sandbox)?;
        self.transfers().begin(tenant).await
    }

    /// Begins to move a cassette in: before anything of it is taken. A sandbox without a network
    /// plays nothing.
    pub async fn begin_cassette_write(
        &self,
        tenant: &Tenant,
        id: &str,
    ) -> Result<Transfer, Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        if !sandbox.network().needs_gateway() {
            let message = "the sandbox has no network and no operations, so it plays no cassette";
            return Err(Problem::new(Kind::Invalid, "cassette_refused", message)
                .hint("set a policy, or create the sandbox with operations"));
        }
        self.transfers().begin(tenant).await
    }

    /// The name of the cassette that the sandbox records or plays, if it is its own.
    fn recorded_name(sandbox: &Sandbox) -> Result<CassetteId, Problem> {
        let own = own_name(sandbox.id())?;
        let network = sandbox.network();
        match &network.wish.policy.tape {
            Tape::Record { cassette } | Tape::Replay { cassette, .. } if *cassette == own => {
                Ok(own)
            }
            _ => Err(no_cassette()),
        }
    }

    /// Writes the sandbox's own cassette to a file.
    pub async fn read_cassette(
        &self,
        tenant: &Tenant,
        id: &str,
        archive: File,
    ) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let own = Self::recorded_name(&sandbox)?;
        let gateway = self.gateway().await;
        let gateway = gateway.map_err(|error| Problem::internal("start the gateway", &error))?;
        let saved = gateway.save_cassette(tenant.as_str().to_owned(), own, OwnedFd::from(archive));
        saved.await.map_err(|error| not_moved("read the cassette", &error))
    }

    /// Takes the cassette that is in a file as the sandbox's own, in the place of the one before.
    pub async fn write_cassette(
        &self,
        tenant: &Tenant,
        id: &str,
        archive: File,
    ) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let own = own_name(sandbox.id())?;
        let gateway = self.gateway().await;
        let gateway = gateway.map_err(|error| Problem::internal("start the gateway", &error))?;
        let loaded = gateway.load_cassette(tenant.as_str().to_owned(), own, OwnedFd::from(archive));
        loaded.await.map_err(|error| not_moved("write the cassette", &error))
    }

    /// Removes the own cassette of a sandbox that has ended.
    pub(crate) fn forget_cassette(&self, sandbox: &Sandbox) {
        let Ok(own) = own_name(sandbox.id()) else { return };
        let Some(gateway) = self.ways().started() else { return };
        let (gateway, id) = (gateway.clone(), sandbox.id().clone());
        let tenant = sandbox.facts().tenant.as_str().to_owned();
        tokio::spawn(async move {
            tokio::time::sleep(RELEASE_DELAY).await;
            if let Err(error) = gateway.remove_cassette(tenant, own).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(sandbox.id = %id, error, "cannot remove the cassette of a sandbox");
            }
        });
    }
}

/// Every id of a sandbox is a name for a cassette.
fn own_name(id: &SandboxId) -> Result<CassetteId, Problem> {
    id.as_str().parse().map_err(|_| Problem::unknown_sandbox(id.as_str()))
}

fn no_cassette() -> Problem {
    let message = "the sandbox has no cassette of its own";
    Problem::new(Kind::NotFound, "cassette_not_found", message)
        .hint("record on a cassette that is named after the sandbox")
}

fn not_moved(attempted: &str, error: &GatewayError) -> Problem {
    match error {
        GatewayError::Refused(why) => {
            Problem::new(Kind::Invalid, "cassette_refused", format!("the gateway refused: {why}"))
        }
        error => Problem::internal(attempted, error),
    }
}
