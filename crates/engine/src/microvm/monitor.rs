//! The engine's side of one monitor.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::json;
use tokio::sync::Mutex;

use super::qmp::Control;
use super::save::Saved;
use super::{disk, save};
use crate::engine::to_tokio;

/// A monitor that runs.
#[derive(Debug)]
pub(crate) struct Monitor {
    control: Mutex<Control>,
    /// The machine's disk, which we only read while the machine stands still.
    disk: OwnedFd,
    facts: Saved,
}

/// What is made before a monitor, and shared with it.
pub(crate) struct Ends {
    control: OwnedFd,
    complaints: OwnedFd,
    disk: OwnedFd,
    /// The monitor's, in the order in which it expects them.
    theirs: [OwnedFd; 5],
}

impl Ends {
    /// `begins_as` is what the disk holds at first.
    pub(crate) fn new(image: &Path, begins_as: &Path) -> io::Result<Self> {
        let pair =
            || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let (control, their_control) = pair()?;
        // It may fill up: then a monitor that complains too much waits for ever,
        // and so does its machine, and nobody else.
        let (complaints, their_complaints) = pipe_with(PipeFlags::CLOEXEC)?;
        let disk = disk::in_memory()?;
        let theirs = [
            their_control,
            File::open(image)?.into(),
            disk.try_clone()?,
            File::open(begins_as)?.into(),
            their_complaints,
        ];
        Ok(Self { control, complaints, disk, theirs })
    }

    pub(crate) fn carried(&self) -> Vec<BorrowedFd<'_>> {
        self.theirs.iter().map(AsFd::as_fd).collect()
    }

    /// Answers when the monitor has understood its arguments, and goes on with
    /// the machine in `from` if it is told to.
    pub(crate) async fn meet(self, facts: Saved, from: Option<&Path>) -> io::Result<Monitor> {
        let Self { control, complaints, disk, theirs } = self;
        // With our copies gone, what the monitor holds ends with it.
        drop(theirs);
        let met = async {
            let mut control = Control::greet(to_tokio(control)?).await?;
            if let Some(dir) = from {
                save::load(&mut control, dir).await?;
            }
            Ok(control)
        };
        match met.await {
            Ok(control) => Ok(Monitor { control: Mutex::new(control), disk, facts }),
            Err(error) => Err(explained(error, complaints)),
        }
    }
}

/// An error together with what the monitor said about it, if it said anything.
fn explained(error: io::Error, complaints: OwnedFd) -> io::Error {
    if rustix::io::ioctl_fionbio(&complaints, true).is_err() {
        return error;
    }
    let mut words = vec![0; 2000];
    let count = File::from(complaints).read(&mut words).unwrap_or(0);
    let words = String::from_utf8_lossy(&words[..count]);
    let words: String = words.chars().filter(|c| !c.is_control() || *c == ' ').collect();
    if words.is_empty() { error } else { io::Error::other(words) }
}

impl Monitor {
    /// Puts the machine into `into`; it goes on afterwards if `goes_on`.
    pub(crate) async fn save(&self, into: &Path, goes_on: bool) -> io::Result<()> {
        let mut control = self.control.lock().await;
        control.execute("stop", json!({})).await?;
        let saved = async {
            save::memory(&mut control, into, &self.facts.shape).await?;
            let (disk, path) = (self.disk.try_clone()?, save::disk(into));
            let copy = move || {
                let file = File::options().write(true).create_new(true).open(path)?;
                disk::copy(&disk, &file)
            };
            tokio::task::spawn_blocking(copy).await.map_err(io::Error::other)??;
            save::describe(&self.facts, into)
        };
        let saved = saved.await;
        if goes_on {
            let mut control = control;
            control.execute("cont", json!({})).await?;
        }
        saved
    }

    /// What the machine printed last.
    pub(crate) async fn console(&self) -> io::Result<String> {
        let mut control = self.control.lock().await;
        let with = json!({ "device": "console", "size": 65536, "format": "utf8" });
        let asked = control.execute("ringbuf-read", with);
        let answer = tokio::time::timeout(Duration::from_secs(2), asked).await??;
        Ok(answer.as_str().map(str::to_owned).unwrap_or_default())
    }
}
