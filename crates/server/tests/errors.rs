//! Every code that the server can answer is explained in `docs/errors.md`, and
//! nothing else is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What stands before a code: a kind, a status, or a helper that has one.
const BEFORE: [&str; 7] =
    ["Kind::", "StatusCode::", "conflict(", "invalid(", "refused(", "failed(", "busy("];

#[test]
fn every_code_is_explained() {
    let used = used();
    let explained = explained();
    assert!(used.len() > 30, "the search finds too little: {used:?}");
    let missing: Vec<_> = used.difference(&explained).collect();
    assert!(missing.is_empty(), "docs/errors.md does not explain {missing:?}");
    let stale: Vec<_> = explained.difference(&used).collect();
    assert!(stale.is_empty(), "docs/errors.md explains {stale:?}, which nothing answers");
}

#[test]
fn every_code_of_the_surface_is_explained() {
    let explained = explained();
    for code in belljar_api::CODES {
        assert!(explained.contains(code.code), "{}", code.code);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn explained() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs/errors.md")).expect("docs/errors.md");
    let first = |line: &str| line.strip_prefix("| `")?.split('`').next().map(str::to_owned);
    text.lines().filter_map(first).collect()
}

fn used() -> BTreeSet<String> {
    let mut found: BTreeSet<_> =
        belljar_api::CODES.iter().map(|code| code.code.to_owned()).collect();
    for crates in ["sandboxes", "e2b", "server", "control"] {
        search(&root().join("crates").join(crates).join("src"), &mut found);
    }
    found
}

fn search(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            search(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            // Tests make up codes of their own.
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            collect(text, found);
        }
    }
}

/// Codes are words in quotes whose predecessor says what kind they are.
fn collect(text: &str, found: &mut BTreeSet<String>) {
    let parts: Vec<&str> = text.split('"').collect();
    for index in (1..parts.len()).step_by(2) {
        let code = parts[index];
        let is_word = !code.is_empty() && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if !is_word {
            continue;
        }
        let before = parts[index - 1].trim_end();
        let before = before.strip_suffix(',').unwrap_or(before);
        let token = before.rsplit(|c: char| c.is_whitespace() || c == ',').next().unwrap_or("");
        let token = token.rsplit("Problem::new(").next().unwrap_or(token);
        let is_code = BEFORE.iter().any(|word| match word.strip_suffix('(') {
            Some(_) => token.ends_with(word) && code.contains('_'),
            None => token.rsplit('(').next().is_some_and(|token| token.starts_with(word)),
        });
        if is_code {
            found.insert(code.to_owned());
        }
    }
}
