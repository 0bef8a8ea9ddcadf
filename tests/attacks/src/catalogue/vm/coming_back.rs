//! Machines that come back: from other files than were written, and with what they held.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use belljar_domain::network::Policy;
use belljar_domain::{Spec, User};
use belljar_node::Command;
use serde_json::Value;

use super::super::gw::{hello, one};
use super::super::net::works;
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::stage::Stage;
use crate::harness::world::{World, mint};

/// A saved machine in a directory that goes with this.
async fn saved(stage: &Stage) -> anyhow::Result<(tempfile::TempDir, PathBuf, Spec)> {
    let parent = tempfile::tempdir()?;
    let dir = parent.path().join("saved");
    let spec = stage.spec();
    let sandbox = stage.sandbox_of(&spec).await?;
    stage.exec(&sandbox, &Command::shell("echo mine > /tmp/mark")).await?;
    sandbox.suspend(&dir).await.context("cannot save the machine")?;
    Ok((parent, dir, spec))
}

fn files_below(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut found, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => dirs.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    Ok(found)
}

fn named(dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let found = files_below(dir)?.into_iter().find(|path| path.ends_with(name));
    found.with_context(|| format!("there is no {name} in {}", dir.display()))
}

fn change(path: &Path, act: impl FnOnce(&mut Value)) -> anyhow::Result<()> {
    let mut value: Value = serde_json::from_slice(&fs::read(path)?)?;
    act(&mut value);
    Ok(fs::write(path, value.to_string())?)
}

/// Ways in which the files of a machine can be others than those that were written.
const CHANGES: [&str; 8] = [
    "memory cut",
    "memory garbage",
    "no memory",
    "no disk",
    "older format",
    "foreign image",
    "other monitor",
    "record of another",
];

fn alter(dir: &Path, how: &str) -> anyhow::Result<()> {
    let (state, machine) = (named(dir, "state")?, named(dir, "machine.json")?);
    match how {
        "memory cut" => {
            let half = fs::metadata(&state)?.len() / 2;
            fs::File::options().write(true).open(&state)?.set_len(half)?;
        }
        "memory garbage" => fs::write(&state, vec![0x5a; 1 << 20])?,
        "no memory" => fs::remove_file(&state)?,
        "no disk" => fs::remove_file(named(dir, "disk")?)?,
        "older format" => change(&machine, |value| value["generation"] = 0.into())?,
        "foreign image" => change(&machine, |value| value["image"] = "another".into())?,
        "other monitor" => change(&machine, |value| value["monitor"] = "QEMU 1.0".into())?,
        _ => change(&named(dir, "record.json")?, |value| {
            value["spec"]["limits"]["memory_bytes"] = (64u64 << 20).into();
        })?,
    }
    Ok(())
}

/// Files that were cut, replaced, or written by another version, offered as a machine. What a
/// root of the host writes into the memory itself is not told apart: the files are root's alone.
pub(super) async fn altered(stage: Stage) -> anyhow::Result<Seen> {
    use std::os::unix::fs::PermissionsExt as _;
    let (parent, dir, spec) = saved(&stage).await?;
    let mut findings = Findings::default();
    let mode = fs::metadata(&dir)?.permissions().mode() & 0o777;
    findings.expect(mode == 0o700, "nobody else reaches the files", format!("{mode:o}"));
    for how in CHANGES {
        let copy = parent.path().join(how.replace(' ', "-"));
        let copied = std::process::Command::new("cp").arg("-a").arg(&dir).arg(&copy).status()?;
        ensure!(copied.success(), "cannot copy the machine");
        alter(&copy, how)?;
        match stage.node.resume_from(&copy, spec.clone()).await {
            Ok(sandbox) => {
                let _ = stage.keep(sandbox)?;
                findings.breach(format!("{how}: it came back"));
            }
            Err(_) => findings.held("refused with an error"),
        }
        fs::remove_dir_all(&copy)?;
    }
    Ok(findings.seen())
}

/// The same files as they were written.
pub(super) async fn unaltered(stage: Stage) -> anyhow::Result<Seen> {
    let (_parent, dir, spec) = saved(&stage).await?;
    let sandbox = stage.keep(stage.node.resume_from(&dir, spec).await?)?;
    let mark = sandbox.list(User::User, b"/tmp", 1).await?;
    let is_there = mark.entries.iter().any(|entry| entry.path.ends_with(b"/mark"));
    Ok(match is_there {
        true => Seen::Breach("as it was written, it comes back".to_owned()),
        false => Seen::Held("it came back without its files".to_owned()),
    })
}

/// A token and a connection from before the machine was put on disk.
pub(super) async fn with_its_token(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let parent = tempfile::tempdir()?;
    let dir = parent.path().join("saved");
    let spec = stage.spec();
    let sandbox = stage.sandbox_of(&spec).await?;
    world.connect(&sandbox, Policy::default()).await?;
    let token = mint(&sandbox, &["plain"]).await?.token;
    let alive = one(&stage, &sandbox, hello("alive", &token)).await?;
    if control {
        return Ok(works(alive.1.has("hello"), "before the pause it opens", &[alive.1]));
    }
    ensure!(alive.1.has("hello"), "not even alive: {}", alive.1.brief());
    sandbox.suspend(&dir).await.context("cannot save the machine")?;
    let back = stage.keep(stage.node.resume_from(&dir, spec).await?)?;
    let mut findings = Findings::default();
    // Nobody serves it yet: what it had open leads nowhere.
    let open = one(&stage, &back, hello("unserved", &token)).await;
    let is_cut = open.is_err() || open.is_ok_and(|(_, said)| !said.has("hello"));
    findings.expect(is_cut, "without a session there is no way out", "there is");
    world.connect(&back, Policy::default()).await?;
    let (_, said) = one(&stage, &back, hello("resumed", &token)).await?;
    let refused = said.status() == 401 && !said.has("hello");
    findings.expect(refused, "401 for the token from before", said.brief());
    let fresh = mint(&back, &["plain"]).await?.token;
    let (_, said) = one(&stage, &back, hello("fresh", &fresh)).await?;
    findings.expect(said.has("hello"), "a new one opens", said.brief());
    Ok(findings.seen())
}
