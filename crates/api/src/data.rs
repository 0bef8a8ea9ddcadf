//! Files that runs work on.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bounds::{DateTime, Number};

/// What a file's content is known by: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256(String);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a SHA-256 has 64 digits of 0-9 and a-f")]
pub struct NoSha256;

impl Sha256 {
    const DIGITS: usize = 64;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Sha256 {
    type Error = NoSha256;

    fn try_from(text: String) -> Result<Self, NoSha256> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let fits = text.len() == Self::DIGITS && text.bytes().all(is_digit);
        fits.then_some(Self(text)).ok_or(NoSha256)
    }
}

impl From<Sha256> for String {
    fn from(digest: Sha256) -> Self {
        digest.0
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Sha256 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Sha256".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

/// A stored file for runs. Each run gives it a name of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Data {
    pub sha256: Sha256,
    pub bytes: u64,
    pub kept_at: DateTime,
}

/// All your files, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DataList {
    pub items: Vec<Data>,
    /// Total size of all files.
    pub bytes: u64,
    /// Quota for the total size.
    pub most_bytes: u64,
}

/// The form of a description.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DescribeData {
    /// Approximate length of `text` in tokens. Details are left out until it fits. Default: 4000.
    #[serde(default)]
    pub tokens: Option<Number<1, 1_000_000>>,
}

/// The description of a file: its structure, ranges and keys, without its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataDescription {
    pub sha256: Sha256,
    /// The text that a model gets. The file is called `data` in it: each run gives it another name.
    pub text: String,
    /// The same facts as a document, as `belljar dataset describe --json` prints it.
    pub document: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_in_one_way() {
        let read = |text: &str| Sha256::try_from(text.to_owned());
        assert!(read(&"0f".repeat(32)).is_ok());
        for bad in ["", "0f", &"0F".repeat(32), &"0g".repeat(32), &"../".repeat(21)] {
            assert_eq!(read(bad), Err(NoSha256), "{bad}");
        }
    }
}
