//! SHA-256 digests, and the one way in which structured input is hashed.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// A text that is no digest.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected a digest: 64 lower-case hexadecimal characters")]
pub struct InvalidDigest;

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digest and length of everything that `reader` has left.
    pub fn of_reader(reader: &mut impl Read) -> io::Result<(Self, u64)> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 128 * 1024];
        let mut length = 0;
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok((Self(hash.finalize().into()), length)),
                Ok(count) => {
                    hash.update(&buffer[..count]);
                    length += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn from_hash(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// The first 12 characters: enough to tell versions of one template apart.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

/// Hashes a sequence of fields. Each is preceded by its length, so no two
/// different sequences give the same bytes.
#[derive(Debug, Default)]
pub struct Fields(Sha256);

impl Fields {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, field: impl AsRef<[u8]>) -> &mut Self {
        let field = field.as_ref();
        self.0.update((field.len() as u64).to_le_bytes());
        self.0.update(field);
        self
    }

    /// Adds a list, and its length before it.
    pub fn all(&mut self, fields: impl IntoIterator<Item: AsRef<[u8]>>) -> &mut Self {
        let fields: Vec<_> = fields.into_iter().collect();
        self.number(fields.len() as u64);
        fields.iter().fold(self, |all, field| all.add(field))
    }

    pub fn number(&mut self, number: u64) -> &mut Self {
        self.0.update(number.to_le_bytes());
        self
    }

    pub fn digest(&mut self, digest: &Digest) -> &mut Self {
        self.0.update(digest.0);
        self
    }

    pub fn finish(&mut self) -> Digest {
        Digest(std::mem::take(&mut self.0).finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let nibble = |c: u8| match c {
            b'0'..=b'9' => Ok(c - b'0'),
            b'a'..=b'f' => Ok(c - b'a' + 10),
            _ => Err(InvalidDigest),
        };
        let text = <&[u8; 64]>::try_from(text.as_bytes()).map_err(|_| InvalidDigest)?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(digest))
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_its_text_form() {
        let digest = Digest::of(b"");
        assert_eq!(
            digest.to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!("../etc".parse::<Digest>(), Err(InvalidDigest));
    }

    #[test]
    fn moving_a_boundary_between_fields_changes_the_digest() {
        let one = Fields::new().add("ab").add("c").finish();
        let other = Fields::new().add("a").add("bc").finish();
        assert_ne!(one, other);
    }
}
