//! Quantiles of numbers: how many fall between two neighbouring short floats.
//!
//! A bucket is the beginning of a number's bits: sign, exponent and a few bits
//! of the mantissa. When there are too many buckets, neighbours are joined.
//! What comes out depends on the numbers alone, not on their order, nor on how
//! the data was cut.

/// How many buckets there may be.
const MOST: usize = 512;
/// Bits of the mantissa at first: neighbours differ by 0.8 %, and integers up
/// to 256 are told exactly.
const FINEST: u32 = 7;

#[derive(Debug, Clone)]
pub(crate) struct Quantiles {
    /// A table that is at most half full; 0 is free, a key is kept plus one.
    keys: Vec<u32>,
    counts: Vec<u64>,
    used: usize,
    /// How many of a key's lowest bits are gone.
    joined: u32,
}

impl Quantiles {
    pub(crate) fn new() -> Self {
        Self { keys: vec![0; 16], counts: vec![0; 16], used: 0, joined: 0 }
    }

    /// Keys ascend as numbers do.
    #[inline]
    fn key(value: f64) -> u32 {
        let bits = value.to_bits();
        let short = (bits >> (52 - FINEST)) as u32;
        let sign = 1 << (11 + FINEST);
        if short & sign == 0 { short | sign } else { !short & (sign | (sign - 1)) }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: f64, weight: u64) {
        self.put(Self::key(value) >> self.joined, weight);
    }

    #[inline]
    fn put(&mut self, key: u32, weight: u64) {
        let mask = self.keys.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b1) >> 16) as usize & mask;
        loop {
            match self.keys[at] {
                kept if kept == key + 1 => break self.counts[at] += weight,
                0 => {
                    self.keys[at] = key + 1;
                    self.counts[at] = weight;
                    self.used += 1;
                    break self.make_room();
                }
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn make_room(&mut self) {
        if self.used > MOST {
            self.joined += 1;
            self.rebuild(self.keys.len(), 1);
        } else if 2 * self.used > self.keys.len() {
            self.rebuild(2 * self.keys.len(), 0);
        }
    }

    fn rebuild(&mut self, size: usize, shift: u32) {
        let keys = std::mem::replace(&mut self.keys, vec![0; size]);
        let counts = std::mem::replace(&mut self.counts, vec![0; size]);
        self.used = 0;
        for (key, count) in keys.into_iter().zip(counts).filter(|(key, _)| *key > 0) {
            self.put((key - 1) >> shift, count);
        }
    }

    /// Ascending.
    fn buckets(&self) -> Vec<(u32, u64)> {
        let filled = self.keys.iter().zip(&self.counts).filter(|(key, _)| **key > 0);
        let mut buckets: Vec<_> = filled.map(|(key, count)| (key - 1, *count)).collect();
        buckets.sort_unstable();
        buckets
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        while self.joined < other.joined {
            self.joined += 1;
            self.rebuild(self.keys.len(), 1);
        }
        for (key, count) in other.buckets() {
            // Putting may join: look again each time.
            self.put(key >> (self.joined - other.joined), count);
        }
    }

    /// The number below which `share` of all are, between the smallest and the
    /// largest; the middle of its bucket.
    #[expect(clippy::cast_possible_truncation, reason = "at most the count")]
    #[expect(clippy::cast_sign_loss, reason = "a share is positive")]
    pub(crate) fn at(&self, share: f64, min: f64, max: f64) -> f64 {
        let buckets = self.buckets();
        let total: u64 = buckets.iter().map(|bucket| bucket.1).sum();
        let wanted = ((total as f64) * share).ceil().max(1.0) as u64;
        let mut before = 0;
        for (key, count) in buckets {
            before += count;
            if before >= wanted {
                return self.middle(key).clamp(min, max);
            }
        }
        max
    }

    /// Half-way between the bounds of a bucket; its lower bound if that is an
    /// integer that the bucket tells exactly.
    fn middle(&self, key: u32) -> f64 {
        let bound = |key: u32| {
            let sign = 1 << (11 + FINEST);
            let short = if key & sign == 0 { !key & (sign | (sign - 1)) } else { key & (sign - 1) };
            f64::from_bits(u64::from(short) << (52 - FINEST))
        };
        let (low, high) = (bound(key << self.joined), bound((key + 1) << self.joined));
        if low.is_finite() && high.is_finite() {
            let (small, large) = if low < 0.0 { (high, low) } else { (low, high) };
            if (large - small).abs() <= 1.0 && low.fract() == 0.0 {
                return low;
            }
            return low + (high - low) / 2.0;
        }
        if low.is_finite() { low } else { high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl Iterator<Item = f64>) -> Quantiles {
        let mut quantiles = Quantiles::new();
        values.for_each(|value| quantiles.add(value, 1));
        quantiles
    }

    #[test]
    fn small_integers_are_told_exactly() {
        let quantiles = of((0..=200).map(f64::from));
        for share in [0.05, 0.25, 0.5, 0.95] {
            assert_eq!(quantiles.at(share, 0.0, 200.0), (201.0 * share).ceil() - 1.0, "{share}");
        }
    }

    #[test]
    fn other_numbers_are_told_within_a_few_percent() {
        let values = |n: i32| f64::from(n) * 1.37 - 500_000.0;
        let quantiles = of((0..1_000_000).map(values));
        for share in [0.01, 0.25, 0.5, 0.75, 0.99] {
            let want = 1_370_000.0 * share - 500_000.0;
            let got = quantiles.at(share, -500_000.0, 870_000.0);
            assert!((got - want).abs() <= want.abs() * 0.05 + 1.0, "{share}: {got} for {want}");
        }
    }

    #[test]
    fn order_and_cuts_do_not_matter() {
        let values: Vec<f64> =
            (0..40_000).map(|n| f64::from((n * 7919) % 40_009).exp2().sqrt()).collect();
        let whole = of(values.iter().copied());
        let mut parts = of(values[25_000..].iter().copied());
        parts.merge(&of(values[..25_000].iter().rev().copied()));
        assert_eq!((parts.buckets(), parts.joined), (whole.buckets(), whole.joined));
    }
}
