//! Fields of JSON, found by their names without understanding the rest.
//!
//! The scan also finds them in event streams, in lines, and in an answer that
//! broke off in the middle. No other byte changes. A line break ends a text, so
//! a stray quote hides nothing beyond its own line.

use std::ops::Range;

use super::names::Names;
use super::{Edits, PLACEHOLDER};

pub(crate) fn edits(names: &Names, content: &[u8]) -> Edits {
    let mut edits = Edits::default();
    let mut at = 0;
    while let Some(quote) = next_quote(content, at) {
        let text = inner(content, quote);
        at = after(content, &text);
        let colon = skip_space(content, at);
        if content.get(colon) != Some(&b':') {
            continue;
        }
        let name = plain(content.get(text).unwrap_or_default());
        let value = skip_space(content, colon + 1);
        at = redact(names, &name, content, value, &mut edits);
    }
    edits
}

/// Redacts the value that begins at `at`, if it is a secret's; answers where to
/// go on. A list of texts is several values of the same name.
fn redact(names: &Names, name: &[u8], content: &[u8], at: usize, edits: &mut Edits) -> usize {
    match content.get(at) {
        Some(b'"') => {
            let text = inner(content, at);
            let end = after(content, &text);
            let value = content.get(text.clone()).unwrap_or_default();
            if !value.is_empty() && names.is_secret_field(name, value) {
                edits.push(text, PLACEHOLDER);
            }
            end
        }
        Some(b'-' | b'0'..=b'9') => {
            let digits = content.iter().skip(at).take_while(|b| b"+-.eE0123456789".contains(b));
            let end = at + digits.count();
            if names.is_secret_field(name, content.get(at..end).unwrap_or_default()) {
                edits.push(at..end, concat!("\"", "_redacted_", "\""));
            }
            end
        }
        Some(b'[') => {
            let mut at = skip_space(content, at + 1);
            while content.get(at) == Some(&b'"') {
                at = skip_space(content, redact(names, name, content, at, edits));
                if content.get(at) == Some(&b',') {
                    at = skip_space(content, at + 1);
                }
            }
            at
        }
        _ => at,
    }
}

fn next_quote(content: &[u8], from: usize) -> Option<usize> {
    content.get(from..)?.iter().position(|b| *b == b'"').map(|count| from + count)
}

fn skip_space(content: &[u8], from: usize) -> usize {
    let rest = content.get(from..).unwrap_or_default();
    let count = rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
    from + count.unwrap_or(rest.len())
}

/// What is between the quote at `quote` and the one that ends it, the end of
/// the line, or the end.
fn inner(content: &[u8], quote: usize) -> Range<usize> {
    let begin = quote + 1;
    let mut at = begin;
    while let Some(byte) = content.get(at) {
        match byte {
            b'"' | b'\n' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    begin..at.min(content.len())
}

fn after(content: &[u8], text: &Range<usize>) -> usize {
    text.end + usize::from(content.get(text.end) == Some(&b'"'))
}

/// A name without its escapes.
fn plain(name: &[u8]) -> Vec<u8> {
    if !name.contains(&b'\\') {
        return name.to_vec();
    }
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).map_or_else(|_| name.to_vec(), String::into_bytes)
}
