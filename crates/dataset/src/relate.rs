//! Keys, and which columns refer to which.
//!
//! Sketches and names propose; a second pass over the files, for the proposed
//! columns only, proves or drops each. What is said has been counted.

mod extract;
mod find;
mod name;
mod propose;
mod prove;
mod set;
mod table;

pub(crate) use find::find;

use serde::{Deserialize, Serialize};

/// Columns that tell the objects at a path apart: no two have the same values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Where these objects are: empty for the records themselves, or such as
    /// `contacts[]`.
    pub of: String,
    /// One column, or two that are a key only together.
    pub columns: Vec<String>,
    pub checked: Checked,
}

/// A column of the records that is named as if it told them apart, and does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedId {
    pub column: String,
    pub distinct: u64,
    pub rows: u64,
    pub checked: Checked,
}

/// How much of the values was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    All,
    /// There are too many to hold: one in so many was, chosen by its hash on
    /// both sides.
    OneIn(u64),
}

/// One side of a relationship.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Side {
    /// The dataset's name.
    pub dataset: String,
    /// Such as `contacts[].email`.
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relationship {
    pub from: Side,
    /// A key of its dataset.
    pub to: Side,
    /// Which share of the values of `from` is in `to`.
    pub matched: f64,
    /// Which share of the values of `to` is referred to.
    pub covered: f64,
    pub cardinality: Cardinality,
    /// How many refer to one that is referred to, on average.
    pub mean: f64,
    pub checked: Checked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cardinality {
    #[serde(rename = "1:1")]
    OneToOne,
    #[serde(rename = "N:1")]
    ManyToOne,
}

/// A join that would come out empty, or nearly so, and how to mend it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NearMiss {
    pub from: Side,
    pub to: Side,
    pub because: Because,
    /// Shares of the values of `from` that are in `to`: as they are, and once
    /// mended.
    pub matched: f64,
    pub mended: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    Case,
    Whitespace,
    ZeroPadding,
    /// One side has numbers, the other one texts of digits.
    Type,
    Prefix,
}
