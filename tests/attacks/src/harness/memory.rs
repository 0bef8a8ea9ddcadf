//! Looks for bytes in what belongs to processes: environment, arguments, memory.

use std::fs;
use std::os::unix::fs::FileExt as _;

use belljar_testkit::Processes;

/// Every process of a sandbox, the guest included, as the host counts. The
/// engine may have its groups anywhere; they bear the sandbox's id all the same.
pub(crate) fn processes_of(id: &str) -> Vec<u32> {
    let is_its = |pid: &u32| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.contains(id)
    };
    Processes::now().iter().map(|process| process.pid).filter(is_its).collect()
}

/// Where in a process these bytes are; and how much was looked at.
pub(crate) fn search(pid: u32, bytes: &[u8]) -> (Vec<String>, u64) {
    let has = |text: &[u8]| text.windows(bytes.len()).any(|part| part == bytes);
    let mut places = Vec::new();
    for file in ["environ", "cmdline"] {
        if has(&fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()) {
            places.push(format!("{file} of {pid}"));
        }
    }
    let Ok(memory) = fs::File::open(format!("/proc/{pid}/mem")) else { return (places, 0) };
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut looked = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let bounds = range.split_once('-').and_then(|(first, last)| {
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some((number(first)?, number(last)?))
        });
        let Some((first, last)) = bounds.filter(|_| rights.starts_with('r')) else { continue };
        // Shared files of the template hold nothing of this sandbox.
        if !rights.contains('w') && line.contains('/') {
            continue;
        }
        let name = words.nth(3).unwrap_or("memory");
        if holds(&memory, first, last, bytes, &mut looked) {
            places.push(format!("{name} of {pid}"));
        }
    }
    (places, looked)
}

/// Whether the memory between two addresses has these bytes.
fn holds(memory: &fs::File, first: u64, last: u64, bytes: &[u8], looked: &mut u64) -> bool {
    const PIECE: usize = 1 << 20;
    let mut buffer = vec![0; PIECE];
    let overlap = bytes.len().saturating_sub(1) as u64;
    let mut at = first;
    while at < last {
        let want = usize::try_from(last - at).unwrap_or(PIECE).min(PIECE);
        let Ok(read @ 1..) = memory.read_at(&mut buffer[..want], at) else { return false };
        *looked += read as u64;
        if buffer[..read].windows(bytes.len()).any(|part| part == bytes) {
            return true;
        }
        let next = at + read as u64;
        if next >= last {
            return false;
        }
        at = next.saturating_sub(overlap).max(at + 1);
    }
    false
}
