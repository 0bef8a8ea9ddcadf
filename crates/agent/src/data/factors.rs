//! What loading takes, as it was measured with the readers themselves.

use belljar_dataset::{Dataset, Field};
use serde::Deserialize;

use super::Format;

const MEASURED: &str = include_str!("../../../../runtimes/memory-factors.json");

/// What openpyxl and a DataFrame take for each byte that the cells of a workbook would take as text:
/// 9.9 at the worst moment and 9.3 afterwards, with 40,000 rows of numbers, texts and dates.
const EXCEL: f64 = 10.0;

/// A text that is this long on average is what fills the memory.
const LONG: f64 = 1000.0;

#[derive(Debug, Deserialize)]
pub(super) struct Factors {
    /// Of a sandbox's memory, for all data.
    pub(super) share: f64,
    /// Of its disk, for all files.
    pub(super) disk_share: f64,
    margin: f64,
    factors: Vec<Factor>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Factor {
    language: String,
    format: String,
    shape: Shape,
    peak: f64,
    held: f64,
}

/// What records are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    Flat,
    Nested,
    Text,
}

/// Bytes at the worst moment of loading, and afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) peak: u64,
    pub(super) held: u64,
}

impl Factors {
    pub(super) fn measured() -> serde_json::Result<Self> {
        serde_json::from_str(MEASURED)
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, factors: Vec<Factor>) {
        self.factors = factors;
    }

    /// Of what is not known, the worst is assumed.
    pub(super) fn memory(&self, format: Format, shape: Option<Shape>, bytes: u64) -> Memory {
        if format == Format::Excel {
            let all = grown(bytes, EXCEL * self.margin);
            return Memory { peak: all, held: all };
        }
        let of_format = || {
            let known = |one: &&Factor| one.language == "python" && one.format == format.word();
            self.factors.iter().filter(known)
        };
        let exact = of_format().find(|one| Some(one.shape) == shape);
        let worst = || of_format().max_by(|one, other| one.peak.total_cmp(&other.peak));
        match exact.or_else(worst) {
            Some(one) => Memory {
                peak: grown(bytes, one.peak * self.margin),
                held: grown(bytes, one.held * self.margin),
            },
            None => Memory { peak: 0, held: 0 },
        }
    }
}

/// Rounded up. Factors have two places.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an estimate: sizes of files are far below 2^52, and factors are positive"
)]
pub(super) fn grown(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor).ceil() as u64
}

/// What a profile shows of the records.
pub(super) fn shape(dataset: &Dataset) -> Shape {
    let records = dataset.root.item.as_deref().unwrap_or(&dataset.root);
    let text = |field: &Field| field.text.as_ref().is_some_and(|text| text.mean >= LONG);
    let inner = |field: &Field| field.types.array + field.types.object > 0;
    if records.fields.iter().any(text) {
        Shape::Text
    } else if records.fields.iter().any(inner) || records.keys.is_some() {
        Shape::Nested
    } else {
        Shape::Flat
    }
}
