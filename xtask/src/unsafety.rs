//! Checks that `unsafe` is written in `crates/sys` and nowhere else.
//!
//! The compiler already denies it: `unsafe_code = "deny"` for the workspace.
//! This check closes the ways around: a member that does not take the
//! workspace's lints, an attribute that lifts the lint, and code that the
//! compiler did not look at in this build (another target, another feature).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

const HOME: &str = "belljar-sys";

/// Returns one plain sentence for each place that breaks the rule.
pub(crate) fn check(root: &Path, workspace: &Workspace) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    if !matches!(workspace.unsafe_lint.as_deref(), Some("deny" | "forbid")) {
        broken.push(
            "Cargo.toml: [workspace.lints.rust] no longer denies unsafe_code. \
             Write `unsafe_code = \"deny\"` there."
                .to_owned(),
        );
    }
    for member in &workspace.members {
        if !member.workspace_lints {
            broken.push(format!(
                "{}: the crate does not take the workspace's lints. \
                 Write `[lints]` and `workspace = true` there.",
                member.manifest
            ));
        }
        if member.package == HOME {
            continue;
        }
        for path in rust_files(&member.folder)? {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {path:?}"))?;
            for (line, word) in words(&text) {
                if word == "unsafe" || word == "unsafe_code" {
                    let place = path.strip_prefix(root).unwrap_or(&path).display();
                    broken.push(format!(
                        "{place}:{line}: `{word}` is written outside crates/sys. Put a safe \
                         function with a SAFETY comment into crates/sys and call that."
                    ));
                }
            }
        }
    }
    Ok(broken)
}

/// Every `.rs` file below `folder`, without build output.
fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {folder:?}"))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The identifiers and keywords of a Rust source with their lines; what stands
/// in comments, strings and character literals is left out.
fn words(source: &str) -> Vec<(usize, &str)> {
    let bytes = source.as_bytes();
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80;
    let mut found = Vec::new();
    let mut line = 1;
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at = match bytes[at] {
            b'/' if source[at..].starts_with("//") => end_of(source, at, "\n"),
            b'/' if source[at..].starts_with("/*") => end_of_block_comment(bytes, at),
            b'"' => end_of_string(bytes, at),
            b'\'' => end_of_quote(source, at),
            byte if is_word(byte) => {
                let length = bytes[at..].iter().take_while(|&&byte| is_word(byte)).count();
                let word = &source[at..at + length];
                match raw_string_end(source, at, word) {
                    Some(end) => end,
                    None => {
                        found.push((line, word));
                        at + length
                    }
                }
            }
            _ => at + 1,
        };
        line += bytes[start..at].iter().filter(|&&byte| byte == b'\n').count();
    }
    found
}

/// Where the text after the next `mark` begins, or the end of the source.
fn end_of(source: &str, from: usize, mark: &str) -> usize {
    source[from..].find(mark).map_or(source.len(), |found| from + found + mark.len())
}

/// Block comments nest.
fn end_of_block_comment(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => {
                depth += 1;
                at += 2;
            }
            Some(b"*/") => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A character literal ends at its second quote; a lifetime is one quote only.
fn end_of_quote(source: &str, from: usize) -> usize {
    let mut rest = source[from + 1..].char_indices();
    match (rest.next(), rest.next()) {
        (Some((_, '\\')), Some((escaped, character))) => {
            end_of(source, from + 1 + escaped + character.len_utf8(), "'")
        }
        (Some(_), Some((second, '\''))) => from + 1 + second + 1,
        _ => from + 1,
    }
}

/// The end of a raw string, if `word` is the prefix of one.
fn raw_string_end(source: &str, at: usize, word: &str) -> Option<usize> {
    if !matches!(word, "r" | "br" | "cr") {
        return None;
    }
    let rest = &source[at + word.len()..];
    let hashes = rest.bytes().take_while(|&byte| byte == b'#').count();
    rest[hashes..].starts_with('"').then(|| {
        let open = at + word.len() + hashes + 1;
        end_of(source, open, &format!("\"{}", "#".repeat(hashes)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, want: &[(usize, &str)]) {
        assert_eq!(words(source), want, "{source}");
    }

    #[test]
    fn comments_and_literals_hide_words() {
        check("// unsafe\na", &[(2, "a")]);
        check("/* unsafe /* unsafe */ unsafe */ a", &[(1, "a")]);
        check("\"unsafe \\\" unsafe\" a", &[(1, "a")]);
        check("r#\"unsafe \" unsafe\n\"# a", &[(2, "a")]);
        check("b\"unsafe\"", &[(1, "b")]);
        check("'\\'' '\"' '\\u{75}' a", &[(1, "a")]);
    }

    #[test]
    fn code_between_quotes_is_seen() {
        check("&'a unsafe", &[(1, "a"), (1, "unsafe")]);
        check("'é' unsafe 'x'", &[(1, "unsafe")]);
        check("\"a\"\nunsafe\n\"b\"", &[(2, "unsafe")]);
        check("r#type", &[(1, "r"), (1, "type")]);
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        check("a \"unsafe", &[(1, "a")]);
        check("a /* unsafe", &[(1, "a")]);
        check("a '\\", &[(1, "a")]);
    }
}
