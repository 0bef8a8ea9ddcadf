//! Data that runs work on: kept under its digest, planned against the sandbox's
//! memory, and put into it read-only.

mod depot;
mod estimate;
mod factors;
mod fit;
mod key;
mod manifest;
mod plan;
mod records;
mod sample;
mod shared;

use belljar_dataset::Compression;
use belljar_domain::data::is_name;
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
    Excel,
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

/// How a file is compressed, by the ending of its name.
fn compression_of(name: &str) -> Option<Compression> {
    match &*name.rsplit_once('.')?.1.to_ascii_lowercase() {
        "gz" | "gzip" => Some(Compression::Gzip),
        "zst" | "zstd" => Some(Compression::Zstd),
        _ => None,
    }
}

impl From<belljar_dataset::Format> for Format {
    fn from(format: belljar_dataset::Format) -> Self {
        match format {
            belljar_dataset::Format::Json => Self::Json,
            belljar_dataset::Format::JsonLines => Self::JsonLines,
            belljar_dataset::Format::Csv => Self::Csv,
            belljar_dataset::Format::Parquet => Self::Parquet,
            belljar_dataset::Format::Excel => Self::Excel,
        }
    }
}

impl Format {
    /// By a file's name.
    pub fn of(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let packed = compression_of(&lower).and_then(|_| lower.rsplit_once('.'));
        let plain = packed.map_or(&*lower, |(plain, _)| plain);
        let ending = plain.rsplit_once('.').map_or("", |(_, ending)| ending);
        match ending {
            "parquet" | "xlsx" | "xlsm" if packed.is_some() => Self::Other,
            "xlsx" | "xlsm" => Self::Excel,
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
            Self::Excel => "excel",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_formats_whether_compressed_or_not() {
        for (name, want) in [
            ("a.csv", Format::Csv),
            ("a.CSV.GZ", Format::Csv),
            ("a.tsv.zst", Format::Tsv),
            ("a.jsonl.gz", Format::JsonLines),
            ("a.xlsx", Format::Excel),
            ("a.xlsx.gz", Format::Other),
            ("a.gz", Format::Other),
            ("csv", Format::Other),
        ] {
            assert_eq!(Format::of(name), want, "{name}");
        }
    }
}
