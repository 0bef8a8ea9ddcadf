//! The values with the smallest hashes: a sample of the *different* values that
//! does not depend on order, repetition, or how the data was cut.
//!
//! Two columns that share values share them here, too: that is how candidates
//! for relationships are found without comparing whole columns.

/// How many hashes are kept.
pub(crate) const HASHES: usize = 256;
/// Of how many of these the text is kept as well.
pub(crate) const TEXTS: usize = 64;
/// Longer texts are cut: they tell no pattern.
const LONGEST: usize = 64;

#[derive(Debug, Clone, Default)]
pub(crate) struct Bottom {
    /// Ascending.
    hashes: Vec<u64>,
    /// Ascending by hash; those of the first hashes.
    texts: Vec<(u64, Box<[u8]>)>,
}

impl Bottom {
    #[inline]
    pub(crate) fn add(&mut self, hash: u64, text: &[u8]) {
        if self.hashes.len() == HASHES && self.hashes[HASHES - 1] <= hash {
            return;
        }
        self.insert(hash, text);
    }

    #[cold]
    fn insert(&mut self, hash: u64, text: &[u8]) {
        let Err(at) = self.hashes.binary_search(&hash) else { return };
        self.hashes.truncate(HASHES - 1);
        self.hashes.insert(at, hash);
        if at < TEXTS {
            self.texts.truncate(TEXTS - 1);
            self.texts
                .insert(at.min(self.texts.len()), (hash, text[..text.len().min(LONGEST)].into()));
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for &hash in &other.hashes {
            let known = other.texts.binary_search_by_key(&hash, |(hash, _)| *hash);
            self.add(hash, known.map_or(&[], |at| &other.texts[at].1));
        }
    }

    /// Whether every value that there was is here.
    pub(crate) fn is_whole(&self) -> bool {
        self.hashes.len() < HASHES
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// A sample of the different values, the same for the same data.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.texts.iter().map(|(_, text)| &**text)
    }

    /// Of those values here about which the other one can tell anything: how
    /// many there are, and how many it has as well.
    pub(crate) fn shared_with(&self, other: &Self) -> (usize, usize) {
        let bound = if other.is_whole() { u64::MAX } else { other.hashes[HASHES - 1] };
        let told = self.hashes.partition_point(|&hash| hash <= bound);
        let both = self.hashes[..told].iter().filter(|h| other.hashes.binary_search(h).is_ok());
        (told, both.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;

    fn of(range: std::ops::Range<u32>) -> Bottom {
        let mut bottom = Bottom::default();
        for n in range {
            let text = n.to_string();
            bottom.add(hash::of(text.as_bytes()), text.as_bytes());
        }
        bottom
    }

    #[test]
    fn parts_merge_into_the_whole() {
        let whole = of(0..9000);
        let mut parts = of(5000..9000);
        parts.merge(&of(0..3000));
        parts.merge(&of(2000..5000));
        assert_eq!(parts.hashes, whole.hashes);
        assert_eq!(parts.texts, whole.texts);
    }

    #[test]
    fn what_is_shared_shows() {
        let (told, both) = of(0..1000).shared_with(&of(0..100_000));
        assert_eq!(told, both);
        let (told, both) = of(0..4000).shared_with(&of(2000..6000));
        assert!(told > 100 && both * 10 > told * 4 && both * 10 < told * 6, "{both} of {told}");
        assert_eq!(of(0..100).shared_with(&of(100..200)).1, 0);
    }
}
