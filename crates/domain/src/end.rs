//! How sandboxes and calls end.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a call or a sandbox ended. Always decided from kernel facts (cgroup
/// counters, wait status, our own timers), never from what the code printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Exited with status 0.
    Done,
    /// Exited with another status, or died of a signal that nothing of ours sent.
    Exit,
    TimeoutWall,
    TimeoutCpu,
    Oom,
    Pids,
    Disk,
    Output,
    Seccomp,
    Policy,
    /// Ended because its owner asked for it.
    Killed,
    /// The sandbox's pid 1 or its host went away under the call.
    Lost,
}

impl EndReason {
    pub const ALL: [Self; 12] = [
        Self::Done,
        Self::Exit,
        Self::TimeoutWall,
        Self::TimeoutCpu,
        Self::Oom,
        Self::Pids,
        Self::Disk,
        Self::Output,
        Self::Seccomp,
        Self::Policy,
        Self::Killed,
        Self::Lost,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Exit => "exit",
            Self::TimeoutWall => "timeout_wall",
            Self::TimeoutCpu => "timeout_cpu",
            Self::Oom => "oom",
            Self::Pids => "pids",
            Self::Disk => "disk",
            Self::Output => "output",
            Self::Seccomp => "seccomp",
            Self::Policy => "policy",
            Self::Killed => "killed",
            Self::Lost => "lost",
        }
    }

    /// The exit status that the command line uses when a limit, not the
    /// program, decided the end. `None`: the program's own status counts.
    pub fn exit_code(self) -> Option<u8> {
        match self {
            Self::Done | Self::Exit => None,
            Self::TimeoutWall => Some(124),
            Self::TimeoutCpu => Some(123),
            Self::Oom => Some(122),
            Self::Pids => Some(121),
            Self::Disk => Some(120),
            Self::Output => Some(119),
            Self::Seccomp => Some(118),
            Self::Policy => Some(117),
            Self::Killed => Some(116),
            Self::Lost => Some(115),
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a call used, as the kernel counted it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub wall: Duration,
    pub cpu: Duration,
    /// The highest memory charge seen; `None` where no controller counts it.
    pub peak_memory_bytes: Option<u64>,
    /// Growth of the sandbox's writable layer while the call ran.
    pub written_bytes: u64,
    /// What the call wrote to its output streams, kept or not.
    pub output_bytes: u64,
}

/// The end of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub reason: EndReason,
    /// The exit status, when the main process exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the main process.
    pub signal: Option<i32>,
    pub usage: Usage,
}

impl End {
    /// The status a shell would show: the program's own, 128 + signal, or the
    /// limit's code.
    pub fn status(&self) -> u8 {
        if let Some(code) = self.reason.exit_code() {
            return code;
        }
        match (self.exit_code, self.signal) {
            (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1),
            (None, Some(signal)) => u8::try_from(128 + (signal & 0x7f)).unwrap_or(255),
            (None, None) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_code_of_its_own() {
        let mut codes: Vec<_> = EndReason::ALL.iter().filter_map(|r| r.exit_code()).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count);
        assert!(codes.iter().all(|code| (115..=124).contains(code)));
    }

    #[test]
    fn a_program_cannot_borrow_a_limit_by_its_status() {
        let end = End {
            reason: EndReason::Exit,
            exit_code: Some(137),
            signal: None,
            usage: Usage::default(),
        };
        assert_eq!((end.status(), end.reason.as_str()), (137, "exit"));
    }
}
