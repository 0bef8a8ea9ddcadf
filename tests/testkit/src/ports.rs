//! Ports for servers that have to be told theirs.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};

/// Below the kernel's ephemeral range: an outgoing connection cannot take the port before the
/// server listens. A client that retries the port of a dead server could even get it as its own
/// source port, and connect to itself.
const FIRST: u16 = 20_000;
const COUNT: u32 = 12_000;

static TURN: AtomicU32 = AtomicU32::new(0);

/// Returns free ports. No other test gets them while this process lives.
pub fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let mut found = Vec::new();
    let mut seed = std::process::id() ^ TURN.fetch_add(7919, Ordering::Relaxed);
    for _ in 0..10_000 {
        if found.len() == count {
            return Ok(found);
        }
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let port = FIRST + u16::try_from((seed >> 16) % COUNT)?;
        if !found.contains(&port) && reserve(port)? {
            found.push(port);
        }
    }
    anyhow::bail!("no free ports")
}

/// One such port.
pub fn free_port() -> anyhow::Result<u16> {
    let ports = free_ports(1)?;
    ports.first().copied().ok_or_else(|| anyhow::anyhow!("no free port"))
}

/// Locks the port for the life of this process. Returns false if another process has the lock or
/// the port is in use.
fn reserve(port: u16) -> anyhow::Result<bool> {
    let path = std::env::temp_dir().join(format!("belljar-test-port-{port}"));
    let lock = File::options().create(true).write(true).truncate(false).open(path)?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    let is_free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    if is_free {
        // Closed, and so unlocked, when the process ends.
        std::mem::forget(lock);
    }
    Ok(is_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let mut all: Vec<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 50);
        assert!(all.iter().all(|port| (20_000..32_000).contains(port)), "{all:?}");
    }
}
