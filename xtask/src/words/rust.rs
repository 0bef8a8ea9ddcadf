//! Texts for users in Rust sources: help of the command line, errors, and log messages.

use super::text::sentences_of_text;
use super::{Kind, Text};

/// What a text of this kind comes behind.
const BEHIND: [(&str, Kind); 16] = [
    ("#[error(", Kind::Error),
    ("anyhow!(", Kind::Error),
    ("bail!(", Kind::Error),
    ("ensure!(", Kind::Error),
    (".context(", Kind::Error),
    (".with_context(", Kind::Error),
    ("Problem::new(", Kind::Error),
    ("Problem::invalid(", Kind::Error),
    ("Problem::conflict(", Kind::Error),
    ("Problem::not_found(", Kind::Error),
    ("error!(", Kind::Log),
    ("warn!(", Kind::Log),
    ("info!(", Kind::Log),
    ("debug!(", Kind::Log),
    ("eprintln!(", Kind::Error),
    ("println!(", Kind::Help),
];

/// The texts of one source file, up to its tests.
pub(super) fn texts(name: &str, source: &str) -> Vec<Text> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let is_cli = name.starts_with("crates/belljar/src/cli");
    let mut comment: (usize, String) = (0, String::new());
    let mut offset = 0;
    for (index, line) in source.lines().enumerate() {
        let trimmed = line.trim_start();
        match trimmed.strip_prefix("///") {
            Some(text) if is_cli => {
                if comment.1.is_empty() {
                    comment.0 = index + 1;
                }
                comment.1.push_str(text);
                comment.1.push('\n');
            }
            _ => add(&mut found, Kind::Help, name, &mut comment),
        }
        if !trimmed.starts_with("//") {
            for (mark, kind) in BEHIND {
                if let Some(at) = find_call(line, mark) {
                    let rest = source.get(offset + at..).unwrap_or_default();
                    let mut text = (index + 1, literal(rest).unwrap_or_default());
                    add(&mut found, kind, name, &mut text);
                }
            }
        }
        offset += line.len() + 1;
    }
    add(&mut found, Kind::Help, name, &mut comment);
    found
}

fn add(found: &mut Vec<Text>, kind: Kind, name: &str, text: &mut (usize, String)) {
    let (line, text) = std::mem::take(text);
    let sentences = sentences_of_text(&text);
    if !sentences.is_empty() {
        found.push(Text { kind, place: format!("{name}:{line}"), sentences });
    }
}

/// Where a macro's or function's arguments begin; `eprintln!(` is no `println!(`.
fn find_call(line: &str, mark: &str) -> Option<usize> {
    let at = line.find(mark)?;
    let before = line.get(..at)?.chars().next_back();
    let is_part = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    (mark.starts_with(['.', '#']) || !is_part).then_some(at + mark.len())
}

/// The longest string literal among the arguments that begin here: the others are names and values.
fn literal(arguments: &str) -> Option<String> {
    let (mut depth, mut letters) = (1, arguments.chars().peekable());
    let mut longest: Option<String> = None;
    while let Some(letter) = letters.next() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '"' => {
                let mut text = String::new();
                while let Some(letter) = letters.next() {
                    match letter {
                        '"' => break,
                        '\\' => match letters.next() {
                            Some('\n') => {
                                while letters.next_if(|next| next.is_whitespace()).is_some() {}
                            }
                            Some('n') => text.push('\n'),
                            Some(other) => text.push(other),
                            None => {}
                        },
                        other => text.push(other),
                    }
                }
                if longest.as_ref().is_none_or(|longest| longest.len() < text.len()) {
                    longest = Some(text);
                }
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, source: &str) -> Vec<(Kind, String, String)> {
        let texts = texts(name, source).into_iter();
        texts.map(|text| (text.kind, text.place, text.sentences[0].0.clone())).collect()
    }

    #[test]
    fn help_errors_and_logs_are_found() {
        let source = "/// Runs code\n/// in a sandbox\nfn x() {\n    bail!(\"line {n}: \\\n         unknown tier\");\n    warn!(node, error = %e, \"node lost\");\n}\n#[cfg(test)]\nmod tests { fn y() { bail!(\"not this\") } }\n";
        let want = [
            (Kind::Help, "crates/belljar/src/cli.rs:1", "Runs code in a sandbox"),
            (Kind::Error, "crates/belljar/src/cli.rs:4", "line {n}: unknown tier"),
            (Kind::Log, "crates/belljar/src/cli.rs:6", "node lost"),
        ];
        let want = want.map(|(kind, place, text)| (kind, place.to_owned(), text.to_owned()));
        assert_eq!(found("crates/belljar/src/cli.rs", source), want);
    }

    #[test]
    fn comments_elsewhere_are_no_help() {
        assert_eq!(found("crates/x/src/a.rs", "/// Whoever\nfn x() {}\n"), []);
    }
}
