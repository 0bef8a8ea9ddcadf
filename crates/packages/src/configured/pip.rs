//! pip and uv.

use std::collections::BTreeMap;

use super::{About, MOST, Manager, Role, Search, Source};
use crate::url::Url;

/// Commands that fetch; each may have settings of its own.
const COMMANDS: [&str; 3] = ["install", "download", "wheel"];

pub(super) fn search(search: &mut Search<'_>) {
    let settings = Settings::read(search);
    let no_index =
        settings.effective(search, "no-index").into_iter().any(|(value, _)| is_on(&value));
    let main = settings.effective(search, "index-url");
    let is_configured = !main.is_empty() || no_index;
    if !no_index {
        add(search, &main, &Role::Main);
        add(search, &settings.effective(search, "extra-index-url"), &Role::Extra);
    }
    let links = settings.effective(search, "find-links");
    let is_url = |text: &str| text.contains("://") && !text.starts_with("file:");
    for (value, source) in links {
        for text in value.split_whitespace().filter(|text| is_url(text)) {
            search.add(Manager::Pip, Role::Links, source.clone(), text);
        }
    }
    let has_uv_index = uv(search);
    if !is_configured {
        match builtin(search) {
            Builtin::Found(path, url) => {
                search.add(Manager::Pip, Role::Main, Source::Builtin(path), &url);
            }
            Builtin::Unreadable(path) => {
                search.note(Manager::Pip, Some(Source::Builtin(path)), About::UnknownDefault);
            }
            // Without pip, uv's default would have to be known, and is not.
            Builtin::Absent if !has_uv_index => {
                let uv = search.prefixes().into_iter().map(|prefix| format!("{prefix}/bin/uv"));
                if let Some(path) = uv.into_iter().find(|path| search.files.has(path)) {
                    search.note(Manager::Pip, Some(Source::Builtin(path)), About::UnknownDefault);
                }
            }
            Builtin::Absent => {}
        }
    }
}

fn add(search: &mut Search<'_>, values: &[(String, Source)], role: &Role) {
    for (value, source) in values {
        for text in value.split_whitespace() {
            search.add(Manager::Pip, role.clone(), source.clone(), text);
        }
    }
}

fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

/// Settings of pip's files by section and key: later files replace earlier ones.
struct Settings(BTreeMap<(String, String), (String, String)>);

impl Settings {
    fn read(search: &Search<'_>) -> Self {
        let mut settings = BTreeMap::new();
        for path in paths(search) {
            let Some(text) = search.files.text(&path) else { continue };
            for setting in super::lines::python(&text) {
                let key = setting.key.trim_start_matches('-').to_owned();
                settings.insert((setting.section, key), (setting.value, path.clone()));
            }
        }
        Self(settings)
    }

