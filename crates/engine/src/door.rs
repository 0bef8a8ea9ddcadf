//! The way out of a sandbox, as the host makes it and reads it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use belljar_domain::Tier;
use belljar_sys::net::Door;

use crate::engine::StartError;
use crate::machine::Machine;
use crate::wire::{FromSpawner, ToSpawner};

/// Why nobody listens inside a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Its network is another kernel's: the guest listens, and passes on what
    /// comes.
    #[error("the `{0}` tier has a network in its own kernel; its guest relays connections")]
    Relay(Tier),
    #[error("the `{0}` tier has no network namespace per sandbox")]
    NoNamespace(Tier),
    #[error("entering the network namespace of a sandbox needs root")]
    Rootless,
    #[error("cannot listen inside the sandbox")]
    Refused(#[source] StartError),
}

impl Machine {
    /// Listens on a port of the sandbox's loopback, from outside. Whoever holds
    /// the listener is whom code inside reaches there.
    pub async fn listen(&self, port: u16) -> Result<Door, ListenError> {
        match self.tier {
            Tier::Process => return Err(ListenError::NoNamespace(self.tier)),
            tier if !tier.shares_kernel() => return Err(ListenError::Relay(tier)),
            _ if !self.facts.privileged => return Err(ListenError::Rootless),
            _ => {}
        }
        let gone = || ListenError::Refused(StartError::SpawnerGone);
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let engine = engine.ok_or_else(gone)?;
        let sequence = engine.next();
        let request = ToSpawner::Listen { sequence, id: self.id.clone(), port };
        let answer = engine.ask_with(sequence, &request, &[]).await;
        let (answer, descriptors) = answer.map_err(ListenError::Refused)?;
        let mut descriptors = descriptors.into_iter();
        match (answer, descriptors.next(), descriptors.next()) {
            (FromSpawner::Listening { .. }, Some(listener), Some(diagnosis)) => {
                Ok(Door { listener, diagnosis })
            }
            _ => Err(gone()),
        }
    }

    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Where its processes are found, as long as there are any.
    pub fn whereabouts(&self) -> Option<Whereabouts> {
        Some(Whereabouts { dir: self.group.as_ref()?.unified()? })
    }
}

/// Where in the host's kernel the processes of a sandbox are found.
#[derive(Debug, Clone)]
pub struct Whereabouts {
    dir: PathBuf,
}

/// A process of a sandbox that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// As the host counts.
    pub pid: u32,
    /// What it calls itself, without anything that could not be printed.
    pub name: String,
}

/// What looking at one process costs, in descriptors looked at.
const PROCESS: u32 = 8;

impl Whereabouts {
    /// The calls that have a group now, and the kernel's number of that group.
    pub fn calls(&self) -> io::Result<Vec<(u32, u64)>> {
        let mut calls = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix('c')?.parse().ok());
            if let Some(number) = number {
                // One that has just gone holds nobody.
                calls.extend(entry.metadata().ok().map(|found| (number, found.ino())));
            }
        }
        Ok(calls)
    }

    /// The process that holds the socket, looked for in its call first. It reads
    /// what the kernel says of each process: not on a thread that serves others.
    ///
    /// Code decides how many processes and descriptors there are to look at;
    /// `effort` is how many may be, and what is left of it afterwards.
    pub fn holder(&self, inode: u32, call: Option<u32>, effort: &mut u32) -> Option<Holder> {
        let wanted = format!("socket:[{inode}]");
        let own = call.map(|number| self.dir.join(format!("c{number}")));
        if let Some(found) = own.as_deref().and_then(|dir| search(dir, &wanted, effort)) {
            return Some(found);
        }
        // It may have been handed on.
        let others = fs::read_dir(&self.dir).ok()?.flatten().map(|entry| entry.path());
        let mut others = others.filter(|path| path.is_dir() && own.as_ref() != Some(path));
        others.find_map(|dir| search(&dir, &wanted, effort))
    }
}

fn search(group: &Path, wanted: &str, effort: &mut u32) -> Option<Holder> {
    let text = fs::read_to_string(group.join("cgroup.procs")).ok()?;
    for pid in text.lines().filter_map(|line| line.parse().ok()).filter(|&pid: &u32| pid > 0) {
        *effort = effort.checked_sub(PROCESS)?;
        let proc = Path::new("/proc").join(pid.to_string());
        let Ok(open) = fs::read_dir(proc.join("fd")) else { continue };
        for entry in open.flatten() {
            *effort = effort.checked_sub(1)?;
            if fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == wanted) {
                let name = fs::read(proc.join("comm")).unwrap_or_default();
                let name = String::from_utf8_lossy(&name);
                let name = name.chars().filter(|c| !c.is_control()).collect();
                return Some(Holder { pid, name });
            }
        }
    }
    None
}
