//! What a description says: plain data, the same for the same files.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::coding::{Compression, Encoding};
use crate::csv::Dialect;
use crate::excel::Sheet;
use crate::problem::Problem;
use crate::relate::{Key, NearMiss, Relationship, RepeatedId};

/// The shape of this document; a field that is new does not change it.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub version: u32,
    pub datasets: Vec<Dataset>,
    pub relationships: Vec<Relationship>,
    /// Columns that look as if they belonged together, and do not match as they
    /// are.
    pub near_misses: Vec<NearMiss>,
    /// The latest day in any of the data: "now", as far as it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// The file's name.
    pub name: String,
    /// What a variable that holds it may be called, in Python and JavaScript.
    pub variable: String,
    pub format: Format,
    pub bytes: u64,
    /// Records: rows, lines, or items of the outermost array.
    pub rows: u64,
    /// About how much memory pandas holds once it has loaded it.
    pub pandas_bytes: u64,
    /// Of paths and types: the same for files of the same shape.
    pub schema_hash: String,
    /// Of the bytes (BLAKE3); none if the file changed while it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compression: Option<Compression>,
    #[serde(skip_serializing_if = "Encoding::is_utf8", default)]
    pub encoding: Encoding,
    /// Bytes of the text, if the file is compressed or a spreadsheet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sheet: Option<Sheet>,
    pub problems: Vec<Problem>,
    pub keys: Vec<Key>,
    /// Columns that are named as the records' id, and have values that come again.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub repeated_ids: Vec<RepeatedId>,
    /// The whole document; its records are `root.item` for an array.
    pub root: Field,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    Json,
    JsonLines,
    Csv,
    Parquet,
    Excel,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::JsonLines => "JSON Lines",
            Self::Csv => "CSV",
            Self::Parquet => "Parquet",
            Self::Excel => "Excel",
        })
    }
}

/// Everything about one path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Field {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub types: Types,
    /// In how many of the objects around it the key stands, from 0 to 1.
    pub presence: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distinct: Option<u64>,
    /// Whether that many is exact.
    #[serde(skip_serializing_if = "is_false")]
    pub distinct_is_exact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<Meaning>,
    /// The type that the file's own schema gives it, such as `uint32`, `decimal(9, 2)` or
    /// `timestamp[us, UTC]`; only Parquet has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_as: Option<String>,
    /// Whether its numbers are written with a decimal comma.
    #[serde(skip_serializing_if = "is_false")]
    pub has_decimal_commas: bool,
    /// All values with their counts, if there are few; the frequent ones first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<NumberRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dates: Option<DateRange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lengths: Option<LengthRange>,
    /// What an array's items are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<Box<Field>>,
    /// What an object has, in the file's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// The keys of an object that is used as a dictionary; its one field stands
    /// for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Box<Field>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

/// How often a value was of which type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Types {
    #[serde(skip_serializing_if = "is_zero")]
    pub null: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub bool: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub int: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub float: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub string: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub array: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub object: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Types {
    pub fn total(&self) -> u64 {
        self.null + self.bool + self.int + self.float + self.string + self.array + self.object
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NumberRange {
    pub min: f64,
    pub max: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// At 5, 25, 50, 75 and 95 percent; within 1 %, or a little more where
    /// numbers spread widely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<[f64; 5]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zeros: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TextRange {
    /// In characters.
    pub shortest: u64,
    pub longest: u64,
    pub mean: f64,
    pub empty: u64,
    /// Too long to print.
    pub is_long: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DateRange {
    pub first: String,
    pub last: String,
    pub grain: DateGrain,
    pub zone: DateZone,
    /// How many of the values are dates.
    pub count: u64,
    /// Written with slashes, and no value tells whether day or month is first.
    #[serde(skip_serializing_if = "is_false", default)]
    pub is_ambiguous: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateGrain {
    Day,
    Minute,
    Second,
    Fraction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateZone {
    None,
    Utc,
    Offset,
    Mixed,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LengthRange {
    pub shortest: u64,
    pub longest: u64,
    pub mean: f64,
}

/// What texts and numbers stand for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// `2026-03-20`
    Date,
    DateTime,
    /// `03/20/2026`
    DateMonthFirst,
    /// `20/03/2026`
    DateDayFirst,
    /// `20.03.2026`, with or without a time
    DateDotted,
    EpochSeconds,
    EpochMillis,
    Uuid,
    Email,
    Url,
    /// Numbers that are written as texts.
    NumericText,
    /// Digits with leading zeros: reading them as numbers loses these.
    ZeroPadded,
    Currency,
    Percent,
    /// Such as `deal_\d+`.
    Pattern(String),
}
