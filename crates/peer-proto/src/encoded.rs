//! Bytes in JSON: keys, certificates, digests and signatures.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes, written as base64url without padding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoded(pub Vec<u8>);

impl Serialize for Encoded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        URL_SAFE_NO_PAD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl<const N: usize> From<[u8; N]> for Encoded {
    fn from(bytes: [u8; N]) -> Self {
        Self(bytes.to_vec())
    }
}

impl<const N: usize> TryFrom<&Encoded> for [u8; N] {
    type Error = std::array::TryFromSliceError;

    fn try_from(encoded: &Encoded) -> Result<Self, Self::Error> {
        encoded.0.as_slice().try_into()
    }
}
