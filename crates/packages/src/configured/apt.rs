//! apt, whose sources always stand in files. See sources.list(5).

use super::{About, MOST, Manager, Role, Search, Source};

pub(super) fn search(search: &mut Search<'_>) {
    let folder = "/etc/apt/sources.list.d";
    let mut paths = vec!["/etc/apt/sources.list".to_owned()];
    let is_read = |name: &String| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        name.bytes().all(is_plain) && (name.ends_with(".list") || name.ends_with(".sources"))
    };
    let names = search.files.list(folder).into_iter().filter(is_read);
    paths.extend(names.map(|name| format!("{folder}/{name}")));
    // Few of many lines name different places.
    let mut left = 16 * MOST;
    for path in paths {
        let Some(text) = search.files.text(&path) else { continue };
        let uris = if path.ends_with(".sources") { stanzas(&text) } else { one_line(&text) };
        for uri in uris {
            left = left.saturating_sub(1);
            if left == 0 {
                search.note(Manager::Apt, None, About::TooMany);
                return;
            }
            add(search, &path, &uri);
        }
    }
}

fn add(search: &mut Search<'_>, path: &str, uri: &str) {
    let source = Source::File(path.to_owned());
    if let Some(list) = uri.strip_prefix("mirror+file:") {
        let list = format!("/{}", list.trim_start_matches('/'));
        let text = search.files.text(&list).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        for line in lines.take(MOST) {
            if let Some(uri) = line.split_whitespace().next() {
                search.add(Manager::Apt, Role::Main, Source::File(list.clone()), uri);
            }
        }
    } else if let Some(list) = uri.strip_prefix("mirror+").filter(|list| list.starts_with("http")) {
        search.note(Manager::Apt, Some(source.clone()), About::Mirrors);
        search.add(Manager::Apt, Role::Main, source, list);
    } else if uri.starts_with("http:") || uri.starts_with("https:") {
        search.add(Manager::Apt, Role::Main, source, uri);
    }
    // The rest is local (cdrom, file, copy) or needs what sandboxes lack (ssh).
}

/// `deb [options] uri suite component…`
fn one_line(text: &str) -> Vec<String> {
    let uri = |line: &str| {
        let line = line.split('#').next()?.trim();
        let (kind, rest) = line.split_once([' ', '\t'])?;
        if kind != "deb" && kind != "deb-src" {
            return None;
        }
        let rest = match rest.trim_start().strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        rest.split_whitespace().next().map(str::to_owned)
    };
    text.lines().filter_map(uri).collect()
}

/// Paragraphs of `Field: value`, with more lines that begin with space.
fn stanzas(text: &str) -> Vec<String> {
    let mut uris = Vec::new();
    let mut here: Vec<String> = Vec::new();
    let mut is_enabled = true;
    let mut field = String::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            if is_enabled {
                uris.append(&mut here);
            }
            here.clear();
            is_enabled = true;
            field.clear();
            continue;
        }
        let value = if line.starts_with([' ', '\t']) {
            line
        } else {
            let Some((name, value)) = line.split_once(':') else { continue };
            field = name.trim().to_ascii_lowercase();
            value
        };
        match field.as_str() {
            "uris" => here.extend(value.split_whitespace().map(str::to_owned)),
            "enabled" => {
                let value = value.trim().to_ascii_lowercase();
                is_enabled =
                    !matches!(value.as_str(), "no" | "false" | "without" | "off" | "disable");
            }
            _ => {}
        }
    }
    uris
}
