//! Made-up bytes for tests: the same ones each time.

/// A generator of numbers without a pattern that a parser could share.
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

/// One of `seeds`, changed in a few places: bytes replaced, inserted, removed,
/// or a piece of another one put in; `spice` is what the parser has rules about.
pub(crate) fn mutate(numbers: &mut Numbers, seeds: &[Vec<u8>], spice: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        let byte = u8::try_from(numbers.below(256)).unwrap();
        match numbers.below(6) {
            0 if at < bytes.len() => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            4 => {
                let other = &seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len() + 1);
                let until = from + numbers.below(other.len() - from + 1);
                bytes.splice(at..at, other[from..until].iter().copied());
            }
            _ => {
                let piece = spice[numbers.below(spice.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
    bytes
}

/// All ways to cut `bytes` in two, and single bytes.
pub(crate) fn splits(bytes: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let halves = (0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]);
    halves.chain([bytes.chunks(1).collect(), bytes.chunks(3).collect()])
}
