//! What a call said, bounded: its beginning, its end, and how much was between.

use std::collections::VecDeque;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// One thing that a call said.
pub trait Piece: Clone + Send + Sync + 'static {
    fn amount(&self) -> Amount;

    /// Whether it stays when all else is let go: what the call was called, and
    /// how it ended.
    fn is_essential(&self) -> bool;

    /// Whether nothing follows.
    fn is_last(&self) -> bool;
}

/// Bytes that were said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    pub stdout: u64,
    pub stderr: u64,
    /// Of displays, results and errors.
    pub shown: u64,
}

/// The most that is kept of the beginning of one call.
pub(super) const HEAD: u64 = 512 << 10;

/// The most that is kept of its end.
pub(super) const TAIL: u64 = 1 << 20;

/// What a piece costs besides its bytes: many small ones must not be free.
const OVERHEAD: u64 = 96;

/// A piece, its place among all pieces, and what was said before it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stored<T> {
    pub(super) number: u64,
    pub(super) before: Amount,
    pub(super) piece: T,
}

/// Invariant: numbers rise from the first of `head` to the last of `tail`; those
/// that are missing were let go.
#[derive(Debug)]
pub(super) struct Log<T> {
    head: Vec<Stored<T>>,
    tail: VecDeque<Stored<T>>,
    head_weight: u64,
    tail_weight: u64,
    /// Everything, also what was let go.
    said: Amount,
    next: u64,
    is_over: bool,
}

impl Amount {
    pub fn total(self) -> u64 {
        self.stdout + self.stderr + self.shown
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            stdout: self.stdout + other.stdout,
            stderr: self.stderr + other.stderr,
            shown: self.shown + other.shown,
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            stdout: self.stdout - earlier.stdout,
            stderr: self.stderr - earlier.stderr,
            shown: self.shown - earlier.shown,
        }
    }
}

/// What so many pieces of so many bytes cost.
pub(super) fn weight(bytes: Amount, pieces: u64) -> u64 {
    bytes.total() + pieces * OVERHEAD
}

impl<T: Piece> Default for Log<T> {
    fn default() -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_weight: 0,
            tail_weight: 0,
            said: Amount::default(),
            next: 0,
            is_over: false,
        }
    }
}

impl<T: Piece> Log<T> {
    pub(super) fn push(&mut self, piece: T) {
        let amount = piece.amount();
        let weight = weight(amount, 1);
        self.is_over |= piece.is_last();
        let stored = Stored { number: self.next, before: self.said, piece };
        self.said += amount;
        self.next += 1;
        if self.tail.is_empty() && self.head_weight + weight <= HEAD {
            self.head_weight += weight;
            self.head.push(stored);
        } else {
            self.tail_weight += weight;
            self.tail.push_back(stored);
        }
    }

    /// Lets go of what is too much, except for what somebody still reads: pieces
    /// from `needed` on. The newest always stays.
    pub(super) fn trim(&mut self, needed: u64) {
        while self.tail_weight > TAIL
            && self.tail.len() > 1
            && self.tail.front().is_some_and(|oldest| oldest.number < needed)
        {
            if let Some(oldest) = self.tail.pop_front() {
                self.tail_weight -= weight(oldest.piece.amount(), 1);
            }
        }
    }

    /// Lets go of everything but what is essential.
    pub(super) fn shed(&mut self) {
        self.head.retain(|stored| stored.piece.is_essential());
        self.tail.retain(|stored| stored.piece.is_essential());
        self.weigh();
    }

    fn weigh(&mut self) {
        let weigh = |stored: &Stored<T>| weight(stored.piece.amount(), 1);
        self.head_weight = self.head.iter().map(weigh).sum();
        self.tail_weight = self.tail.iter().map(weigh).sum();
    }

    /// The first piece that is left, from this one on.
    pub(super) fn first_from(&self, number: u64) -> Option<&Stored<T>> {
        let before = |stored: &Stored<T>| stored.number < number;
        let in_head = self.head.get(self.head.partition_point(before));
        in_head.or_else(|| self.tail.get(self.tail.partition_point(before)))
    }

    pub(super) fn said(&self) -> Amount {
        self.said
    }

    /// The number of the next piece.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What it costs to keep.
    pub(super) fn weight(&self) -> u64 {
        self.head_weight + self.tail_weight
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Stored<T>> {
        self.head.iter().chain(&self.tail)
    }

    /// As it was written down; `last` is said if it had not come to its end.
    pub(super) fn restored(pieces: Vec<Stored<T>>, said: Amount, next: u64, last: T) -> Self {
        let is_over = pieces.last().is_some_and(|stored| stored.piece.is_last());
        let mut log = Self { tail: pieces.into(), said, next, is_over, ..Self::default() };
        log.weigh();
        if !is_over {
            log.push(last);
        }
        log
    }
}
