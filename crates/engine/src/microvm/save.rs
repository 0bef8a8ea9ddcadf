//! A machine on disk.
//!
//! ```text
//! <dir>/machine.json   what it was made of
//!       state          memory and devices, as the monitor writes them
//!       disk           its own disk, sparse
//! ```
//!
//! The files are the host's: a monitor gets open descriptors and cannot reach
//! the files themselves. Each restored machine has a copy of the disk and reads
//! its memory from the stream, so two of one image share nothing that either
//! could change.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::qmp::Control;
use super::{Shape, copy};

/// What a machine was made of. It can go on where all of it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) generation: u32,
    /// The monitor, as it names its version.
    pub(crate) monitor: String,
    pub(crate) kernel: String,
    pub(crate) image: String,
    pub(crate) shape: Shape,
}

/// Raised whenever machines are built or written in another way.
pub(crate) const GENERATION: u32 = 1;

/// How long a machine may take to be written or read.
const LONGEST: Duration = Duration::from_secs(120);
/// What a machine's devices and firmware may take on disk.
const DEVICE_BYTES: u64 = 64 << 20;
/// Bytes under way between a monitor and us.
const PIPE: usize = 1 << 20;
/// How often a monitor is asked whether it is done.
const PACE: Duration = Duration::from_millis(2);

impl Saved {
    /// Why a machine that is `self` on disk cannot go on as `now`.
    pub(crate) fn differs(&self, now: &Self) -> Option<String> {
        let Self { generation, monitor, image, shape, .. } = self;
        let clock = shape.clock_khz.abs_diff(now.shape.clock_khz) > shape.clock_khz / 100;
        let part = |differs: bool, what: &str, was: &str, is: &str| {
            differs.then(|| format!("it was saved with another {what} ({was}, now {is})"))
        };
        part(
            *generation != now.generation,
            "format",
            &generation.to_string(),
            &now.generation.to_string(),
        )
        .or_else(|| part(*monitor != now.monitor, "machine monitor", monitor, &now.monitor))
        .or_else(|| part(*image != now.image, "root filesystem", image, &now.image))
        .or_else(|| {
            let (was, is) = (format!("{shape:?}"), format!("{:?}", now.shape));
            let same = Shape { clock_khz: shape.clock_khz, ..now.shape.clone() } == *shape;
            part(!same || clock, "shape", &was, &is)
        })
    }
}

pub(crate) fn disk(dir: &Path) -> PathBuf {
    dir.join("disk")
}

fn state(dir: &Path) -> PathBuf {
    dir.join("state")
}

pub(crate) fn describe(saved: &Saved, dir: &Path) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(saved).map_err(io::Error::other)?;
    fs::write(dir.join("machine.json"), text)
}

pub(crate) fn described(dir: &Path) -> io::Result<Saved> {
    let text = fs::read(dir.join("machine.json"))?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

/// Has the monitor write a machine of this size that stands still.
pub(super) async fn memory(control: &mut Control, dir: &Path, shape: &Shape) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).open(state(dir))?;
    // We write the file: what a monitor wrote would be charged to its machine,
    // which has no memory left for a copy of itself.
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let _ = fcntl_setpipe_size(&write, PIPE);
    // Its own limit is for networks.
    let fast = json!({ "max-bandwidth": 1u64 << 40 });
    control.execute("migrate-set-parameters", fast).await?;
    control.execute_with("getfd", json!({ "fdname": "state" }), &[write.as_fd()]).await?;
    drop(write);
    let (copied, _copying) = copy::start(read, file, most_bytes(shape))?;
    let written = async {
        control.execute("migrate", json!({ "uri": "fd:state" })).await?;
        until(control, "query-migrate", "completed").await?;
        tokio::time::timeout(LONGEST, copied).await?.map_err(io::Error::other)?
    };
    written.await
}

/// The most that a monitor writes for a machine: its memory, a header for each page, and its
/// devices.
fn most_bytes(shape: &Shape) -> u64 {
    let memory = shape.memory_mib << 20;
    memory + memory / 64 + DEVICE_BYTES
}

/// Has a monitor that waits for it read a machine, which runs afterwards.
pub(super) async fn load(control: &mut Control, dir: &Path) -> io::Result<()> {
    let file = File::open(state(dir))?;
    control.execute_with("getfd", json!({ "fdname": "state" }), &[file.as_fd()]).await?;
    control.execute("migrate-incoming", json!({ "uri": "fd:state" })).await?;
    // It comes back as it was left: standing still.
    until(control, "query-status", "paused").await?;
    control.execute("cont", json!({})).await.map(drop)
}

/// Asks until the answer's status is the wanted one.
async fn until(control: &mut Control, question: &str, wanted: &str) -> io::Result<()> {
    let asked = async {
        loop {
            let answer = control.execute(question, json!({})).await?;
            let status = answer.get("status").and_then(Value::as_str).unwrap_or_default();
            if status == wanted {
                return Ok(());
            }
            if ["failed", "cancelled", "internal-error", "shutdown"].contains(&status) {
                let words = answer.get("error-desc").and_then(Value::as_str).unwrap_or(status);
                return Err(io::Error::other(format!(
                    "the virtual machine monitor reports: {words}"
                )));
            }
            tokio::time::sleep(PACE).await;
        }
    };
    tokio::time::timeout(LONGEST, asked).await?
}

#[cfg(test)]
mod tests {
    use super::super::Accelerator;
    use super::*;

    #[test]
    fn a_machine_goes_on_only_in_the_same() {
        let shape =
            Shape { accelerator: Accelerator::Tcg, memory_mib: 1, cpus: 1, clock_khz: 2_000_000 };
        let saved = Saved {
            generation: GENERATION,
            monitor: "7.2".into(),
            kernel: "6.1".into(),
            image: "a".into(),
            shape: shape.clone(),
        };
        // A clock is measured anew each time, and a kernel keeps its own.
        let measured = Shape { clock_khz: 2_000_100, ..shape.clone() };
        assert_eq!(saved.differs(&Saved { shape: measured, ..saved.clone() }), None);
        let larger = Shape { memory_mib: 2, ..shape.clone() };
        let other_host = Shape { clock_khz: 3_000_000, ..shape };
        for now in [
            Saved { monitor: "8.0".into(), ..saved.clone() },
            Saved { image: "b".into(), ..saved.clone() },
            Saved { generation: 0, ..saved.clone() },
            Saved { shape: larger, ..saved.clone() },
            Saved { shape: other_host, ..saved.clone() },
        ] {
            assert!(saved.differs(&now).is_some(), "{now:?}");
        }
    }
}
