//! JSON as it stands: a flat list of nodes, each with its place in the bytes.
//!
//! What goes through the gateway is edited by cutting and inserting bytes, so
//! that everything else, known to us or not, arrives exactly as it was sent. A
//! tree of values would have to be written again; this is read once, without
//! copies, and costs 16 bytes a node.
//!
//! Reading is strict, because the upstream must understand the text as we do: no
//! object has the same key twice (escapes are looked through), nothing stands
//! outside the value, text is UTF-8, and depth is bounded.

mod edit;
mod read;
#[cfg(test)]
mod tests;
mod text;

pub use edit::{Edits, ObjectEdit, quote};
pub use read::{Malformed, Reader};

use std::borrow::Cow;
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    True,
    False,
    Number,
    String,
    Array,
    Object,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    start: u32,
    end: u32,
    /// The node after this one and all that is in it.
    next: u32,
    kind: Kind,
    /// Strings only: there is a backslash in it.
    escaped: bool,
}

/// One value, where it stands.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    bytes: &'a [u8],
    nodes: &'a [Node],
    at: usize,
}

/// A key is spelled in a way that some readers take for another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is spelled in an ambiguous way")]
pub struct Misspelled(pub &'static str);

#[expect(
    clippy::indexing_slicing,
    reason = "a value is made by the reader: its place is in the list, and its span in the text"
)]
impl<'a> Value<'a> {
    fn node(&self) -> Node {
        self.nodes[self.at]
    }

    pub fn kind(&self) -> Kind {
        self.node().kind
    }

    pub fn span(&self) -> Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// The bytes of the value, quotes and brackets included.
    pub fn raw(&self) -> &'a [u8] {
        &self.bytes[self.span()]
    }

    /// The whole text that this is a part of.
    pub fn text(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    pub fn bool(&self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    /// A number without sign, fraction or exponent.
    pub fn u64(&self) -> Option<u64> {
        if self.kind() != Kind::Number {
            return None;
        }
        std::str::from_utf8(self.raw()).ok()?.parse().ok()
    }

    /// A string in UTF-8, its escapes resolved. Half of a surrogate pair, which some
    /// clients send, becomes U+FFFD.
    pub fn str(&self) -> Option<Cow<'a, str>> {
        let node = self.node();
        if node.kind != Kind::String {
            return None;
        }
        let inner = &self.bytes[node.start as usize + 1..node.end as usize - 1];
        if node.escaped {
            return Some(Cow::Owned(text::resolve(inner)));
        }
        std::str::from_utf8(inner).ok().map(Cow::Borrowed)
    }

    /// A string's bytes, for comparing with many words; empty for other values.
    pub fn word(&self) -> Cow<'a, [u8]> {
        let node = self.node();
        match node.kind {
            Kind::String if node.escaped => {
                Cow::Owned(self.str().unwrap_or_default().into_owned().into_bytes())
            }
            Kind::String => {
                Cow::Borrowed(&self.bytes[node.start as usize + 1..node.end as usize - 1])
            }
            _ => Cow::Borrowed(&[]),
        }
    }

    /// How long a string is in the text, without its quotes; 0 for other values.
    pub fn str_len(&self) -> u64 {
        match self.kind() {
            Kind::String => (self.span().len() as u64).saturating_sub(2),
            _ => 0,
        }
    }

    /// Whether this is the string `text`.
    pub fn is(&self, text: &str) -> bool {
        let node = self.node();
        node.kind == Kind::String
            && if node.escaped {
                self.str().is_some_and(|own| own == text)
            } else {
                &self.bytes[node.start as usize + 1..node.end as usize - 1] == text.as_bytes()
            }
    }

    /// Whether this is the string `text`, in upper or lower case.
    pub fn is_like(&self, text: &str) -> bool {
        let node = self.node();
        // Without escapes a string is as long as its text.
        node.kind == Kind::String
            && (node.escaped || (node.end - node.start) as usize == text.len() + 2)
            && self.str().is_some_and(|own| own.eq_ignore_ascii_case(text))
    }

    /// The member of an object with exactly this key.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.members().find(|(name, _)| name.is(key)).map(|(_, value)| value)
    }

    /// The member with this key, and none whose key differs in case only: some
    /// upstreams would read that one.
    pub fn spelled(&self, key: &'static str) -> Result<Option<Value<'a>>, Misspelled> {
        let mut found = None;
        for (name, value) in self.members() {
            if name.is(key) {
                found = Some(value);
            } else if name.is_like(key) {
                return Err(Misspelled(key));
            }
        }
        Ok(found)
    }

    /// Follows keys down.
    pub fn at(&self, path: &[&str]) -> Option<Value<'a>> {
        path.iter().try_fold(*self, |value, key| value.get(key))
    }

    /// Keys and values of an object; nothing for other values.
    pub fn members(&self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> + use<'a> {
        let Self { bytes, nodes, at } = *self;
        let node = nodes[at];
        let end = if node.kind == Kind::Object { node.next as usize } else { 0 };
        let mut at = at + 1;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let key = Value { bytes, nodes, at };
            let value = Value { bytes, nodes, at: at + 1 };
            at = nodes[at + 1].next as usize;
            Some((key, value))
        })
    }

    /// Items of an array; nothing for other values.
    pub fn items(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let Self { bytes, nodes, at } = *self;
        let node = nodes[at];
        let end = if node.kind == Kind::Array { node.next as usize } else { 0 };
        let mut at = at + 1;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let item = Value { bytes, nodes, at };
            at = nodes[at].next as usize;
            Some(item)
        })
    }

    /// Every object at or below this value.
    pub fn objects(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let Self { bytes, nodes, at } = *self;
        (at..nodes[at].next as usize)
            .filter(move |&at| nodes[at].kind == Kind::Object)
            .map(move |at| Value { bytes, nodes, at })
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.raw()))
    }
}
