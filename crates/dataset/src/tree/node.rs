//! One path: how often which type was there, and what the scalars were.

use std::collections::HashMap;

use super::{Id, Spelling};
use crate::column::{Column, Kind, Value};

/// The key of the one child that stands for all keys of a dictionary.
pub(crate) const ANY_KEY: &[u8] = b"<key>";

#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) key: Box<[u8]>,
    pub(crate) counts: Counts,
    pub(crate) column: Column,
    /// Of arrays.
    pub(crate) lengths: Lengths,
    pub(crate) item: Option<Id>,
    /// In the order in which their keys came.
    pub(crate) children: Vec<Id>,
    /// How the keys of the children are spelled; empty for a dictionary.
    pub(crate) spellings: Vec<Spelling>,
    pub(crate) by_key: Option<HashMap<Box<[u8]>, usize>>,
    /// The keys of a dictionary, which has one child only.
    pub(crate) keys: Option<Box<Column>>,
    /// The object in which this key stood last.
    pub(crate) object: u64,
    /// The type that the file's own schema gives it.
    pub(crate) stored_as: Option<Box<str>>,
    /// Whether numbers of it are written with a decimal comma.
    pub(crate) has_commas: bool,
    /// How many keys found no room here.
    pub(crate) refused: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) nulls: u64,
    pub(crate) falses: u64,
    pub(crate) trues: u64,
    pub(crate) ints: u64,
    pub(crate) floats: u64,
    /// NaN and the infinities, which JSON does not have, and numbers too large.
    pub(crate) not_finite: u64,
    pub(crate) texts: u64,
    pub(crate) arrays: u64,
    pub(crate) objects: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) shortest: u64,
    pub(crate) longest: u64,
    pub(crate) sum: u64,
    pub(crate) count: u64,
}

impl Counts {
    #[inline]
    pub(crate) fn add(&mut self, value: &Value<'_>) {
        match value.kind() {
            Kind::Text => self.texts += 1,
            Kind::Int => self.ints += 1,
            Kind::Float => self.floats += 1,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.scalars() + self.nulls + self.arrays + self.objects
    }

    /// Without nulls.
    pub(crate) fn scalars(&self) -> u64 {
        self.falses + self.trues + self.ints + self.floats + self.not_finite + self.texts
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.nulls += other.nulls;
        self.falses += other.falses;
        self.trues += other.trues;
        self.ints += other.ints;
        self.floats += other.floats;
        self.not_finite += other.not_finite;
        self.texts += other.texts;
        self.arrays += other.arrays;
        self.objects += other.objects;
    }

    /// One bit for each kind of value that was there.
    pub(crate) fn kinds(&self) -> u8 {
        let numbers = self.ints + self.floats + self.not_finite;
        [self.falses + self.trues, numbers, self.texts, self.arrays, self.objects]
            .iter()
            .enumerate()
            .fold(0, |bits, (bit, &count)| bits | u8::from(count > 0) << bit)
    }
}

impl Lengths {
    pub(crate) fn add(&mut self, length: u64) {
        self.merge(&Self { shortest: length, longest: length, sum: length, count: 1 });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
        self.sum += other.sum;
        self.count += other.count;
    }
}
