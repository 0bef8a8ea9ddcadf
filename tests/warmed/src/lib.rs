//! The warm template that the suites test with.
//!
//! It is a real one, `python-data`, from the store that `belljar` uses. A suite
//! that does not find it fails and says how to build it; only a flag, meant for
//! a desk, leaves out what needs it. Beside it there is one with interpreters of
//! other languages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, bail};
use belljar_node::{ContextOptions, Language, Warmth};
use belljar_template::{Store, Template};

/// The template's name.
pub const NAME: &str = "python-data";

/// Finds the template in the store of `BELLJAR_STORE`, or root's.
pub fn template() -> anyhow::Result<Template> {
    find(NAME)
}

/// Finds the template that has interpreters of all languages.
pub fn interpreters() -> anyhow::Result<Template> {
    find("code-interpreter")
}

fn find(name: &str) -> anyhow::Result<Template> {
    let named = env::var_os("BELLJAR_STORE").filter(|value| !value.is_empty());
    let store = named.map_or_else(|| PathBuf::from("/var/lib/belljar/templates"), PathBuf::from);
    let hint = || format!("build it with `belljar template build {name}`");
    if !store.exists() {
        bail!("there is no template `{name}`: {}", hint());
    }
    Store::open(&store)?.resolve(name).with_context(hint)
}

/// The path of Python in the template.
pub fn interpreter(template: &Template) -> anyhow::Result<&Path> {
    let found = template.languages.get("python").context("the template has no Python")?;
    Ok(found)
}

/// What the template says about its warm interpreter.
pub fn warmth(template: &Template) -> anyhow::Result<Warmth> {
    Ok(Warmth {
        root: template.root.clone(),
        interpreter: interpreter(template)?.to_owned(),
        code: template.warm.clone().unwrap_or_default(),
        env: template.env.clone(),
    })
}

/// A Python context as the template has it.
pub fn python(template: &Template) -> anyhow::Result<ContextOptions> {
    Ok(ContextOptions {
        language: Language::Python,
        interpreter: interpreter(template)?.to_owned(),
        cwd: None,
        env: template.env.clone(),
    })
}

/// The pids of this process's zygotes, as the host sees them: the only
/// interpreters below its spawner that are in no pid namespace of their own.
pub fn zygotes() -> Vec<u32> {
    let statuses: BTreeMap<u32, String> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, fs::read_to_string(entry.path().join("status")).ok()?))
        })
        .collect();
    let own = std::process::id();
    let field = |pid: &u32, name: &str| {
        let status = statuses.get(pid)?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    let parent = |pid: &u32| field(pid, "PPid")?.first()?.parse::<u32>().ok();
    let is_zygote = |pid: &u32| {
        let python = field(pid, "Name").is_some_and(|name| name.concat().starts_with("python"));
        let outside = field(pid, "NSpid").is_some_and(|pids| pids.len() == 1);
        let dead = field(pid, "State").is_none_or(|state| state.concat().starts_with('Z'));
        let line = std::iter::successors(Some(*pid), parent).take(4);
        python && outside && !dead && line.skip(1).any(|ancestor| ancestor == own)
    };
    statuses.keys().copied().filter(is_zygote).collect()
}
