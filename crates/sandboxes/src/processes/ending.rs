//! How a process ended, in the words that E2B's clients know.

use belljar_domain::{End, EndReason};

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// -1 when a signal ended it.
    pub exit_code: i32,
    /// Whether it exited by itself.
    pub exited: bool,
    /// `exit status 3` or `signal: killed`.
    pub status: String,
    /// What was wrong, if anything; a limit of the sandbox is named here.
    pub error: Option<String>,
    /// The engine's own word for it.
    pub reason: EndReason,
    /// All of it, as the engine tells.
    pub end: End,
}

impl ProcessEnd {
    /// Nobody saw how it ended.
    pub(super) fn lost() -> Self {
        let usage = belljar_domain::Usage::default();
        Self::from(&End { reason: EndReason::Lost, exit_code: None, signal: None, usage })
    }

    /// Whether the sandbox went away under the process.
    pub fn is_lost(&self) -> bool {
        self.reason == EndReason::Lost
    }
}

impl From<&End> for ProcessEnd {
    fn from(end: &End) -> Self {
        let (exit_code, exited, status) = match (end.exit_code, end.signal) {
            (Some(code), _) => (code, true, format!("exit status {code}")),
            // Killed by us before anybody could see how it ended.
            (None, signal) => (-1, false, format!("signal: {}", signal_name(signal.unwrap_or(9)))),
        };
        let limit = match end.reason {
            EndReason::Oom => Some("out of memory"),
            EndReason::Pids => Some("too many processes"),
            EndReason::Disk => Some("disk full"),
            EndReason::TimeoutCpu => Some("out of CPU time"),
            EndReason::Seccomp => Some("forbidden system call"),
            EndReason::Policy => Some("forbidden"),
            EndReason::Output => Some("too much output"),
            EndReason::Done
            | EndReason::Exit
            | EndReason::TimeoutWall
            | EndReason::Killed
            | EndReason::Lost => None,
        };
        let failed = exit_code != 0 || limit.is_some();
        let error = failed.then(|| match limit {
            Some(limit) => format!("{status} ({limit})"),
            None => status.clone(),
        });
        Self { exit_code, exited, status, error, reason: end.reason, end: end.clone() }
    }
}

/// The names that Go's programs print.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use belljar_domain::Usage;

    use super::*;

    fn end(reason: EndReason, exit_code: Option<i32>, signal: Option<i32>) -> ProcessEnd {
        ProcessEnd::from(&End { reason, exit_code, signal, usage: Usage::default() })
    }

    #[test]
    fn exits_and_signals_have_the_words_that_clients_know() {
        let done = end(EndReason::Done, Some(0), None);
        assert_eq!((done.exit_code, done.exited), (0, true));
        assert_eq!((done.status.as_str(), done.error), ("exit status 0", None));
        let failed = end(EndReason::Exit, Some(3), None);
        assert_eq!((failed.exit_code, failed.exited), (3, true));
        assert_eq!(failed.error.as_deref(), Some("exit status 3"));
        let killed = end(EndReason::Exit, None, Some(9));
        assert_eq!((killed.exit_code, killed.exited), (-1, false));
        assert_eq!(
            (killed.status.as_str(), killed.error.as_deref()),
            ("signal: killed", Some("signal: killed"))
        );
    }

    #[test]
    fn limits_are_named() {
        let oom = end(EndReason::Oom, None, Some(9));
        assert_eq!(oom.status, "signal: killed");
        assert_eq!(oom.error.as_deref(), Some("signal: killed (out of memory)"));
    }
}
