//! cargo. Its default is only in its program, and is found there.

use super::{About, MOST, Manager, Role, Search, Source, program};
use crate::files::Files;

/// What cargo calls its default source.
const DEFAULT: &str = "crates-io";

pub(super) fn search(search: &mut Search<'_>) {
    let mut homes: Vec<String> =
        search.variable("CARGO_HOME").map(str::to_owned).into_iter().collect();
    homes.extend(search.homes().into_iter().map(|home| format!("{home}/.cargo")));
    let mut is_replaced = false;
    let mut named: Vec<String> = Vec::new();
    for (name, value) in search.environment {
        let registry =
            name.strip_prefix("CARGO_REGISTRIES_").and_then(|n| n.strip_suffix("_INDEX"));
        if let (Some(registry), Some(_)) = (registry, search.variable(name)) {
            let registry = registry.to_ascii_lowercase();
            named.push(registry.replace('_', "-"));
            add(search, Role::Named(registry), Source::Variable(name.clone()), value);
        }
    }
    // A folder above every working directory counts before the home's.
    let folders = std::iter::once("/.cargo").chain(homes.iter().map(String::as_str));
    let paths = folders.flat_map(|f| ["config.toml", "config"].map(|name| format!("{f}/{name}")));
    for path in paths.collect::<Vec<_>>() {
        let text = search.files.text(&path);
        let Some(table) = text.and_then(|text| text.parse::<toml::Table>().ok()) else { continue };
        if !is_replaced {
            match replacement(&table) {
                Replacement::Index(index) => {
                    is_replaced = true;
                    add(search, Role::Main, Source::File(path.clone()), index);
                }
                Replacement::Local => is_replaced = true,
                Replacement::None => {}
            }
        }
        for (name, index) in registries(&table) {
            if !named.iter().any(|known| *known == name.to_ascii_lowercase().replace('_', "-")) {
                named.push(name.to_ascii_lowercase().replace('_', "-"));
                add(search, Role::Named(name.to_owned()), Source::File(path.clone()), index);
            }
        }
    }
    if !is_replaced {
        add_builtin(search, &homes);
    }
}

/// The default, from the first program that tells it.
fn add_builtin(search: &mut Search<'_>, homes: &[String]) {
    let programs = programs(search, homes);
    let found = programs.iter().find_map(|path| Some((path, builtin(search.files, path)?)));
    if let Some((path, url)) = found {
        search.add(Manager::Cargo, Role::Main, Source::Builtin(path.clone()), &url);
    } else if let Some(path) = programs.into_iter().next() {
        search.note(Manager::Cargo, Some(Source::Builtin(path)), About::UnknownDefault);
    }
}

/// Where cargo may be installed, and is. rustup puts itself in cargo's place,
/// and keeps cargo among its toolchains.
fn programs(search: &Search<'_>, homes: &[String]) -> Vec<String> {
    let mut folders: Vec<String> =
        search.prefixes().into_iter().map(|prefix| format!("{prefix}/bin")).collect();
    folders.extend(homes.iter().map(|home| format!("{home}/bin")));
    let mut rustups: Vec<String> =
        search.variable("RUSTUP_HOME").map(str::to_owned).into_iter().collect();
    rustups.extend(search.homes().into_iter().map(|home| format!("{home}/.rustup")));
    for rustup in rustups {
        let toolchains = format!("{rustup}/toolchains");
        let names = search.files.list(&toolchains).into_iter().take(MOST);
        folders.extend(names.map(|name| format!("{toolchains}/{name}/bin")));
    }
    let programs = folders.into_iter().map(|folder| format!("{folder}/cargo"));
    programs.filter(|path| search.files.has(path)).take(MOST).collect()
}

/// A sparse index at the root of its host: strings have no ends in a program,
/// so a path could not be told from what happens to follow it.
fn builtin(files: &dyn Files, path: &str) -> Option<String> {
    program::find(files, path, b"sparse+https://", |after| {
        let end = after.iter().position(|&byte| byte == b'/')?;
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        let host = std::str::from_utf8(after.get(..end)?).ok()?;
        let is_whole = host.contains('.') && host.bytes().all(is_host);
        is_whole.then(|| format!("https://{host}/"))
    })
}

fn add(search: &mut Search<'_>, role: Role, source: Source, index: &str) {
    match index.trim().strip_prefix("sparse+") {
        Some(url) => search.add(Manager::Cargo, role, source, url),
        None if index.starts_with("file:") => {}
        None => search.note(Manager::Cargo, Some(source), About::Git),
    }
}

enum Replacement<'a> {
    Index(&'a str),
    /// Vendored: nothing is fetched.
    Local,
    None,
}

/// Follows `replace-with` from the default source to the one that is asked.
fn replacement(table: &toml::Table) -> Replacement<'_> {
    let sources = table.get("source").and_then(toml::Value::as_table);
    let mut name = DEFAULT;
    // Longer chains are a mistake, or a circle.
    for _ in 0..8 {
        let source = sources.and_then(|s| s.get(name)).and_then(toml::Value::as_table);
        let text = |key: &str| source.and_then(|s| s.get(key)).and_then(toml::Value::as_str);
        if let Some(next) = text("replace-with") {
            name = next;
        } else if let Some(index) = text("registry") {
            return Replacement::Index(index);
        } else if name != DEFAULT && source.is_some() {
            return Replacement::Local;
        } else {
            let found = registries(table).find(|(known, _)| *known == name);
            return found.map_or(Replacement::None, |(_, index)| Replacement::Index(index));
        }
    }
    Replacement::None
}

fn registries(table: &toml::Table) -> impl Iterator<Item = (&str, &str)> {
    let registries = table.get("registries").and_then(toml::Value::as_table);
    registries.into_iter().flatten().take(MOST).filter_map(|(name, registry)| {
        Some((name.as_str(), registry.as_table()?.get("index")?.as_str()?))
    })
}
