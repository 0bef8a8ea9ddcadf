//! Limits: from options, and what is said when one of them ended the code.

use std::time::Duration;

use belljar_domain::units::format_size;
use belljar_domain::{End, EndReason, Limits};

use crate::cli::Sandbox;

/// The template's limits, with what the command line says in their place.
pub(crate) fn from_options(options: &Sandbox, base: Limits) -> Limits {
    Limits {
        memory_bytes: options.memory.unwrap_or(base.memory_bytes),
        cpu_millis: options.cpus.unwrap_or(base.cpu_millis),
        pids: options.pids.unwrap_or(base.pids),
        disk_bytes: options.disk.unwrap_or(base.disk_bytes),
        inodes: options.inodes.unwrap_or(base.inodes),
        output_bytes: options.output_limit.unwrap_or(base.output_bytes),
        wall: options.time.unwrap_or(base.wall),
        cpu: options.cpu_time.or(base.cpu),
        open_files: base.open_files,
    }
}

/// What to say about an end, and what to try next. Nothing when the program
/// simply exited.
pub(crate) fn explain(end: &End, limits: &Limits) -> Option<(String, Option<String>)> {
    let size = |flag: &str, bytes: u64| {
        Some(format!("give it more with {flag} {}", short_size(bytes.saturating_mul(4))))
    };
    let time = |flag: &str, limit: Duration| {
        Some(format!("give it more with {flag} {}", format_time(limit.saturating_mul(4))))
    };
    let (what, hint) = match end.reason {
        EndReason::Done => return None,
        EndReason::Exit => {
            let signal = end.signal?;
            return Some((format!("ended: signal {signal}{} ended the code", name(signal)), None));
        }
        EndReason::TimeoutWall => (
            format!("the code ran longer than {}", format_time(limits.wall)),
            time("--time", limits.wall),
        ),
        EndReason::TimeoutCpu => {
            let limit = limits.cpu.unwrap_or_default();
            let what = format!("the code used more CPU time than {}", format_time(limit));
            (what, time("--cpu-time", limit))
        }
        EndReason::Oom => (
            format!("the code used more memory than {}", format_size(limits.memory_bytes)),
            size("--memory", limits.memory_bytes),
        ),
        EndReason::Pids => (
            format!("the code started more than {} processes", limits.pids),
            Some(format!("give it more with --pids {}", limits.pids.saturating_mul(4))),
        ),
        EndReason::Disk => (
            format!(
                "the code filled its disk, {} and {} files",
                format_size(limits.disk_bytes),
                limits.inodes
            ),
            Some(format!(
                "give it more with --disk {} or --inodes {}",
                short_size(limits.disk_bytes.saturating_mul(4)),
                limits.inodes.saturating_mul(4)
            )),
        ),
        EndReason::Output => (
            format!("the code printed more than {}", format_size(limits.output_bytes)),
            size("--output-limit", limits.output_bytes),
        ),
        EndReason::Seccomp => (
            "the code made a system call that is forbidden in sandboxes".to_owned(),
            Some("SECURITY.md lists the forbidden calls".to_owned()),
        ),
        EndReason::Policy => ("the code violated its policy".to_owned(), None),
        EndReason::Killed => ("the code was ended by its owner".to_owned(), None),
        EndReason::Lost => (
            "the sandbox was lost while the code ran".to_owned(),
            Some("see `belljar doctor`, and the kernel's log for processes it killed".to_owned()),
        ),
    };
    Some((format!("stopped: {what} ({})", end.reason), hint))
}

/// As an option takes it: the largest unit that is exact.
pub(crate) fn short_size(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let exact =
        units.iter().find(|(shift, _)| bytes >> shift > 0 && bytes.is_multiple_of(1 << shift));
    exact.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// As an option takes it: `90s`, `1500ms`.
pub(crate) fn format_time(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{}s", time.as_secs())
    } else {
        format!("{}ms", time.as_millis())
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        25 => " (SIGXFSZ)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_domain::Usage;

    fn explained(reason: EndReason, signal: Option<i32>) -> Option<(String, Option<String>)> {
        let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
        let end = End { reason, exit_code: None, signal, usage: Usage::default() };
        explain(&end, &limits)
    }

    #[test]
    fn every_limit_is_named_and_says_how_to_raise_it() {
        let (what, hint) = explained(EndReason::Oom, Some(9)).unwrap();
        assert_eq!(what, "stopped: the code used more memory than 64.0 MiB (oom)");
        assert_eq!(hint.unwrap(), "give it more with --memory 256M");
        for reason in EndReason::ALL.into_iter().filter(|r| r.exit_code().is_some()) {
            let (what, _) = explained(reason, None).unwrap();
            assert!(what.starts_with("stopped: ") && what.contains(reason.as_str()), "{what}");
        }
    }

    #[test]
    fn an_exit_needs_no_words_but_a_crash_does() {
        assert_eq!(explained(EndReason::Done, None), None);
        assert_eq!(explained(EndReason::Exit, None), None);
        let (what, _) = explained(EndReason::Exit, Some(11)).unwrap();
        assert_eq!(what, "ended: signal 11 (SIGSEGV) ended the code");
    }

    #[test]
    fn sizes_in_hints_can_be_typed_back() {
        for bytes in [4 << 30, 256 << 20, 1 << 10, 1000] {
            assert_eq!(belljar_domain::units::parse_size(&short_size(bytes)), Ok(bytes));
        }
    }
}
