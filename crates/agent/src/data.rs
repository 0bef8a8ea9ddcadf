//! Data that runs work on: kept under its digest, planned against the sandbox's
//! memory, and put into it read-only.

mod depot;
mod factors;
mod fit;
mod manifest;
mod plan;
mod records;
mod sample;

use belljar_model::data::is_name;
use belljar_objects::Digest;

pub use depot::{DataError, Depot, shelve_bytes, shelve_files};
pub use fit::{Room, Strategy};
pub use plan::{Plan, PlanError};

/// What lists it for `load_data`. It is data of the run like any other.
pub const MANIFEST: &str = "datasets.json";

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    JsonLines,
    Csv,
    /// The same with tabs.
    Tsv,
    Parquet,
    /// Not as a table: the code has to know.
    Other,
}

/// One file of a run's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Of the file, without directories.
    pub name: String,
    pub fingerprint: Digest,
    pub bytes: u64,
}

impl Format {
    pub fn of(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let ending = lower.rsplit_once('.').map_or("", |(_, ending)| ending);
        match ending {
            "json" => Self::Json,
            "jsonl" | "ndjson" => Self::JsonLines,
            "csv" => Self::Csv,
            "tsv" => Self::Tsv,
            "parquet" => Self::Parquet,
            _ => Self::Other,
        }
    }

    /// As the manifest calls it.
    fn word(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::JsonLines => "jsonl",
            Self::Csv | Self::Tsv => "csv",
            Self::Parquet => "parquet",
            Self::Other => "other",
        }
    }
}

impl Item {
    /// A file of a run's data, if it may be called that: a name is one of a file, and
    /// leads nowhere.
    pub fn new(name: &str, fingerprint: Digest, bytes: u64) -> Result<Self, DataError> {
        Ok(Self { name: checked_name(name)?.to_owned(), fingerprint, bytes })
    }

    /// Whether both can be in one run: files and variables have names of their own.
    pub fn is_apart(&self, other: &Self) -> bool {
        self.name != other.name && self.variable() != other.variable()
    }

    pub fn format(&self) -> Format {
        Format::of(&self.name)
    }

    /// The variable that `load_data` puts it into.
    pub fn variable(&self) -> String {
        let stem = self.name.rsplit_once('.').map_or(self.name.as_str(), |(stem, _)| stem);
        let mut variable = String::new();
        let mut is_gap = false;
        for letter in stem.chars() {
            let is_plain = letter.is_alphanumeric() || letter == '_';
            if is_plain {
                variable.push(letter);
            } else if !is_gap {
                variable.push('_');
            }
            is_gap = !is_plain;
        }
        let is_word = variable.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_free = !KEYWORDS.contains(&variable.as_str());
        if is_word && is_free { variable } else { format!("_{variable}") }
    }
}

fn checked_name(name: &str) -> Result<&str, DataError> {
    match is_name(name) && name != MANIFEST {
        true => Ok(name),
        false => Err(DataError::Name(name.to_owned())),
    }
}

/// Of Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_variables() {
        for (name, want) in [
            ("deals.json", "deals"),
            ("2015.csv", "_2015"),
            ("beauty and the labor market.csv", "beauty_and_the_labor_market"),
            ("DES=+2006261.csv", "DES_2006261"),
            ("imp.score.ldlr.csv", "imp_score_ldlr"),
            ("class.json", "_class"),
        ] {
            let item = Item { name: name.into(), fingerprint: Digest::of(b""), bytes: 0 };
            assert_eq!(item.variable(), want);
        }
    }
}
