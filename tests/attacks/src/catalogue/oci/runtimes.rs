//! The bundle that a runtime is given, and runtimes that cannot be used.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::{Runtime, SandboxId, Tier};
use belljar_engine::{Backend as _, Config, Engine, Runtimes, StartError, Weakened};
use belljar_testkit::groups_of_sandbox;
use serde_json::Value;

use crate::attack::Seen;
use crate::harness::golden;
use crate::harness::stage::Stage;

/// What a runtime is told to do, compared with what was agreed to.
pub(super) async fn bundle(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let config = config_of(&stage, sandbox.id().as_str())?;
    for never in ["hooks", "annotations"] {
        ensure!(config.get(never).is_none(), "the bundle has {never}");
    }
    let lines = lines(&config, &sandbox_words(&stage, &config, sandbox.id().as_str()));
    let name = format!("config-{}.txt", stage.tier.as_str().replace('/', "-"));
    golden::compare(&name, &lines, stage.bless)
}

/// A bundle with a hook is not the one that was agreed to.
pub(super) async fn other_bundle(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut config = config_of(&stage, sandbox.id().as_str())?;
    config["hooks"] = serde_json::json!({"prestart": [{"path": "/tmp/evil"}]});
    let lines = lines(&config, &sandbox_words(&stage, &config, sandbox.id().as_str()));
    golden::compare(&format!("config-{}.txt", stage.tier.as_str().replace('/', "-")), &lines, false)
}

/// The bundle of a sandbox that runs, found by its name.
fn config_of(stage: &Stage, id: &str) -> anyhow::Result<Value> {
    let mut dirs = vec![stage.engines.state().to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_its =
                path.components().any(|part| part.as_os_str().to_string_lossy().contains(id));
            if is_its && path.file_name().is_some_and(|name| name == "config.json") {
                return Ok(serde_json::from_slice(&fs::read(path)?)?);
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(path);
            }
        }
    }
    bail!("there is no bundle of {id}")
}

/// What is another in every run: ids, directories.
fn sandbox_words(stage: &Stage, config: &Value, id: &str) -> Vec<(String, &'static str)> {
    let first = &config["linux"]["uidMappings"][0]["hostID"];
    let root = config["root"]["path"].as_str().map(Path::new).and_then(Path::parent);
    let base = root.map(|dir| dir.display().to_string()).unwrap_or_default();
    let mut words = vec![(first.to_string(), "FIRST-ID")];
    words.extend((!base.is_empty()).then_some((base, "BASE")));
    // Where the state of root's engines is when nobody says otherwise.
    words.push((stage.engines.state().display().to_string(), "/run/belljar"));
    words.push((id.to_owned(), "ID"));
    words
}

/// One line for each value of the document.
fn lines(config: &Value, words: &[(String, &'static str)]) -> Vec<String> {
    let mut lines = Vec::new();
    flatten("", config, &mut lines);
    let neutral = |line: String| {
        let line = words.iter().fold(line, |line, (word, name)| line.replace(word.as_str(), name));
        // Engines of other numbers have other directories.
        let parts = line.split('/').map(|part| {
            let engine = part.len() > 1
                && part.starts_with('e')
                && part[1..].bytes().all(|byte| byte.is_ascii_digit());
            if engine { "ENGINE" } else { part }
        });
        parts.collect::<Vec<_>>().join("/")
    };
    lines.into_iter().map(neutral).collect()
}

fn flatten(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, lines));
        }
        Value::Array(list) => {
            let mut all = list.iter().enumerate();
            all.by_ref().for_each(|(n, value)| flatten(&format!("{path}[{n}]"), value, lines));
        }
        other => lines.push(format!("{path} = {other}")),
    }
}

