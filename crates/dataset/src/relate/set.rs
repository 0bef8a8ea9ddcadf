//! Sets of hashes, as small as sets of hashes are.

#[derive(Debug, Default)]
pub(crate) struct Hashes {
    /// A table that is at most three quarters full; 0 is free.
    table: Vec<u64>,
    len: usize,
}

impl Hashes {
    /// Whether it was new.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64) -> bool {
        if 4 * (self.len + 1) > 3 * self.table.len() {
            self.grow();
        }
        // The one hash that means "free" shares its place with another one.
        let hash = hash.max(1);
        let mut at = self.place(hash);
        while self.table[at] != 0 {
            if self.table[at] == hash {
                return false;
            }
            at = (at + 1) & (self.table.len() - 1);
        }
        self.table[at] = hash;
        self.len += 1;
        true
    }

    fn grow(&mut self) {
        let size = (2 * self.table.len()).max(64);
        let old = std::mem::replace(&mut self.table, vec![0; size]);
        self.len = 0;
        for hash in old.into_iter().filter(|&hash| hash != 0) {
            self.insert(hash);
        }
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> 17) as usize & (self.table.len() - 1)
    }

    /// A number below [`Hashes::places`] if it is in.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Option<usize> {
        if self.table.is_empty() {
            return None;
        }
        let hash = hash.max(1);
        let mut at = self.place(hash);
        loop {
            match self.table[at] {
                0 => return None,
                kept if kept == hash => return Some(at),
                _ => at = (at + 1) & (self.table.len() - 1),
            }
        }
    }

    pub(crate) fn places(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Which members of a set were met.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    bits: Vec<u64>,
    count: u64,
}

impl Marks {
    pub(crate) fn new(places: usize) -> Self {
        Self { bits: vec![0; places.div_ceil(64)], count: 0 }
    }

    #[inline]
    pub(crate) fn set(&mut self, place: usize) {
        let (word, bit) = (&mut self.bits[place / 64], 1 << (place % 64));
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;

    #[test]
    fn what_was_put_in_is_found_once_and_nothing_else_is() {
        let of = |n: u32| hash::of(n.to_string().as_bytes());
        let mut set = Hashes::default();
        assert!((0..50_000).all(|n| set.insert(of(n))));
        assert!((0..50_000).all(|n| !set.insert(of(n))));
        assert_eq!(set.len(), 50_000);
        let mut marks = Marks::new(set.places());
        for n in (0..50_000).step_by(2).chain(0..10) {
            marks.set(set.find(of(n)).unwrap());
        }
        assert_eq!(marks.count(), 25_005);
        assert!((50_000..90_000).all(|n| set.find(of(n)).is_none()));
    }
}
