//! Digests that a file can be trusted by.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// What the bytes of a file must hash to. Only hashes for which nobody knows two
/// files with the same value are here: MD5 and SHA-1 are no digests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Digest {
    Sha256([u8; 32]),
    Sha384([u8; 48]),
    Sha512([u8; 64]),
}

impl Digest {
    /// From the name that indexes use, and hexadecimal digits.
    pub fn from_hex(algorithm: &str, digits: &str) -> Option<Self> {
        Self::from_bytes(algorithm, &hex(digits)?)
    }

    /// From the value of an `integrity` attribute: `sha512-` and base64. Of
    /// several the strongest counts, as npm does it.
    pub fn from_integrity(text: &str) -> Option<Self> {
        let one = |word: &str| {
            let (algorithm, value) = word.split_once('-')?;
            // Options after `?` are allowed, and mean nothing yet.
            let value = value.split('?').next()?;
            Self::from_bytes(algorithm, &STANDARD.decode(value).ok()?)
        };
        text.split_ascii_whitespace().filter_map(one).max_by_key(|digest| digest.as_bytes().len())
    }

    fn from_bytes(algorithm: &str, bytes: &[u8]) -> Option<Self> {
        match algorithm {
            "sha256" => bytes.try_into().ok().map(Self::Sha256),
            "sha384" => bytes.try_into().ok().map(Self::Sha384),
            "sha512" => bytes.try_into().ok().map(Self::Sha512),
            _ => None,
        }
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::Sha384(_) => "sha384",
            Self::Sha512(_) => "sha512",
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha256(bytes) => bytes,
            Self::Sha384(bytes) => bytes,
            Self::Sha512(bytes) => bytes,
        }
    }

    pub fn hex(&self) -> String {
        self.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Begins to hash what should have this digest.
    pub fn hasher(&self) -> Hasher {
        let state = match self {
            Self::Sha256(_) => State::Sha256(Sha256::new()),
            Self::Sha384(_) => State::Sha384(Sha384::new()),
            Self::Sha512(_) => State::Sha512(Sha512::new()),
        };
        Hasher { wanted: *self, state }
    }

    /// Whether these bytes have it.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.is_met()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm(), self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hashes a file piece by piece, and tells whether it was the wanted one.
#[derive(Debug, Clone)]
pub struct Hasher {
    wanted: Digest,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Sha256(state) => state.update(bytes),
            State::Sha384(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
        }
    }

    /// Whether what was hashed so far is all of it.
    pub fn is_met(&self) -> bool {
        let found = match self.state.clone() {
            State::Sha256(state) => Digest::Sha256(state.finalize().into()),
            State::Sha384(state) => Digest::Sha384(state.finalize().into()),
            State::Sha512(state) => Digest::Sha512(state.finalize().into()),
        };
        found == self.wanted
    }
}

/// The bytes that hexadecimal digits stand for.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) || digits.len() > 256 {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, _) = digits.as_chunks();
    pairs.iter().map(|[high, low]| u8::try_from(value(*high)? * 16 + value(*low)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `abc`, from FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_met_by_its_bytes_only() {
        let digest = Digest::from_hex("sha256", ABC).unwrap();
        assert!(digest.is_of(b"abc"));
        assert!(!digest.is_of(b"abd"));
        assert!(!digest.is_of(b""));
        assert_eq!(digest.to_string(), format!("sha256:{ABC}"));
        assert_eq!(Digest::from_hex("sha256", &ABC.to_uppercase()), Some(digest));
    }

    #[test]
    fn weak_or_broken_hashes_are_no_digests() {
        assert_eq!(Digest::from_hex("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"), None);
        assert_eq!(Digest::from_hex("md5", "900150983cd24fb0d6963f7d28e17f72"), None);
        assert_eq!(Digest::from_hex("sha256", &ABC[2..]), None);
        assert_eq!(Digest::from_hex("sha512", ABC), None);
        assert_eq!(Digest::from_hex("sha256", &ABC.replace('b', "g")), None);
        assert_eq!(Digest::from_integrity("sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0="), None);
        assert_eq!(Digest::from_integrity("sha256-AAAA"), None);
        assert_eq!(Digest::from_integrity(""), None);
    }

    #[test]
    fn of_several_the_strongest_counts() {
        let bytes = STANDARD.encode([7; 64]);
        let weaker = STANDARD.encode([9; 32]);
        let text = format!("sha256-{weaker} sha512-{bytes}?x sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0=");
        assert_eq!(Digest::from_integrity(&text), Some(Digest::Sha512([7; 64])));
    }
}
