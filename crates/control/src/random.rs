//! Numbers for choosing among equals; not for secrets.

/// The same numbers for the same seed, so that a run can be played again.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Sebastiano Vigna's SplitMix64.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// At least 0 and below `end`; 0 if that is nothing.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.draw()) * (end as u128);
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

/// Bits that nobody can guess, for ids.
pub(crate) fn bits() -> std::io::Result<[u8; 16]> {
    use std::io::Read as _;
    let mut bits = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bits)?;
    Ok(bits)
}
