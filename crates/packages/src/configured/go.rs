//! go, whose defaults lie beside it in a text file since 1.21.

use super::{About, Manager, Role, Search, Source};

pub(super) fn search(search: &mut Search<'_>) {
    let roots = roots(search);
    let mut paths: Vec<String> = match search.variable("GOENV") {
        Some("off") => vec![],
        Some(path) => vec![path.to_owned()],
        None => search.homes().iter().map(|home| format!("{home}/.config/go/env")).collect(),
    };
    paths.extend(roots.first().map(|root| format!("{root}/go.env")));
    let get = |name: &str| -> Option<(String, Source)> {
        if let Some(value) = search.variable(name) {
            return Some((value.to_owned(), Source::Variable(name.to_owned())));
        }
        paths.iter().find_map(|path| {
            let text = search.files.text(path)?;
            let is_it =
                |line: &str| Some(line.trim().strip_prefix(name)?.strip_prefix('=')?.to_owned());
            let value = text.lines().find_map(is_it).filter(|value| !value.is_empty())?;
            let is_builtin = roots.iter().any(|root| path == &format!("{root}/go.env"));
            let source = if is_builtin { Source::Builtin } else { Source::File };
            Some((value, source(path.clone())))
        })
    };
    let proxies = get("GOPROXY");
    let checksums = get("GOSUMDB");
    match proxies {
        Some((value, source)) => {
            let is_remote = |text: &&str| {
                !text.is_empty()
                    && *text != "direct"
                    && *text != "off"
                    && !text.starts_with("file:")
            };
            for text in value.split([',', '|']).map(str::trim).filter(is_remote) {
                search.add(Manager::Go, Role::Main, source.clone(), text);
            }
        }
        None => {
            if let Some(root) = roots.first() {
                let source = Some(Source::Builtin(root.clone()));
                search.note(Manager::Go, source, About::UnknownDefault);
            }
        }
    }
    if let Some((value, source)) = checksums.filter(|(value, _)| value != "off") {
        // `name`, `name+key`, or either and the URL to ask instead.
        let mut words = value.split_whitespace();
        let name = words.next().unwrap_or_default();
        let url = match words.next() {
            Some(url) => url.to_owned(),
            None => format!("https://{}", name.split('+').next().unwrap_or_default()),
        };
        search.add(Manager::Go, Role::Checksums, source, &url);
    }
}

/// Where go may be installed, and is.
fn roots(search: &Search<'_>) -> Vec<String> {
    let mut roots: Vec<String> = search.variable("GOROOT").map(str::to_owned).into_iter().collect();
    roots.extend(["/usr/local/go", "/usr/lib/go"].map(str::to_owned));
    let versions = search.files.list("/usr/lib").into_iter().filter(|name| name.starts_with("go-"));
    roots.extend(versions.map(|name| format!("/usr/lib/{name}")));
    roots.retain(|root| search.files.has(&format!("{root}/bin/go")));
    roots
}
