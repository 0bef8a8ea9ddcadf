//! Texts and numbers that are within bounds, or were never read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// What does not fit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OutOfBounds {
    #[error("expected a number between {least} and {most}, not {given}")]
    Number { given: u64, least: u64, most: u64 },
    #[error("expected a text of {least} to {most} characters, not {given}")]
    Text { given: usize, least: usize, most: usize },
    #[error("a text must not contain NUL")]
    Nul,
    #[error(
        "a name has letters, digits, `.`, `_`, `-`, `:` and `/`, and begins with a letter or digit"
    )]
    Name,
}

/// A whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "u64")]
pub struct Number<const LEAST: u64, const MOST: u64>(u64);

/// How long a sandbox lives. The server's own limit is usually lower.
pub type Seconds = Number<1, 31_536_000>;
/// How long one call or one cell may take.
pub type Millis = Number<1, 86_400_000>;
/// A count that JavaScript reads exactly.
pub type Count = Number<0, 9_007_199_254_740_991>;
/// Entries of one page.
pub type PageSize = Number<1, 100>;

impl<const LEAST: u64, const MOST: u64> Number<LEAST, MOST> {
    pub fn get(self) -> u64 {
        self.0
    }
}

impl<const LEAST: u64, const MOST: u64> TryFrom<u64> for Number<LEAST, MOST> {
    type Error = OutOfBounds;

    fn try_from(given: u64) -> Result<Self, OutOfBounds> {
        if (LEAST..=MOST).contains(&given) {
            Ok(Self(given))
        } else {
            Err(OutOfBounds::Number { given, least: LEAST, most: MOST })
        }
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Number<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = deserializer.deserialize_u64(Whole)?;
        Self::try_from(given).map_err(D::Error::custom)
    }
}

/// Takes a whole number, also when it is written as `60.0`: to JSON Schema, and
/// to languages that have one kind of number, that is the same.
struct Whole;

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, not negative")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        // Within what a float can tell apart, its digits are those of the number.
        let exact = number.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&number);
        let parsed = exact.then(|| format!("{number:.0}").parse().ok()).flatten();
        parsed.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

impl<const LEAST: u64, const MOST: u64> From<Number<LEAST, MOST>> for u64 {
    fn from(number: Number<LEAST, MOST>) -> Self {
        number.0
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for Number<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NumberFrom{LEAST}To{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST, "maximum": MOST })
    }
}

/// A text without NUL, which the kernel could not be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text<const LEAST: usize, const MOST: usize>(String);

/// A path inside a sandbox; one that does not begin with `/` is relative to the
/// user's home directory.
pub type Path = Text<1, 4096>;
/// Code of one cell, or a shell script.
pub type Script = Text<0, 1_000_000>;

impl<const LEAST: usize, const MOST: usize> Text<LEAST, MOST> {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const LEAST: usize, const MOST: usize> TryFrom<String> for Text<LEAST, MOST> {
    type Error = OutOfBounds;

    fn try_from(text: String) -> Result<Self, OutOfBounds> {
        let given = text.chars().count();
        if !(LEAST..=MOST).contains(&given) {
            return Err(OutOfBounds::Text { given, least: LEAST, most: MOST });
        }
        if text.contains('\0') { Err(OutOfBounds::Nul) } else { Ok(Self(text)) }
    }
}

impl<const LEAST: usize, const MOST: usize> From<Text<LEAST, MOST>> for String {
    fn from(text: Text<LEAST, MOST>) -> Self {
        text.0
    }
}

impl<const LEAST: usize, const MOST: usize> JsonSchema for Text<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("TextFrom{LEAST}To{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": LEAST,
            "maxLength": MOST,
            "pattern": "^[^\\u0000]*$",
        })
    }
}

/// The name of a template, or of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    const LONGEST: usize = 128;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = OutOfBounds;

    fn try_from(text: String) -> Result<Self, OutOfBounds> {
        let given = text.chars().count();
        if !(1..=Self::LONGEST).contains(&given) {
            return Err(OutOfBounds::Text { given, least: 1, most: Self::LONGEST });
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-:/".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        // It never becomes part of a path; what looks like one is a mistake.
        let climbs = text.split('/').any(|part| part == "..");
        if begins && !climbs && text.chars().all(fits) {
            Ok(Self(text))
        } else {
            Err(OutOfBounds::Name)
        }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": Self::LONGEST,
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
        })
    }
}

/// Names and values. How many and how long they may be in all is up to the
/// server, which says so.
pub type Pairs = BTreeMap<String, String>;

pub(crate) fn pairs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 1000,
        "additionalProperties": { "type": "string" },
        "default": {},
    })
}

/// A moment, as RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DateTime(pub String);

impl JsonSchema for DateTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DateTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_bounds_are_not_read() {
        let read = |text: &str| serde_json::from_str::<Seconds>(text);
        assert_eq!(read("300").map(Seconds::get).ok(), Some(300));
        assert_eq!(read("300.0").map(Seconds::get).ok(), Some(300));
        for text in [
            "0",
            "-1",
            "1.5",
            "9223372036854775808",
            "NaN",
            "\"1\"",
            "31536001",
            "null",
            "1e99",
            "-0.5",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn texts_out_of_bounds_are_not_read() {
        let read = |text: &str| serde_json::from_str::<Path>(text);
        assert!(read("\"/tmp\"").is_ok());
        assert!(read("\"\"").is_err());
        assert!(read("\"a\\u0000b\"").is_err());
        assert!(read(&format!("{:?}", "x".repeat(4097))).is_err());
    }

    #[test]
    fn a_name_is_no_path_and_no_command() {
        let read = |text: &str| Name::try_from(text.to_owned());
        for good in ["base", "python-data:3", "team/Image_1.0"] {
            assert!(read(good).is_ok(), "{good}");
        }
        for bad in ["", "../../x", "a/../b", "$(id)", "a b", "a\nb", "-x", "/etc"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
