//! npm, and what reads its settings too: pnpm, yarn, bun.

use super::{About, MOST, Manager, Role, Search, Source};

pub(super) fn search(search: &mut Search<'_>) {
    let homes = installations(search);
    let mut settings = variables(search);
    for path in paths(search, &homes) {
        let Some(text) = search.files.text(&path) else { continue };
        let variable = |name: &str| search.environment.get(name).cloned();
        let found = super::lines::npm(&text, variable);
        settings.extend(found.into_iter().map(|(k, v)| (k, v, Source::File(path.clone()))));
    }
    // The first place that says something about a key decides.
    let mut known: Vec<String> = Vec::new();
    for (key, value, source) in settings {
        let role = match key.strip_suffix(":registry") {
            Some(scope) if scope.starts_with('@') => Role::Named(scope.to_owned()),
            _ if key == "registry" => Role::Main,
            _ => continue,
        };
        if value.is_empty() || known.contains(&key) || known.len() > MOST {
            continue;
        }
        known.push(key);
        search.add(Manager::Npm, role, source, &value);
    }
    if !known.iter().any(|key| key == "registry") {
        default(search, &homes);
    }
}

/// What yarn calls the same, newest name first.
const YARN: [&str; 2] = ["YARN_NPM_REGISTRY_SERVER", "YARN_REGISTRY"];

/// `npm_config_` in any case; in the rest, case and `_` for `-` do not matter.
fn variables(search: &Search<'_>) -> Vec<(String, String, Source)> {
    let mut settings = Vec::new();
    for (name, value) in search.environment {
        let Some((start, key)) = name.split_at_checked("npm_config_".len()) else { continue };
        if start.eq_ignore_ascii_case("npm_config_") {
            let key = key.to_ascii_lowercase();
            settings.push((key, value.trim().to_owned(), Source::Variable(name.clone())));
        }
    }
    for name in YARN {
        if let Some(value) = search.variable(name) {
            let source = Source::Variable(name.to_owned());
            settings.push(("registry".to_owned(), value.to_owned(), source));
        }
    }
    settings
}

/// Where npm itself lies.
fn installations(search: &Search<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for prefix in search.prefixes() {
        for place in ["lib/node_modules/npm", "share/nodejs/npm"] {
            let path = format!("{prefix}/{place}");
            if search.files.has(&path) {
                found.push(path);
            }
        }
    }
    found
}

/// Of the user first, then of the machine, then of npm's own folder.
fn paths(search: &Search<'_>, homes: &[String]) -> Vec<String> {
    let named = |key: &str| {
        let is_it = |name: &str| name.eq_ignore_ascii_case(&format!("npm_config_{key}"));
        search.environment.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value.clone())
    };
    let mut paths = Vec::new();
    match named("userconfig") {
        Some(path) => paths.push(path),
        None => paths.extend(search.homes().into_iter().map(|home| format!("{home}/.npmrc"))),
    }
    match named("globalconfig") {
        Some(path) => paths.push(path),
        None => {
            paths.push("/etc/npmrc".to_owned());
            let prefixes = named("prefix").into_iter().chain(search.prefixes());
            paths.extend(prefixes.map(|prefix| format!("{prefix}/etc/npmrc")));
        }
    }
    paths.extend(homes.iter().map(|home| format!("{home}/npmrc")));
    paths
}

/// Where npm has kept its defaults over the years, within its folder.
const DEFINITIONS: [&str; 3] = [
    "node_modules/@npmcli/config/lib/definitions/definitions.js",
    "lib/utils/config/definitions.js",
    "lib/config/defaults.js",
];

fn default(search: &mut Search<'_>, homes: &[String]) {
    for home in homes {
        for place in DEFINITIONS {
            let path = format!("{home}/{place}");
            if let Some(url) = search.files.text(&path).as_deref().and_then(default_of) {
                search.add(Manager::Npm, Role::Main, Source::Builtin(path.clone()), url);
                return;
            }
        }
    }
    if let Some(home) = homes.first() {
        let source = Some(Source::Builtin(home.clone()));
        search.note(Manager::Npm, source, About::UnknownDefault);
    }
}

/// `…('registry', { default: '<url>', …`, whatever the function is called.
fn default_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("('registry', {")?;
    let rest = rest.trim_start().strip_prefix("default:")?.trim_start();
    rest.starts_with(['\'', '"']).then(|| super::lines::quoted(rest)).flatten()
}
