//! Takes secrets out of everything before it is stored, and out of requests
//! before they are compared, so that a recording matches whatever key it is
//! played back with.
//!
//! Two ways, one after the other. By name: headers, query and form parameters,
//! fields of JSON. By value: the secrets that the caller knows, in every byte,
//! also as they look in base64, in a URL or inside a JSON text. What is inside
//! an archive or otherwise compressed cannot be seen and stays.

mod edits;
mod fields;
mod literals;
mod names;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub(crate) use self::edits::Edits;
use self::literals::Literals;
pub(crate) use self::literals::Stream;
pub use self::literals::{Secret, UnfitSecret};
pub use self::names::Names;

/// What stands in a secret's place: unchanged by URLs, JSON and headers.
pub const PLACEHOLDER: &str = "_redacted_";

/// How a body is written, as far as names can be found in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    /// Many JSON values with something between them: event streams, lines.
    Lines,
    Parameters,
    Opaque,
}

impl Form {
    pub(crate) fn of(content_type: Option<&str>) -> Self {
        let whole = content_type.unwrap_or_default().to_ascii_lowercase();
        let kind = whole.split(';').next().unwrap_or_default().trim();
        match kind {
            "application/x-www-form-urlencoded" => Self::Parameters,
            "text/event-stream" | "application/json-seq" | "application/jsonl" => Self::Lines,
            "application/x-ndjson" | "application/ndjson" => Self::Lines,
            "text/json" => Self::Json,
            _ if kind.starts_with("application/") && kind.ends_with("json") => Self::Json,
            _ => Self::Opaque,
        }
    }
}

/// Nobody says that these are secrets, and a word such as `anonymous` is none.
const SHORTEST_SHOWN: usize = 12;

/// Cheap to clone.
#[derive(Clone)]
pub struct Redactor {
    names: Arc<Names>,
    literals: Arc<Literals>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Refuses a secret that is too short to be told from ordinary text.
    pub fn new(names: Names, secrets: &[Secret]) -> Result<Self, UnfitSecret> {
        let literals = Arc::new(Literals::new(secrets)?);
        Ok(Self { names: Arc::new(names), literals })
    }

    /// By the usual names only.
    pub fn by_name() -> Self {
        Self { names: Arc::default(), literals: Arc::default() }
    }

    /// Also what this request shows under secret names: servers repeat it in
    /// their answers.
    pub(crate) fn and_shown(&self, headers: &[(&str, &[u8])]) -> Self {
        let is_secret = |name: &str| self.names.is_secret_header(&name.to_ascii_lowercase());
        let shown = headers.iter().filter(|(name, _)| is_secret(name));
        let words = shown.flat_map(|(_, value)| value.split(|byte| b" ;,".contains(byte)));
        let secrets: Vec<Secret> =
            words.filter(|word| word.len() >= SHORTEST_SHOWN).map(Secret::new).collect();
        if secrets.is_empty() {
            return self.clone();
        }
        Self { names: self.names.clone(), literals: Arc::new(self.literals.and(&secrets)) }
    }

    pub(crate) fn stream(&self) -> Stream {
        Stream::new(self.literals.clone())
    }

    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let edits = self.literals.edits(text.as_bytes());
        if edits.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(String::from_utf8_lossy(&edits.apply(text.as_bytes())).into_owned())
    }

    pub(crate) fn query(&self, query: &str) -> String {
        let by_name = self.names.in_parameters(query.as_bytes()).apply(query.as_bytes());
        self.text(&String::from_utf8_lossy(&by_name)).into_owned()
    }

    /// None for a header whose very name holds a secret.
    pub(crate) fn header(&self, name: &str, value: &[u8]) -> Option<(String, String)> {
        let name = name.to_ascii_lowercase();
        if !self.literals.edits(name.as_bytes()).is_empty() {
            return None;
        }
        let by_name = match name.as_str() {
            "set-cookie" => names::in_set_cookie(value),
            "location" | "content-location" | "referer" | "link" | "refresh" => {
                self.names.in_links(value).apply(value)
            }
            _ if self.names.is_secret_header(&name) => PLACEHOLDER.into(),
            _ => value.to_vec(),
        };
        let value = self.literals.edits(&by_name).apply(&by_name);
        // Each byte as the character of its number: nothing is lost.
        Some((name, value.into_iter().map(char::from).collect()))
    }

    /// The body without secrets, and where its pieces end now: `ends` are
    /// offsets into it.
    pub(crate) fn body(&self, form: Form, content: Vec<u8>, ends: &mut [usize]) -> Vec<u8> {
        let edits = match form {
            Form::Parameters => self.names.in_parameters(&content),
            Form::Json | Form::Lines => self.names.in_links(&content),
            Form::Opaque => Edits::default(),
        };
        let content = edits.apply_to(content, ends);
        let edits = match form {
            Form::Opaque => Edits::default(),
            // What a program calls a form is often JSON.
            Form::Parameters | Form::Json | Form::Lines => self.names.in_json(&content),
        };
        let content = edits.apply_to(content, ends);
        self.literals.edits(&content).apply_to(content, ends)
    }
}

#[cfg(test)]
mod tests;