/// A program that says it is a runtime.
fn fake(dir: &Path, name: &str, script: &str) -> anyhow::Result<PathBuf> {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Runtimes that are missing, broken or too old: every one is an error by its
/// name, and no sandbox of any kind comes of it.
pub(super) async fn unusable(stage: Stage) -> anyhow::Result<Seen> {
    let dir = tempfile::tempdir()?;
    let Tier::Oci(runtime) = stage.tier else { bail!("no runtime makes {}", stage.tier) };
    let good_version = match runtime {
        Runtime::Crun => "echo 'crun version 1.21'",
        Runtime::Runc => "echo 'runc version 1.3.4'",
        Runtime::Runsc => "echo 'runsc version release-20260101.0'",
    };
    let says = |rest: &str| format!("case \"$*\" in *version*) {good_version};; *) {rest};; esac");
    let programs = [
        ("missing", PathBuf::from("/no/such/runtime"), Fails::Unsupported),
        ("mute", fake(dir.path(), "mute", "exit 0")?, Fails::Unsupported),
        ("no program", dir.path().join("."), Fails::Unsupported),
        ("old", fake(dir.path(), "old", old(runtime))?, Fails::Unsupported),
        ("refusing", fake(dir.path(), "refusing", &says("exit 1"))?, Fails::Start),
        ("pretending", fake(dir.path(), "pretending", &says("exit 0"))?, Fails::Start),
    ];
    let mut seen = Vec::new();
    for (what, program, fails) in programs {
        let error = match try_one(&stage, dir.path(), runtime, program).await? {
            Some(error) => error,
            None => return Ok(Seen::Breach(format!("{what}: a sandbox was made all the same"))),
        };
        let unsupported =
            matches!(error, StartError::Unsupported { tier, .. } if tier == stage.tier);
        ensure!(unsupported || fails == Fails::Start, "{what}: {error:?}");
        seen.push(what);
    }
    Ok(Seen::Held(format!("an error for each of {}", seen.join(", "))))
}

/// The same with the host's own runtime, which works.
pub(super) async fn usable(stage: Stage) -> anyhow::Result<Seen> {
    let dir = tempfile::tempdir()?;
    let Tier::Oci(runtime) = stage.tier else { bail!("no runtime makes {}", stage.tier) };
    let program = super::program(&stage).await?;
    Ok(match try_one(&stage, dir.path(), runtime, program).await? {
        None => Seen::Breach("a sandbox was made".to_owned()),
        Some(error) => Seen::Held(format!("{:#}", anyhow::Error::from(error))),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fails {
    /// Before anything is made.
    Unsupported,
    /// In the middle of it.
    Start,
}

/// What a version with known holes says of itself.
fn old(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Crun => "echo 'crun version 0.10'",
        Runtime::Runc => "echo 'runc version 1.0.0-rc6'",
        Runtime::Runsc => "echo 'runsc version release-20190101.0'",
    }
}

/// Why an engine with this program makes no sandbox; `None` if it makes one.
async fn try_one(
    stage: &Stage,
    dir: &Path,
    runtime: Runtime,
    program: PathBuf,
) -> anyhow::Result<Option<StartError>> {
    let mut runtimes = Runtimes { force: false, ..Runtimes::from_environment() };
    match runtime {
        Runtime::Crun => runtimes.crun = Some(program),
        Runtime::Runc => runtimes.runc = Some(program),
        Runtime::Runsc => runtimes.runsc = Some(program),
    }
    let state_dir = dir.join("state");
    fs::create_dir_all(&state_dir)?;
    let config = Config { state_dir, guest: belljar_node::GUEST, runtimes, machines: None };
    let engine = Engine::start(config).await.context("start an engine")?;
    let before: BTreeSet<PathBuf> = groups();
    let (id, spec) = (SandboxId::from_random([7; 16]), stage.spec());
    let made = engine.create(id, &spec, &Weakened::default()).await;
    let error = match made {
        Ok(machine) => {
            machine.kill();
            machine.destroy().await?;
            None
        }
        Err(error) => Some(error),
    };
    let left: Vec<_> = groups().difference(&before).cloned().collect();
    engine.stop().await;
    ensure!(error.is_none() || left.is_empty(), "left behind: {left:?}");
    Ok(error)
}

/// Groups that have the name that these sandboxes get.
fn groups() -> BTreeSet<PathBuf> {
    groups_of_sandbox(SandboxId::from_random([7; 16]).as_str()).into_iter().collect()
}
