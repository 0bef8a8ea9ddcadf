//! Changes to a text, byte ranges at a time.

use std::ops::Range;

use super::Value;

/// Ranges to be replaced; they never overlap.
#[derive(Debug, Default)]
pub struct Edits {
    list: Vec<(Range<usize>, Vec<u8>)>,
}

impl Edits {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn replace(&mut self, range: Range<usize>, with: impl Into<Vec<u8>>) {
        self.list.push((range, with.into()));
    }

    /// Takes members or items out of a container, with their commas. `children`
    /// are all of them in order, and whether each one stays.
    fn remove(&mut self, children: &[(Range<usize>, bool)]) {
        // Where the one before ends, once one has stayed.
        let mut before = None;
        for (nth, (range, stays)) in children.iter().enumerate() {
            match before {
                _ if *stays => before = Some(range.end),
                Some(end) => {
                    self.replace(end..range.end, []);
                    before = Some(range.end);
                }
                None => {
                    let end = children.get(nth + 1).map_or(range.end, |(next, _)| next.start);
                    self.replace(range.start..end, []);
                }
            }
        }
    }

    /// Takes those items out of an array that `is_removed` says.
    pub fn remove_items(&mut self, array: Value<'_>, is_removed: impl Fn(Value<'_>) -> bool) {
        let children: Vec<_> = array.items().map(|item| (item.span(), !is_removed(item))).collect();
        self.remove(&children);
    }

    pub fn apply(mut self, bytes: &[u8]) -> Vec<u8> {
        self.list.sort_by_key(|(range, _)| (range.start, range.end));
        let added: usize = self.list.iter().map(|(_, with)| with.len()).sum();
        let mut out = Vec::with_capacity(bytes.len() + added);
        let mut at = 0;
        for (range, with) in self.list {
            debug_assert!(at <= range.start, "edits overlap");
            out.extend_from_slice(bytes.get(at..range.start).unwrap_or_default());
            out.extend_from_slice(&with);
            at = range.end;
        }
        out.extend_from_slice(bytes.get(at..).unwrap_or_default());
        out
    }
}

/// Changes to the members of one object.
#[derive(Debug)]
pub struct ObjectEdit<'a> {
    object: Value<'a>,
    set: Vec<(String, Vec<u8>)>,
    removed: Vec<String>,
}

impl<'a> ObjectEdit<'a> {
    pub fn new(object: Value<'a>) -> Self {
        Self { object, set: vec![], removed: vec![] }
    }

    /// The member has this value afterwards, whether it was there or not.
    pub fn set(&mut self, key: &str, json: impl Into<Vec<u8>>) {
        self.removed.retain(|removed| removed != key);
        self.set.retain(|(set, _)| set != key);
        self.set.push((key.to_owned(), json.into()));
    }

    pub fn remove(&mut self, key: &str) {
        self.set.retain(|(set, _)| set != key);
        self.removed.push(key.to_owned());
    }

    pub fn finish(self, edits: &mut Edits) {
        let is_removed = |key: Value<'_>| self.removed.iter().any(|removed| key.is(removed));
        let children: Vec<_> = self
            .object
            .members()
            .map(|(key, value)| (key.span().start..value.span().end, !is_removed(key)))
            .collect();
        edits.remove(&children);
        let mut added = Vec::new();
        for (key, json) in self.set {
            if let Some(value) = self.object.get(&key) {
                edits.replace(value.span(), json);
            } else {
                if !added.is_empty() {
                    added.push(b',');
                }
                added.extend_from_slice(quote(&key).as_bytes());
                added.push(b':');
                added.extend_from_slice(&json);
            }
        }
        if !added.is_empty() {
            if children.iter().any(|(_, stays)| *stays) {
                added.push(b',');
            }
            let front = self.object.span().start + 1;
            edits.replace(front..front, added);
        }
    }
}

/// `text` as JSON.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
