//! The machine monitor as the host sees it: what it was told, and what it may.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::attack::Seen;
use crate::harness::stage::Stage;

/// Looks at a monitor that runs.
pub(super) async fn standing(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    judge(sandbox.pid())
}

/// Looks at this process instead, which is root and has every door open.
pub(super) async fn standing_of_root(stage: Stage) -> anyhow::Result<Seen> {
    drop(stage);
    judge(std::process::id())
}

fn judge(pid: u32) -> anyhow::Result<Seen> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("no such process")?;
    let words = fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
    let words: Vec<&str> = words.split('\0').collect();
    let mut faults = Vec::new();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for ids in ["Uid", "Gid"] {
        let all = field(ids);
        ensure!(all.len() == 4, "no {ids} in the status");
        let own = |id: &String| id.parse::<u32>().is_ok_and(|id| id > 65_536);
        if !all.iter().all(own) {
            faults.push(format!("{ids} {}", all.join(" ")));
        }
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        if field(set) != ["0000000000000000"] {
            faults.push(format!("{set} {}", field(set).join(" ")));
        }
    }
    if field("NoNewPrivs") != ["1"] {
        faults.push("it may gain privileges".to_owned());
    }
    // Ours, and the monitor's own on top of it.
    if field("Seccomp") != ["2"] || field("Seccomp_filters") != ["2"] {
        faults.push("it has not both filters".to_owned());
    }
    if !field("Groups").is_empty() {
        faults.push("it is in groups of the host".to_owned());
    }
    for namespace in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/{namespace}"));
        if of(&pid.to_string())? == of("self")? {
            faults.push(format!("it shares our {namespace} namespace"));
        }
    }
    let after = |option: &str| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + 1).copied()
    };
    for alone in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        if !words.contains(&alone) {
            faults.push(format!("it was not told {alone}"));
        }
    }
    let denied = ["on", "obsolete=deny", "elevateprivileges=deny", "spawn=deny"];
    let filter = after("-sandbox").unwrap_or_default();
    if !denied.iter().all(|word| filter.split(',').any(|said| said == *word)) {
        faults.push(format!("its own filter is {filter:?}"));
    }
    let devices =
        words.iter().zip(words.iter().skip(1)).filter(|(option, _)| **option == "-device");
    let known = ["virtio-serial-device", "virtserialport", "virtio-blk-device"];
    for (_, device) in devices {
        let kind = device.split(',').next().unwrap_or_default();
        if !known.contains(&kind) {
            faults.push(format!("it has a {kind}"));
        }
    }
    for word in ["-netdev", "-net", "-nic", "-virtfs", "-fsdev", "-usb", "-vnc", "-spice"] {
        if words.contains(&word) {
            faults.push(format!("it was told {word}"));
        }
    }
    if faults.is_empty() {
        return Ok(Seen::Held(format!("{} words, three kinds of devices", words.len())));
    }
    Ok(Seen::Breach(faults.join("; ")))
}