    /// What commands see: the environment, or else their own section, or else
    /// the global one.
    fn effective(&self, search: &Search<'_>, key: &str) -> Vec<(String, Source)> {
        let variable = format!("PIP_{}", key.to_ascii_uppercase().replace('-', "_"));
        if let Some(value) = search.variable(&variable) {
            return vec![(value.to_owned(), Source::Variable(variable))];
        }
        let get = |section: &str| self.0.get(&(section.to_owned(), key.to_owned()));
        let mut values = Vec::new();
        for command in COMMANDS {
            if let Some((value, path)) = get(command).or_else(|| get("global")) {
                let value = (value.clone(), Source::File(path.clone()));
                if !value.0.is_empty() && !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        values
    }
}

/// In the order in which pip reads them.
fn paths(search: &Search<'_>) -> Vec<String> {
    let named = search.variable("PIP_CONFIG_FILE");
    if named == Some("/dev/null") {
        return vec![];
    }
    let mut paths = vec!["/etc/xdg/pip/pip.conf".to_owned(), "/etc/pip.conf".to_owned()];
    for home in search.homes() {
        paths.push(format!("{home}/.pip/pip.conf"));
        paths.push(match search.variable("XDG_CONFIG_HOME") {
            Some(config) => format!("{config}/pip/pip.conf"),
            None => format!("{home}/.config/pip/pip.conf"),
        });
    }
    // The first prefix is the one that is used: it comes last, and wins.
    paths.extend(search.prefixes().into_iter().rev().map(|prefix| format!("{prefix}/pip.conf")));
    paths.extend(named.map(str::to_owned));
    paths
}

enum Builtin {
    Found(String, String),
    Unreadable(String),
    Absent,
}

/// The default that pip's own file names.
fn builtin(search: &Search<'_>) -> Builtin {
    let mut libraries: Vec<String> =
        search.prefixes().into_iter().map(|prefix| format!("{prefix}/lib")).collect();
    for home in search.homes() {
        let versions = match search.variable("PYENV_ROOT") {
            Some(root) => format!("{root}/versions"),
            None => format!("{home}/.pyenv/versions"),
        };
        let names = search.files.list(&versions);
        let names = names.into_iter().take(MOST);
        libraries.extend(names.map(|name| format!("{versions}/{name}/lib")));
    }
    for library in libraries {
        for python in search.files.list(&library).iter().filter(|name| name.starts_with("python3"))
        {
            for packages in ["site-packages", "dist-packages"] {
                let path = format!("{library}/{python}/{packages}/pip/_internal/models/index.py");
                let Some(text) = search.files.text(&path) else { continue };
                return match default_of(&text) {
                    Some(url) => Builtin::Found(path, url),
                    None => Builtin::Unreadable(path),
                };
            }
        }
    }
    Builtin::Absent
}

/// `PyPI = PackageIndex("<base>", …)`; the index lies at `simple` beside it.
fn default_of(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("\nPyPI = PackageIndex(")?;
    let base = Url::parse(super::lines::quoted(rest)?).ok()?;
    Some(base.join("simple").ok()?.to_string())
}

/// uv's settings; answers whether a main index is among them.
fn uv(search: &mut Search<'_>) -> bool {
    let mut found: Vec<(Role, Source, String)> = Vec::new();
    let main = ["UV_DEFAULT_INDEX", "UV_INDEX_URL"].into_iter().find_map(|name| {
        Some((Source::Variable(name.to_owned()), search.variable(name)?.to_owned()))
    });
    let has_main_variable = main.is_some();
    found.extend(main.map(|(source, text)| (Role::Main, source, text)));
    for name in ["UV_INDEX", "UV_EXTRA_INDEX_URL"] {
        for text in search.variable(name).unwrap_or_default().split_whitespace() {
            found.push((Role::Extra, Source::Variable(name.to_owned()), text.to_owned()));
        }
    }
    let mut paths = vec!["/etc/uv/uv.toml".to_owned()];
    for home in search.homes() {
        paths.push(match search.variable("XDG_CONFIG_HOME") {
            Some(config) => format!("{config}/uv/uv.toml"),
            None => format!("{home}/.config/uv/uv.toml"),
        });
    }
    for path in paths {
        let text = search.files.text(&path);
        let Some(table) = text.and_then(|text| text.parse::<toml::Table>().ok()) else { continue };
        for (role, text) in uv_file(&table) {
            if role != Role::Main || !has_main_variable {
                found.push((role, Source::File(path.clone()), text));
            }
        }
    }
    let has_main = found.iter().any(|(role, ..)| *role == Role::Main);
    for (role, source, text) in found {
        // An index may be written `name=url`.
        let url = text.split_once('=').filter(|(name, _)| !name.contains('/'));
        search.add(Manager::Pip, role, source, url.map_or(text.as_str(), |(_, url)| url));
    }
    has_main
}

fn uv_file(table: &toml::Table) -> Vec<(Role, String)> {
    let mut found = Vec::new();
    let tables = [Some(table), table.get("pip").and_then(toml::Value::as_table)];
    for table in tables.into_iter().flatten() {
        let text = |key: &str| table.get(key).and_then(toml::Value::as_str);
        let list = |key: &str| table.get(key).and_then(toml::Value::as_array);
        found.extend(text("index-url").map(|url| (Role::Main, url.to_owned())));
        let extra = list("extra-index-url").into_iter().flatten().filter_map(toml::Value::as_str);
        found.extend(extra.map(|url| (Role::Extra, url.to_owned())));
        for index in list("index").into_iter().flatten().filter_map(toml::Value::as_table) {
            let is_main = index.get("default").and_then(toml::Value::as_bool) == Some(true);
            if let Some(url) = index.get("url").and_then(toml::Value::as_str) {
                let role = if is_main { Role::Main } else { Role::Extra };
                found.push((role, url.to_owned()));
            }
        }
    }
    found
}
