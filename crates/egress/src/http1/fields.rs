//! The fields of a head, in their order.

use std::ops::Range;

use super::bytes::{is_token, is_value, trim};
use super::{MOST_FIELDS, Malformed};

/// Names and values. They share one buffer: most heads have a dozen fields.
#[derive(Clone, Default)]
pub struct Fields {
    text: Vec<u8>,
    spans: Vec<Span>,
}

#[derive(Debug, Clone)]
struct Span {
    name: Range<usize>,
    value: Range<usize>,
}

impl Fields {
    /// Reads the lines of `text`, each of which ends with CR LF.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Self { text: text.to_vec(), spans: Vec::with_capacity(16) };
        let mut start = 0;
        while start < text.len() {
            let length =
                text[start..].iter().position(|b| *b == b'\r').ok_or(Malformed::LineEnd)?;
            let line = &text[start..start + length];
            if let [b' ' | b'\t', ..] = line {
                return Err(Malformed::Fold);
            }
            let colon = line.iter().position(|b| *b == b':').ok_or(Malformed::FieldName)?;
            if !is_token(&line[..colon]) || is_disguised(&line[..colon]) {
                return Err(Malformed::FieldName);
            }
            let value = trim(&line[colon + 1..]);
            if !is_value(value) {
                return Err(Malformed::Control);
            }
            if fields.spans.len() == MOST_FIELDS {
                return Err(Malformed::TooManyFields);
            }
            let from = start + colon + 1 + leading(&line[colon + 1..], value);
            let name = start..start + colon;
            fields.spans.push(Span { name, value: from..from + value.len() });
            start += length + 2;
        }
        Ok(fields)
    }

    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Names as they were sent, values without the blanks around them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.spans.iter().map(|span| {
            // Tokens are ASCII, so the text is there.
            let name = std::str::from_utf8(&self.text[span.name.clone()]).unwrap_or_default();
            (name, &self.text[span.value.clone()])
        })
    }

    /// All values of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.spans
            .iter()
            .filter(move |span| self.text[span.name.clone()].eq_ignore_ascii_case(name.as_bytes()))
            .map(|span| &self.text[span.value.clone()])
    }

    /// The value of a name that must stand alone.
    pub fn only<'a>(&'a self, name: &'a str) -> Result<Option<&'a [u8]>, Malformed> {
        let mut values = self.all(name);
        let value = values.next();
        if values.next().is_some() { Err(Malformed::Twice) } else { Ok(value) }
    }

    /// What a proxy passes on: everything that is not about this connection, or
    /// ours to say.
    pub fn forwarded(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let named: Vec<&str> = self.connection_options().filter_map(Result::ok).collect();
        self.iter().filter(move |(name, _)| {
            !is_hop_by_hop(name)
                && !is_ours_to_say(name)
                && !named.iter().any(|option| option.eq_ignore_ascii_case(name))
        })
    }

    /// The names in all Connection fields.
    pub(super) fn connection_options(&self) -> impl Iterator<Item = Result<&str, Malformed>> {
        self.all("connection")
            .flat_map(|value| value.split(|b| *b == b','))
            .map(trim)
            .filter(|option| !option.is_empty())
            .map(|option| match std::str::from_utf8(option) {
                Ok(text) if is_token(option) => Ok(text),
                _ => Err(Malformed::Connection),
            })
    }
}

fn leading(untrimmed: &[u8], trimmed: &[u8]) -> usize {
    if trimmed.is_empty() {
        return 0;
    }
    untrimmed.iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Some servers see `-` and `_` as one: to them this is a length or a host.
fn is_disguised(name: &[u8]) -> bool {
    let is = |other: &str| {
        name.len() == other.len()
            && name
                .iter()
                .zip(other.bytes())
                .all(|(a, b)| a.eq_ignore_ascii_case(&b) || (*a == b'_' && b == b'-'))
    };
    name.contains(&b'_') && (is("content-length") || is("transfer-encoding"))
}

/// Whether a field is about one connection, and ends at the next proxy.
pub fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    NAMES.iter().any(|other| other.eq_ignore_ascii_case(name)) || begins(name, "proxy-")
}

/// Whether a field says who somebody is or on which way a request came. Inside,
/// nobody can know; the listener is the identity.
pub fn is_ours_to_say(name: &str) -> bool {
    const NAMES: &[&str] = &["forwarded", "via", "x-real-ip", "true-client-ip", "x-client-ip"];
    NAMES.iter().any(|other| other.eq_ignore_ascii_case(name))
        || begins(name, "x-forwarded-")
        || begins(name, "x-belljar-")
}

fn begins(name: &str, prefix: &str) -> bool {
    // Underscores are dashes to some servers.
    name.len() > prefix.len()
        && name
            .bytes()
            .zip(prefix.bytes())
            .all(|(a, b)| a.eq_ignore_ascii_case(&b) || (a == b'_' && b == b'-'))
}

impl PartialEq for Fields {
    /// Whatever blanks stood around the values.
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields {}

impl std::fmt::Debug for Fields {
    /// Names only: values hold credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}
