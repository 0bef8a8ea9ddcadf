//! Figures that programs read in `/proc` to learn how much they may use: the sandbox's own
//! limits and use, never the host's.
//!
//! Requirements: S3, S4

use anyhow::{Context as _, ensure};
use belljar_domain::{Tier, User};
use belljar_node::{Command, Sandbox};

use crate::fixture::Fixture;
use crate::verbs::{output, output_of, patience, python, run, until, until_printed};
use crate::{cases, same};

cases!["figures":
    memory_is_the_sandboxs needs [OwnFigures],
    memory_in_use_shows needs [OwnFigures, Python, MemoryLimit],
    processors_are_the_sandboxs needs [OwnFigures, Python, CpuLimit],
    time_is_told needs [OwnFigures],
    mounts_are_listed needs [OwnFigures],
    nothing_of_the_host_shows needs [OwnFigures],
    figures_cannot_be_changed needs [OwnFigures, RootUser],
    the_rest_of_procfs_is_closed needs [OwnFigures, RootUser],
];

const MIB: u64 = 1 << 20;
const ALL: &str = "cat /proc/meminfo /proc/cpuinfo /proc/stat /proc/uptime /proc/loadavg";

fn host(name: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(format!("/proc/{name}")).with_context(|| format!("no /proc/{name}"))
}

/// The number behind `key` in lines of `key number`.
fn number(text: &str, key: &str) -> anyhow::Result<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .with_context(|| format!("no {key} in {text}"))?;
    let word = line.split_whitespace().next().with_context(|| format!("no number: {line}"))?;
    word.parse().with_context(|| format!("{key} {word}"))
}

async fn memory_is_the_sandboxs(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.memory_bytes = 512 * MIB).await?;
    let text = output(&sandbox, "cat /proc/meminfo").await?;
    let (total, free) = (number(&text, "MemTotal:")?, number(&text, "MemFree:")?);
    let limit = 512 * 1024;
    if f.tier == Tier::Jail {
        same!(total, limit, "MemTotal");
    }
    // A kernel of its own has some memory besides, and keeps some for itself.
    let near = total * 10 >= limit * 7 && total * 10 <= limit * 13;
    ensure!(near, "MemTotal is {total} kB, the limit {limit} kB");
    ensure!(free <= total, "MemFree is {free} kB of {total} kB");
    ensure!(number(&text, "MemAvailable:")? <= total, "{text}");
    Ok(())
}

async fn memory_in_use_shows(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.memory_bytes = 512 * MIB).await?;
    let available = async |sandbox: &Sandbox| {
        number(&output(sandbox, "cat /proc/meminfo").await?, "MemAvailable:")
    };
    let before = available(&sandbox).await?;
    let hold =
        python("import time; x = b'x' * (200 << 20); print('ready', flush=True); time.sleep(99)");
    let mut call = sandbox.start(&hold).await?;
    until_printed(&mut call, "ready").await?;
    until("memory in use", patience(f), async || {
        let now = available(&sandbox).await?;
        Ok((now + 150 * 1024 < before).then_some(()))
    })
    .await?;
    call.kill();
    Ok(())
}

async fn processors_are_the_sandboxs(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.cpu_millis = 1000).await?;
    let script = "grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat";
    same!(output(&sandbox, script).await?, "1\n1\n", "processors");
    let code = "import os; print(os.cpu_count(), os.sysconf('SC_NPROCESSORS_ONLN'))";
    let text = output_of(&sandbox, &python(code)).await?;
    same!(text, "1 1\n", "os.cpu_count() and sysconf");
    Ok(())
}

async fn time_is_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let text = output(&sandbox, "cat /proc/uptime /proc/loadavg; date +%s; cat /proc/stat").await?;
    let mut lines = text.lines();
    let (uptime, load) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let uptime: f64 = uptime.split_whitespace().next().unwrap_or("").parse()?;
    same!(load.split_whitespace().count(), 5, "numbers in loadavg");
    let now: f64 = lines.next().unwrap_or("").parse()?;
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
    let booted = number(&text, "btime ")? as f64;
    let apart = (now - uptime - booted).abs();
    ensure!(apart < 5.0, "uptime {uptime} and btime {booted} are {apart} s apart");
    Ok(())
}

async fn mounts_are_listed(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let text = output(&sandbox, "cat /proc/mounts").await?;
    let root = text.lines().any(|line| line.split(' ').nth(1) == Some("/"));
    ensure!(root, "no root in /proc/mounts: {text}");
    Ok(())
}

/// Looks for numbers and names of the host's own.
async fn nothing_of_the_host_shows(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let text = output(&sandbox, ALL).await?;
    let memory = number(&host("meminfo")?, "MemTotal:")?;
    ensure!(number(&text, "MemTotal:")? != memory, "MemTotal is the host's: {text}");
    let booted = number(&host("stat")?, "btime ")?;
    ensure!(number(&text, "btime ")?.abs_diff(booted) > 30, "btime is the host's: {text}");
    if f.tier == Tier::Jail {
        // A processor tells its name to whoever asks it; /proc does not.
        let cpuinfo = host("cpuinfo")?;
        let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let name = name.unwrap_or("").trim_start_matches([' ', '\t', ':']).trim();
        ensure!(name.is_empty() || !text.contains(name), "the host's processor: {text}");
        // Only the host has counted those.
        ensure!(text.contains("ctxt 0\n"), "context switches are the host's: {text}");
    }
    Ok(())
}

async fn figures_cannot_be_changed(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "cd /proc; for name in meminfo cpuinfo stat uptime loadavg; do \
                  (echo 1 > $name) 2>/dev/null && echo written $name; \
                  rm -f $name 2>/dev/null && echo removed $name; \
                  chmod 666 $name 2>/dev/null && echo opened $name; \
                  umount $name 2>/dev/null && echo uncovered $name; done; echo end";
    for user in [User::User, User::Root] {
        let mut command = Command::shell(script);
        command.user = user;
        same!(output_of(&sandbox, &command).await?, "end\n", "what {user:?} did");
    }
    Ok(())
}

/// Every other name of procfs is there and says nothing, to root neither.
async fn the_rest_of_procfs_is_closed(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "cd /proc; for name in *; do case $name in \
                  [0-9]*|self|thread-self|net|mounts|meminfo|cpuinfo|stat|uptime|loadavg) ;; \
                  *) if [ -d $name ]; then ls -A $name; else head -c 9 $name; fi 2>/dev/null;; \
                  esac; done; echo end";
    for user in [User::User, User::Root] {
        let mut command = Command::shell(script);
        command.user = user;
        same!(output_of(&sandbox, &command).await?, "end\n", "what {user:?} reads");
    }
    let ran = run(&sandbox, "cat /proc/kallsyms; cat /proc/sys/kernel/osrelease").await?;
    let said = ran.stderr.text();
    same!(said.lines().count(), 2, "refusals in {said:?}");
    Ok(())
}
