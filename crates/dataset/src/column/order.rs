//! Whether values only ever grew: the cheapest proof that all of them differ,
//! and true of most ids.

use std::cmp::Ordering;

use super::{Text, Value};
use crate::number::Number;

/// Longer texts prove nothing.
const LONGEST: usize = 40;

#[derive(Debug, Clone, Default)]
pub(crate) enum Order {
    #[default]
    Empty,
    Strict {
        first: Key,
        last: Key,
    },
    Broken,
}

/// Compared by length first, so that `deal_9` comes before `deal_10`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Key {
    Int(i128),
    Text([u8; LONGEST], usize),
}

impl Key {
    fn of(value: &Value<'_>) -> Option<Self> {
        match *value {
            Value::Number(Number::Int(int), _) => Some(Self::Int(int.into())),
            Value::Number(Number::Large(int), _) => Some(Self::Int(int.into())),
            Value::Text(Text { head, is_whole: true, .. }) if head.len() <= LONGEST => {
                let mut bytes = [0; LONGEST];
                bytes[..head.len()].copy_from_slice(head);
                Some(Self::Text(bytes, head.len()))
            }
            _ => None,
        }
    }

    fn is_below(&self, other: &Self) -> bool {
        let order = match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Text(a, a_len), Self::Text(b, b_len)) => a_len.cmp(b_len).then_with(|| a.cmp(b)),
            _ => Ordering::Greater,
        };
        order == Ordering::Less
    }
}

impl Order {
    #[inline]
    pub(crate) fn follow(&mut self, value: &Value<'_>) {
        if !matches!(self, Self::Broken) {
            self.step(value);
        }
    }

    fn step(&mut self, value: &Value<'_>) {
        *self = match (&self, Key::of(value)) {
            (Self::Empty, Some(key)) => Self::Strict { first: key, last: key },
            (Self::Strict { first, last }, Some(key)) if last.is_below(&key) => {
                Self::Strict { first: *first, last: key }
            }
            _ => Self::Broken,
        };
    }

    pub(crate) fn merge(&mut self, later: &Self) {
        *self = match (&self, later) {
            (Self::Empty, _) => later.clone(),
            (Self::Strict { .. }, Self::Empty) => return,
            (Self::Strict { first, last }, Self::Strict { first: next, last: end })
                if last.is_below(next) =>
            {
                Self::Strict { first: *first, last: *end }
            }
            _ => Self::Broken,
        };
    }

    pub(crate) fn is_strict(&self) -> bool {
        matches!(self, Self::Strict { .. })
    }
}
