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

    pub fn format(&self) -> Format {
        Format::of(&self.name)
    }
}

fn checked_name(name: &str) -> Result<&str, DataError> {
    match is_name(name) && name != MANIFEST {
        true => Ok(name),
        false => Err(DataError::Name(name.to_owned())),
    }
}
