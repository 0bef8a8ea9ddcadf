//! What is wrong with a file that was described all the same.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub what: What,
    /// How often it was met.
    pub count: u64,
    /// Where it was met first, in bytes from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_at: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The file ends in the middle of a value.
    Truncated,
    /// Something else than JSON stands there; what follows was not read.
    Invalid,
    /// Lines that are not JSON; they were passed over.
    BadLines,
    /// Something follows the one value of a JSON file.
    TrailingContent,
    NotUtf8,
    /// `NaN`, infinities, numbers beyond what a float holds.
    NotFinite,
    /// The same key twice in one object: readers keep one of the two.
    RepeatedKeys,
    /// Values nested too deeply were not looked at.
    TooDeep,
    /// Values of further keys, or of very long ones, were not looked at.
    TooManyKeys,
    /// Rows with more or fewer cells than the header has.
    RaggedRows,
    /// A quote is opened and never closed.
    OpenQuote,
    /// Pages that are damaged, too large, encrypted or of an unknown codec.
    UnreadPages,
    /// Rows of a file that claims more of them than its size allows.
    UnreadRows,
    /// The file grew, shrank or was changed while it was read.
    Changed,
}

impl What {
    fn sentence(self) -> &'static str {
        match self {
            Self::Truncated => "the file ends in the middle of a value",
            Self::Invalid => "not valid JSON; what follows was not read",
            Self::BadLines => "lines that are not JSON were passed over",
            Self::TrailingContent => "something follows the JSON value and was not read",
            Self::NotUtf8 => "values that are not UTF-8",
            Self::NotFinite => "NaN, infinite or too large numbers",
            Self::RepeatedKeys => "keys that stand twice in one object",
            Self::TooDeep => "values nested too deeply were not looked at",
            Self::TooManyKeys => "values of further or very long keys were not looked at",
            Self::RaggedRows => "rows with more or fewer cells than the header",
            Self::OpenQuote => "a quote that is never closed",
            Self::UnreadPages => "columns of row groups that could not be read to their end",
            Self::UnreadRows => "rows at the end were not read: too many for a file of this size",
            Self::Changed => "the file changed while it was read",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what.sentence())?;
        match (self.count, self.first_at) {
            (1, Some(at)) => write!(f, " (at byte {at})"),
            (count, Some(at)) => write!(f, " ({count}, the first at byte {at})"),
            (1, None) => Ok(()),
            (count, None) => write!(f, " ({count})"),
        }
    }
}

/// Each kind once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, what: What, count: u64, first_at: Option<u64>) {
        if count == 0 {
            return;
        }
        match self.0.iter_mut().find(|known| known.what == what) {
            Some(known) => known.count += count,
            None => self.0.push(Problem { what, count, first_at }),
        }
    }

    pub(crate) fn has(&self, what: What) -> bool {
        self.0.iter().any(|known| known.what == what)
    }

    /// Adds what was met later in the file.
    pub(crate) fn merge(&mut self, later: &Self) {
        for problem in &later.0 {
            self.add(problem.what, problem.count, problem.first_at);
        }
    }

    /// In an order of their own, not in that in which they were met.
    pub(crate) fn into_vec(mut self) -> Vec<Problem> {
        self.0.sort_by_key(|problem| problem.what);
        self.0
    }
}
