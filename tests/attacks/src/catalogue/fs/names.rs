//! Names that hurt whoever prints, joins or runs them.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use belljar_domain::{EndReason, SandboxId};
use belljar_node::{Command, Sandbox};
use tokio::time::timeout;

use crate::attack::{Seen, verdict};
use crate::harness::files::{self, HANG_LIMIT, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::on_host::{self, Resolved};
use crate::harness::stage::{Ran, Stage};

fn from_hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let pairs = (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16));
    pairs.collect::<Result<_, _>>().context("a name that is not hex")
}

fn joined(dir: &str, name: &[u8]) -> Vec<u8> {
    [dir.as_bytes(), b"/", name].concat()
}

/// What a server takes names for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Bytes,
    /// The mutant: text, and parts of an address.
    Text,
}

/// Every name comes back byte by byte, in lists and as a path.
pub(super) async fn listed(stage: Stage, server: Names) -> anyhow::Result<Seen> {
    let told = |name: &[u8]| match server {
        Names::Bytes => name.to_vec(),
        Names::Text => String::from_utf8_lossy(name).into_owned().into_bytes(),
    };
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "fs/fs_11.c", &["/tmp/fs11"]).await?;
    verdict(&ran)?;
    let names = ran.after("NOTE NAME ");
    ensure!(names.len() > 20, "too few names");
    let listing = files::list(&sandbox, b"/tmp/fs11").await??;
    findings.expect(listing.entries.len() == names.len(), "all are listed", names.len());
    for hex in &names {
        let path = joined("/tmp/fs11", &from_hex(hex)?);
        let found = listing.entries.iter().any(|entry| told(&entry.path) == path);
        findings.expect(found, "listed as it is", hex);
        let got = files::download(&sandbox, &told(&path), LIMIT).await?;
        let same = got.is_ok_and(|got| got == hex.as_bytes());
        findings.expect(same, "read by its name", hex);
    }
    Ok(match findings.seen() {
        Seen::Held(_) => Seen::Held(format!("{} names came back byte by byte", names.len())),
        other => other,
    })
}

/// Files go where the host says, whatever the sandbox calls them.
pub(super) async fn as_keys(stage: Stage, server: Names) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "fs/fs_15.c", &["/tmp/fs15"]).await?;
    verdict(&ran)?;
    let names = ran.after("NOTE NAME ");
    let above = tempfile::tempdir()?;
    let into = above.path().join("store/tenant");
    std::fs::create_dir_all(&into)?;
    for (number, hex) in names.iter().enumerate() {
        let path = joined("/tmp/fs15", &from_hex(hex)?);
        let bytes = files::download(&sandbox, &path, LIMIT).await??;
        let place = match server {
            Names::Bytes => into.join(number.to_string()),
            Names::Text => into.join(on_host::key(&from_hex(hex)?)),
        };
        // None of the names has more than two steps up.
        if place.starts_with(&into) {
            std::fs::create_dir_all(place.parent().unwrap_or(&into))?;
            let _ = std::fs::write(place, bytes);
        }
    }
    let count = |dir: &Path| std::fs::read_dir(dir).map_or(0, Iterator::count);
    let there = count(&into) == names.len()
        && count(above.path()) == 1
        && count(&above.path().join("store")) == 1;
    findings.expect(there, "every file is where the host put it", count(&into));
    for id in ["../other", "*", "", "..", "/", &"a".repeat(5000), "abc\0def"] {
        let typed = id.parse::<SandboxId>().is_err();
        findings.expect(typed, "no such id", id.escape_debug());
    }
    Ok(findings.seen())
}

/// Starts a call and tells how it went: its end, or the words of a refusal.
async fn answer(
    stage: &Stage,
    sandbox: &Sandbox,
    command: &Command,
) -> anyhow::Result<Result<Ran, String>> {
    let started = timeout(HANG_LIMIT, stage.start(sandbox, command)).await;
    match started.context("a start hangs")? {
        Ok(running) => {
            let ran = timeout(HANG_LIMIT, running.finish()).await.context("a call hangs")??;
            Ok(Ok(ran))
        }
        Err(error) => Ok(Err(format!("{error:#}"))),
    }
}

pub(super) async fn to_run(stage: Stage, resolved: Resolved) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "fs/fs_16.c", &["/tmp/fs16"]).await?;
    verdict(&ran)?;
    let mut dirs: Vec<Vec<u8>> = ran.after("NOTE CWD ").into_iter().map(Into::into).collect();
    dirs.extend([b"/nonexistent".to_vec(), Vec::new(), vec![b'a'; 5000], b"/tmp\0x".to_vec()]);
    if resolved == Resolved::OnHost {
        return Ok(run_on_host(&sandbox, &dirs));
    }
    let mut refused = 0;
    for dir in dirs {
        let mut command = Command::new(["/bin/pwd", "-P"]);
        command.cwd = Some(dir.clone());
        match answer(&stage, &sandbox, &command).await? {
            Ok(ran) => {
                let text = ran.text();
                let inside = matches!(text.trim(), "/" | "/tmp/fs16" | "/home/user");
                let shown = dir.escape_ascii();
                findings.expect(inside, "it is inside", format!("{shown} is {text}"));
            }
            Err(_) => refused += 1,
        }
    }
    for program in ran.after("NOTE RUN ") {
        match answer(&stage, &sandbox, &Command::new([&*program])).await? {
            Ok(ran) => {
                let ended = matches!(ran.end.reason, EndReason::Done | EndReason::Exit);
                findings.expect(ended, "it ends by itself", format!("{program}: {}", ran.ending()));
            }
            Err(_) => refused += 1,
        }
    }
    findings.held(format!("{refused} refused in words"));
    let ran = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
    findings.expect(ran.end.reason == EndReason::Done, "the sandbox still serves", ran.ending());
    Ok(findings.seen())
}

/// The same working directories for a program that the host starts itself.
fn run_on_host(sandbox: &Sandbox, dirs: &[Vec<u8>]) -> Seen {
    let own = Path::new("/").metadata().map(|root| (root.dev(), root.ino()));
    let is_hosts = |dir: &&Vec<u8>| {
        let place = on_host::place(sandbox, dir);
        let output = std::process::Command::new("/usr/bin/stat")
            .args(["-c", "%d %i", "."])
            .current_dir(place)
            .output();
        let Ok(output) = output else { return false };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        own.as_ref().is_ok_and(|(dev, ino)| text.trim() == format!("{dev} {ino}"))
    };
    match dirs.iter().find(is_hosts) {
        Some(dir) => Seen::Breach(format!("{} is the host's root", dir.escape_ascii())),
        None => Seen::Held("none leads out".to_owned()),
    }
}
