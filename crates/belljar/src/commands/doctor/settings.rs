//! Settings of the host that make an escape harder. Belljar works without them
//! and changes none of them by itself.

use std::fs;

use super::{Finding, State};

enum Want {
    OneOf(&'static [&'static str]),
    AtLeast(u64),
    /// Cores of crashed code go to a program that drops them, not to a file.
    Pipe,
}

/// By name, as sysctl(8) writes it. The first value of a list is recommended.
const SETTINGS: [(&str, Want); 21] = [
    ("kernel.kptr_restrict", Want::OneOf(&["2"])),
    ("kernel.dmesg_restrict", Want::OneOf(&["1"])),
    ("kernel.unprivileged_bpf_disabled", Want::OneOf(&["2", "1"])),
    ("net.core.bpf_jit_harden", Want::OneOf(&["2"])),
    ("kernel.perf_event_paranoid", Want::AtLeast(3)),
    ("kernel.io_uring_disabled", Want::OneOf(&["2"])),
    ("vm.unprivileged_userfaultfd", Want::OneOf(&["0"])),
    ("dev.tty.legacy_tiocsti", Want::OneOf(&["0"])),
    ("dev.tty.ldisc_autoload", Want::OneOf(&["0"])),
    ("fs.protected_symlinks", Want::OneOf(&["1"])),
    ("fs.protected_hardlinks", Want::OneOf(&["1"])),
    ("fs.protected_fifos", Want::OneOf(&["2"])),
    ("fs.protected_regular", Want::OneOf(&["2"])),
    ("fs.suid_dumpable", Want::OneOf(&["0"])),
    ("kernel.core_pattern", Want::Pipe),
    ("kernel.yama.ptrace_scope", Want::OneOf(&["2", "3"])),
    ("kernel.kexec_load_disabled", Want::OneOf(&["1"])),
    ("kernel.sysrq", Want::OneOf(&["0"])),
    ("kernel.pid_max", Want::AtLeast(4_194_304)),
    ("net.ipv4.ip_forward", Want::OneOf(&["0"])),
    ("kernel.panic_on_oops", Want::OneOf(&["1"])),
];

impl Want {
    fn is_met(&self, value: &str) -> bool {
        match self {
            Self::OneOf(values) => values.contains(&value),
            Self::AtLeast(least) => value.parse::<u64>().is_ok_and(|value| value >= *least),
            Self::Pipe => value.starts_with('|'),
        }
    }

    fn value(&self) -> String {
        match self {
            Self::OneOf(values) => values[0].to_owned(),
            Self::AtLeast(least) => least.to_string(),
            Self::Pipe => "|/bin/false".to_owned(),
        }
    }
}

pub(super) fn findings() -> Vec<Finding> {
    let mut findings: Vec<Finding> = SETTINGS
        .iter()
        .filter_map(|(key, want)| {
            let path = format!("/proc/sys/{}", key.replace('.', "/"));
            // What a kernel does not have cannot be set wrongly.
            let value = fs::read_to_string(path).ok()?;
            Some(judge(key, value.trim(), want))
        })
        .collect();
    if let Ok(merging) = fs::read_to_string("/sys/kernel/mm/ksm/run") {
        let off = merging.trim() == "0";
        let state = if off { State::Ok } else { State::Warn };
        let detail =
            if off { "off" } else { "on: sandboxes can detect the memory contents of others" };
        findings.push(Finding::new("page merging (KSM)", state, detail));
    }
    let swap = fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1);
    let (state, detail) = match swap {
        true => (State::Warn, "on: memory of sandboxes may be written to disk"),
        false => (State::Ok, "off"),
    };
    findings.push(Finding::new("swap", state, detail));
    findings
}

fn judge(key: &str, value: &str, want: &Want) -> Finding {
    if want.is_met(value) {
        return Finding::new(key, State::Ok, value);
    }
    Finding::new(key, State::Warn, format!("{value}, recommended {}", want.value()))
}

/// One command that sets all that could be better.
pub(super) fn command(findings: &[Finding]) -> Option<String> {
    let pairs: Vec<String> = SETTINGS
        .iter()
        .filter(|(key, _)| findings.iter().any(|f| f.name == *key && f.state == State::Warn))
        .map(|(key, want)| match want {
            Want::Pipe => format!("'{key}={}'", want.value()),
            _ => format!("{key}={}", want.value()),
        })
        .collect();
    (!pairs.is_empty()).then(|| format!("sysctl -w {}", pairs.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stricter_than_recommended_is_fine_and_weaker_is_not() {
        assert!(Want::AtLeast(3).is_met("4") && !Want::AtLeast(3).is_met("2"));
        assert!(Want::OneOf(&["2", "1"]).is_met("1") && !Want::OneOf(&["2", "1"]).is_met("0"));
        assert!(Want::Pipe.is_met("|/bin/false") && !Want::Pipe.is_met("core"));
    }

    #[test]
    fn the_command_sets_what_is_not_yet_right() {
        let findings = [
            judge("kernel.sysrq", "1", &Want::OneOf(&["0"])),
            judge("fs.suid_dumpable", "0", &Want::OneOf(&["0"])),
        ];
        assert_eq!(command(&findings), Some("sysctl -w kernel.sysrq=0".to_owned()));
    }
}
