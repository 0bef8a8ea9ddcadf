//! Each value with its count, up to as many as make an enum.

use super::{Kind, Many, Text, Value};
use crate::number::Number;

/// With more different values than this, it is no enum.
const MOST: usize = 24;
/// A longer text is none of an enum's.
const LONGEST: usize = 96;
const SLOTS: usize = 64;

#[derive(Debug, Clone, Default)]
pub(crate) struct Few {
    /// In the order in which they came.
    entries: Vec<Entry>,
    /// By the hash's lowest bits, one more than an entry's place; 0 is free.
    slots: Option<Box<[u8; SLOTS]>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    hash: u64,
    pub(crate) kind: Kind,
    pub(crate) text: Box<[u8]>,
    pub(crate) count: u64,
    number: Option<Number>,
    chars: u64,
}

impl Few {
    /// False if there is no room for it.
    #[inline]
    pub(crate) fn add(&mut self, value: &Value<'_>, hash: u64, weight: u64) -> bool {
        let kind = value.kind();
        if let Some(slots) = &self.slots {
            let mut at = place(hash);
            loop {
                match slots[at] {
                    0 => break,
                    number => {
                        let entry = &mut self.entries[usize::from(number) - 1];
                        if entry.hash == hash && entry.kind == kind {
                            entry.count += weight;
                            return true;
                        }
                    }
                }
                at = (at + 1) % SLOTS;
            }
        }
        self.insert(value, hash, weight)
    }

    #[cold]
    fn insert(&mut self, value: &Value<'_>, hash: u64, weight: u64) -> bool {
        let (number, chars) = match *value {
            Value::Text(Text { is_whole: false, .. }) => return false,
            Value::Text(text) => (None, text.chars),
            Value::Number(number, _) => (Some(number), 0),
        };
        let text = value.shown();
        if text.len() > LONGEST || self.entries.len() == MOST {
            return false;
        }
        let slots = self.slots.get_or_insert_with(|| Box::new([0; SLOTS]));
        let mut at = place(hash);
        while slots[at] != 0 {
            at = (at + 1) % SLOTS;
        }
        let kind = value.kind();
        self.entries.push(Entry { hash, kind, text: text.into(), count: weight, number, chars });
        slots[at] = u8::try_from(self.entries.len()).unwrap_or(u8::MAX);
        true
    }

    /// False if not all had room; then nothing was changed.
    pub(crate) fn merge(&mut self, other: &Self) -> bool {
        let mut merged = self.clone();
        let fits = other.entries.iter().all(|e| merged.add(&e.value(), e.hash, e.count));
        if fits {
            *self = merged;
        }
        fits
    }

    pub(crate) fn pour(&self, many: &mut Many) {
        for entry in &self.entries {
            many.add(&entry.value(), entry.hash, entry.count);
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Entry {
    fn value(&self) -> Value<'_> {
        match self.number {
            Some(number) => Value::Number(number, &self.text),
            None => Value::Text(Text { head: &self.text, chars: self.chars, is_whole: true }),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "six bits")]
fn place(hash: u64) -> usize {
    hash as usize % SLOTS
}
