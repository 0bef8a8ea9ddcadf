//! Closing a process of our own in, before it reads what strangers wrote.
//!
//! A parser with a hole then has nothing to reach: no file by name, no socket,
//! no other program, no other process, and as much memory as it was given. What
//! it keeps is the descriptors that it had.

use std::io;

use belljar_sys::caps;
use belljar_sys::landlock::{self, Ruleset, Scope};
use belljar_sys::process::{self, resource};

use crate::seccomp;

/// Which step of sealing failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot seal the process: {step}")]
pub struct SealError {
    step: &'static str,
    source: io::Error,
}

/// Seals the calling process for good; it must have one thread yet. `memory` is
/// how many bytes of its own it may have.
///
/// Landlock is added where the kernel has it; what it forbids, the filter
/// forbids as well.
pub fn reader(memory: u64) -> Result<(), SealError> {
    let at = |step| move |source| SealError { step, source };
    process::die_with_parent().map_err(at("die with the parent"))?;
    process::set_dumpable(false).map_err(at("hide the memory"))?;
    process::limit(resource::CORE, 0).map_err(at("limit cores"))?;
    process::limit(resource::FSIZE, 0).map_err(at("limit files"))?;
    process::limit(resource::DATA, memory).map_err(at("limit memory"))?;
    caps::set_no_new_privs().map_err(at("forbid new privileges"))?;
    if let Some(abi) = landlock::abi() {
        let scope = Scope { no_tcp: true, ipc: true };
        let nothing = Ruleset::new(abi, scope).map_err(at("make a Landlock ruleset"))?;
        nothing.restrict_self().map_err(at("restrict files with Landlock"))?;
    }
    // After the rulesets, which need calls that the filter forbids.
    caps::set(caps::Set::EMPTY, caps::Set::EMPTY).map_err(at("drop capabilities"))?;
    let filter = seccomp::assemble(&seccomp::reader());
    belljar_sys::seccomp::install(&filter).map_err(at("install the filter"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    /// Set to `sealed` or `open` in the process that tries.
    const ROLE: &str = "BELLJAR_TEST_SEAL";

    /// What the process tries, in the order of its answers.
    const TRIED: [&str; 7] = ["open", "list", "create", "listen", "unix socket", "spawn", "thread"];

    /// Runs the other test in a process of its own, and returns what worked.
    fn attempts(role: &str) -> Vec<bool> {
        let test = "seal::tests::tries_in_a_process_of_its_own";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let answers =
            text.lines().find_map(|line| line.split_once("answers:")).map(|(_, rest)| rest);
        let answers =
            answers.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        answers.trim().chars().map(|answer| answer == 'y').collect()
    }

    #[test]
    fn a_sealed_process_opens_nothing_and_an_open_one_does() {
        let (open, sealed) = (attempts("open"), attempts("sealed"));
        assert_eq!(open, vec![true; TRIED.len()], "the control: {TRIED:?}");
        // Threads are allowed: reading is spread over them.
        let want = [false, false, false, false, false, false, true];
        assert_eq!(sealed, want, "{TRIED:?}");
    }

    #[test]
    #[expect(clippy::exit, reason = "the harness of a sealed process cannot end in order")]
    fn tries_in_a_process_of_its_own() {
        let Ok(role) = std::env::var(ROLE) else { return };
        let mut kept = File::open("/proc/self/exe").unwrap();
        let scratch = std::env::temp_dir().join(format!("belljar-seal-{}", std::process::id()));
        let place = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        if role == "sealed" {
            // A test runs in a thread; the filter holds for that thread alone.
            super::reader(256 << 20).unwrap();
        }
        let worked = [
            File::open("/etc/passwd").is_ok(),
            fs::read_dir("/").is_ok(),
            File::create(&scratch).is_ok(),
            TcpListener::bind(place).is_ok() || TcpStream::connect(place).is_ok(),
            UnixStream::pair().is_ok(),
            Command::new("/bin/true").status().is_ok(),
            std::thread::Builder::new().spawn(|| ()).is_ok(),
        ];
        // What it had stays usable.
        kept.read_exact(&mut [0; 64]).unwrap();
        let answers: String = worked.iter().map(|worked| if *worked { 'y' } else { 'n' }).collect();
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "answers:{answers}");
        let _ = out.flush();
        if role == "open" {
            let _ = fs::remove_file(&scratch);
        }
        std::process::exit(0);
    }
}
