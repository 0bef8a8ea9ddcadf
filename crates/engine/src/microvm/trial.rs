//! Finds out how this host runs machines, by booting one.
//!
//! That `/dev/kvm` is there says little: some hosts have one that never runs a
//! single instruction. What counts is that a guest said its first word. The
//! finding is kept in the state directory until the monitor or the kernel
//! changes, or the host boots anew.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use belljar_domain::{Limits, RootFs, SandboxId, Spec, Tier};
use serde::{Deserialize, Serialize};

use super::Accelerator;
use super::workshop::{Workshop, make_dir};
use crate::defence::Weakened;
use crate::engine::{Engine, StartError, to_tokio};
use crate::runner::Runner;
use crate::wire::{FromSpawner, ToSpawner};

/// How machines are run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    pub accelerator: Accelerator,
    /// Why not a faster one, or that there is none.
    pub why: String,
    /// The monitor, as it names itself.
    pub monitor: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    key: String,
    chosen: Chosen,
}

/// A processor that really runs machines boots one in a fraction of this.
const LONGEST: Duration = Duration::from_secs(5);

impl Engine {
    /// How machines are run here; `None` until the first was made.
    pub fn accelerator(&self) -> Option<Chosen> {
        self.connection.workshop.chosen.get().cloned()
    }

    pub(crate) async fn choose_accelerator(&self, root: &RootFs) -> Result<Chosen, StartError> {
        let workshop = &self.connection.workshop;
        let choose = async {
            let (connection, asked_for) = (self.connection.clone(), root.clone());
            let asked = move || connection.workshop.key(&asked_for);
            let unsupported = |why| StartError::Unsupported { tier: Tier::Microvm, why };
            let asked = tokio::task::spawn_blocking(asked).await;
            let key = asked.map_err(|_| StartError::SpawnerGone)?.map_err(unsupported)?;
            if let Some(chosen) = workshop.kept(&key) {
                return Ok(chosen);
            }
            let monitor = workshop.version().map_err(unsupported)?;
            let (accelerator, why) = match self.tried(root.clone(), Accelerator::Kvm).await {
                Ok(()) => (Accelerator::Kvm, "a virtual machine booted with it".to_owned()),
                Err(why) => (Accelerator::Tcg, why),
            };
            let chosen = Chosen { accelerator, why, monitor };
            // Found out again the next time if it cannot be kept.
            let _ = workshop.keep(&Kept { key, chosen: chosen.clone() });
            Ok(chosen)
        };
        workshop.chosen.get_or_try_init(|| choose).await.cloned()
    }

    /// Boots a machine and waits for its guest's first word.
    async fn tried(&self, root: RootFs, accelerator: Accelerator) -> Result<(), String> {
        if accelerator == Accelerator::Kvm && !Path::new(KVM).exists() {
            return Err(format!("this host has no {KVM}"));
        }
        let limits = Limits { memory_bytes: 128 << 20, disk_bytes: 16 << 20, ..Limits::default() };
        let spec = Spec { limits, ..Spec::new(Tier::Microvm, root) };
        let connection = self.connection.clone();
        let design = move || connection.workshop.design(&spec, None, accelerator);
        let plan = tokio::task::spawn_blocking(design).await.map_err(|e| e.to_string())??;
        let id = random_id().map_err(|error| format!("cannot get a random number: {error}"))?;
        let sequence = self.connection.next();
        let request = ToSpawner::Create {
            sequence,
            id: id.clone(),
            spec: Box::new(plan.spec.clone()),
            weakened: Weakened::default(),
            zygote: None,
            files: false,
            fork: None,
            runner: Some(Box::new(Runner::Microvm(plan.order.clone()))),
        };
        let booted = async {
            let asked = self.connection.ask_with(sequence, &request, &plan.ends.carried()).await;
            let (answer, descriptors) = asked.map_err(|error| chain(&error))?;
            let stream = descriptors.into_iter().next();
            let (FromSpawner::Created { .. }, Some(stream)) = (answer, stream) else {
                return Err("the spawner sent an unexpected response".to_owned());
            };
            let stream = to_tokio(stream).map_err(|error| error.to_string())?;
            let _monitor = plan.meet(None).await.map_err(|error| chain(&error))?;
            loop {
                stream.readable().await.map_err(|error| error.to_string())?;
                match stream.try_read(&mut [0; 64]) {
                    Ok(0) => {
                        return Err("the virtual machine ended before its guest started".to_owned());
                    }
                    Ok(_) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        let booted = tokio::time::timeout(LONGEST, booted).await;
        let ended = self.connection.destroy(id).await;
        ended.map_err(|error| chain(&error))?;
        let late =
            || Err(format!("no virtual machine booted with it within {} s", LONGEST.as_secs()));
        let booted = booted.unwrap_or_else(|_| late());
        booted.map_err(|why| format!("{KVM} exists, but {why}"))
    }
}

pub(crate) const KVM: &str = "/dev/kvm";

fn random_id() -> io::Result<SandboxId> {
    let mut bits = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bits)?;
    Ok(SandboxId::from_random(bits))
}

fn chain(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl Workshop {
    /// What a finding holds for.
    fn key(&self, root: &RootFs) -> Result<String, String> {
        let parts = self.supply(root)?;
        Ok(format!("{} {}", self.version()?, parts.kernel_version))
    }

    fn kept(&self, key: &str) -> Option<Chosen> {
        make_dir(&self.dir).ok()?;
        let text = fs::read(self.dir.join("accelerator.json")).ok()?;
        let kept: Kept = serde_json::from_slice(&text).ok()?;
        (kept.key == key).then_some(kept.chosen)
    }

    fn keep(&self, kept: &Kept) -> io::Result<()> {
        let text = serde_json::to_vec(kept).map_err(io::Error::other)?;
        make_dir(&self.dir)?;
        let fresh = self.dir.join(format!("accelerator.{}", std::process::id()));
        fs::write(&fresh, text)?;
        fs::rename(&fresh, self.dir.join("accelerator.json"))
    }
}
