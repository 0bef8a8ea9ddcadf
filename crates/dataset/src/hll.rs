//! How many different values there were: HyperLogLog, 1 KiB, ±3.3 %.

const BITS: u32 = 10;
const REGISTERS: usize = 1 << BITS;

#[derive(Debug, Clone)]
pub(crate) struct Hll(Box<[u8; REGISTERS]>);

impl Hll {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; REGISTERS]))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "ten bits, and at most 55")]
    pub(crate) fn add(&mut self, hash: u64) {
        let register = (hash >> (64 - BITS)) as usize;
        let rank = ((hash << BITS) | (1 << (BITS - 1))).leading_zeros() as u8 + 1;
        let kept = &mut self.0[register];
        if rank > *kept {
            *kept = rank;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0.iter()) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Flajolet and others, with linear counting where registers are empty.
    #[expect(clippy::cast_possible_truncation, reason = "counts are far below 2^52")]
    #[expect(clippy::cast_sign_loss, reason = "an estimate is positive")]
    pub(crate) fn estimate(&self) -> u64 {
        let count = REGISTERS as f64;
        let alpha = 0.7213 / (1.0 + 1.079 / count);
        let sum: f64 = self.0.iter().map(|&rank| (-f64::from(rank)).exp2()).sum();
        let raw = alpha * count * count / sum;
        let empty = self.0.iter().filter(|&&rank| rank == 0).count();
        if raw <= 2.5 * count && empty > 0 {
            return (count * (count / empty as f64).ln()).round() as u64;
        }
        raw.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;

    #[test]
    fn estimates_stay_within_ten_percent_and_halves_merge_into_the_whole() {
        for size in [30u64, 1_000, 5_000, 200_000] {
            let (mut even, mut odd, mut whole) = (Hll::new(), Hll::new(), Hll::new());
            for n in 0..size {
                let hash = hash::of(n.to_string().as_bytes());
                whole.add(hash);
                if n % 2 == 0 { even.add(hash) } else { odd.add(hash) }
            }
            even.merge(&odd);
            assert_eq!(even.estimate(), whole.estimate());
            let off = whole.estimate().abs_diff(size);
            assert!(off * 10 <= size, "{size}: {}", whole.estimate());
        }
    }
}
