//! In a container on the host's kernel. The runtime has made the namespaces and
//! mounts; the last doors are closed here, by those whom they are closed on.

use std::fs;
use std::io;

use belljar_confine::domain::{self, Rules, Writable};
use belljar_confine::{Attempt as _, Failure, rights};
use belljar_sys::seccomp::{self, Instruction};
use belljar_sys::{caps, fd, keyring};

use super::{Booted, steps};

/// The guest's own filter, a raw BPF program.
const FILTER: &str = "/.belljar/filter";

pub(super) fn boot(landlock_abi: u32, writable: Writable) -> Result<Booted, Failure> {
    let stream = fd::inherited(steps::STREAM).doing("find the stream")?;
    let filter = filter()?;
    // A runtime may have done so; one that has not left the host's.
    let _ = keyring::join_new_session();
    steps::become_guest(rights::GUEST)?;
    caps::set_no_new_privs().doing("forbid new privileges")?;
    if landlock_abi > 0 {
        let rules = Rules { abi: landlock_abi, device_free: true, writable, apart: true };
        domain::enter(rules, None)?;
    }
    if let Some(filter) = filter {
        seccomp::install(&filter).doing("install the guest's filter")?;
    }
    Booted::shared(stream)
}

/// Without one the guest says so in its first word, and the host judges that.
fn filter() -> Result<Option<Vec<Instruction>>, Failure> {
    let bytes = match fs::read(FILTER) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).doing("read the guest's filter"),
    };
    let (instructions, rest) = bytes.as_chunks::<{ Instruction::SIZE }>();
    if !rest.is_empty() || instructions.is_empty() {
        let broken = io::Error::from(io::ErrorKind::InvalidData);
        return Err(Failure::new("read the guest's filter", &broken));
    }
    Ok(Some(instructions.iter().map(|&bytes| Instruction::from_bytes(bytes)).collect()))
}
