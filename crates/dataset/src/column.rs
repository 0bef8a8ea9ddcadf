//! All scalar values of one path, summed up in bounded memory.
//!
//! While there are few different values, each is kept with its count, and a
//! value that was seen before costs one look-up. Once there are too many for an
//! enum, they go into sketches, and so does everything that follows.
//!
//! Columns of consecutive parts of a file merge into the column of the whole.

mod few;
mod many;
mod order;

pub(crate) use few::Few;
pub(crate) use many::{Dates, Many};

use crate::date::Date;
use crate::hash;
use crate::number::Number;
use order::Order;

/// How many sketches a file may still make: hostile files have many paths.
pub(crate) type Budget = u32;

/// How many values are kept to be shown.
const SAMPLES: usize = 3;
/// How much of each.
const SAMPLE_BYTES: usize = 160;

/// One scalar, as it passes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(Text<'a>),
    /// With the digits that were written.
    Number(Number, &'a [u8]),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    /// The beginning, or all of it; without escapes if it is all.
    pub(crate) head: &'a [u8],
    pub(crate) chars: u64,
    pub(crate) is_whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Int,
    Float,
}

impl<'a> Value<'a> {
    pub(crate) fn text(bytes: &'a [u8]) -> Self {
        let chars = bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u64;
        Self::Text(Text { head: bytes, chars, is_whole: true })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Text(_) => Kind::Text,
            Self::Number(Number::Int(_) | Number::Large(_), _) => Kind::Int,
            Self::Number(Number::Float(_), _) => Kind::Float,
        }
    }

    pub(crate) fn shown(&self) -> &'a [u8] {
        match *self {
            Self::Text(text) => text.head,
            Self::Number(_, digits) => digits,
        }
    }

    /// The same for a number and for a text of its digits: relationships look
    /// for values, and warn about types.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        match *self {
            Self::Text(text) if text.is_whole => hash::of(text.head),
            Self::Text(text) => hash::pair(hash::of(text.head), text.chars),
            Self::Number(Number::Int(_) | Number::Large(_), digits) => hash::of(digits),
            // `2.0` refers to what `2` refers to: tables with gaps turn into floats.
            Self::Number(Number::Float(value), digits) => match digits.strip_suffix(b".0") {
                Some(whole) => hash::of(whole),
                None => hash::of_float(value),
            },
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Column {
    state: State,
    order: Order,
}

#[derive(Debug, Clone)]
enum State {
    Few(Few),
    Many(Box<Many>),
}

impl Default for State {
    fn default() -> Self {
        Self::Few(Few::default())
    }
}

impl Column {
    #[inline]
    pub(crate) fn add(&mut self, value: Value<'_>, times: u64, budget: &mut Budget) {
        let hash = value.hash();
        self.order.follow(&value);
        if times > 1 {
            self.order.follow(&value);
        }
        match &mut self.state {
            State::Few(few) => {
                if !few.add(&value, hash, times) {
                    self.spill(budget).add(&value, hash, times);
                }
            }
            State::Many(many) => many.add(&value, hash, times),
        }
    }

    #[cold]
    fn spill(&mut self, budget: &mut Budget) -> &mut Many {
        if let State::Few(few) = &self.state {
            let mut many = Many::new(*budget > 0);
            *budget = budget.saturating_sub(1);
            few.pour(&mut many);
            self.state = State::Many(Box::new(many));
        }
        match &mut self.state {
            State::Many(many) => many,
            State::Few(_) => unreachable!("it has just been spilled"),
        }
    }

    /// Adds what followed in the file.
    pub(crate) fn merge(&mut self, later: &Self, budget: &mut Budget) {
        self.order.merge(&later.order);
        match (&mut self.state, &later.state) {
            (State::Few(few), State::Few(other)) => {
                if !few.merge(other) {
                    other.pour(self.spill(budget));
                }
            }
            (State::Many(many), State::Few(other)) => other.pour(many),
            (_, State::Many(other)) => self.spill(budget).merge(other),
        }
    }

    /// The values with their counts, while there are few.
    pub(crate) fn few(&self) -> Option<&Few> {
        match &self.state {
            State::Few(few) => Some(few),
            State::Many(_) => None,
        }
    }

    /// Everything that sketches tell, however many values there are.
    pub(crate) fn many(&self) -> std::borrow::Cow<'_, Many> {
        match &self.state {
            State::Many(many) => std::borrow::Cow::Borrowed(many),
            State::Few(few) => {
                let mut many = Many::new(true);
                few.pour(&mut many);
                std::borrow::Cow::Owned(many)
            }
        }
    }

    /// Whether each value was larger than the one before: then all differ.
    pub(crate) fn is_ascending(&self) -> bool {
        self.order.is_strict()
    }
}
