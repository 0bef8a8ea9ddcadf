//! Names of recordings.

use std::fmt;
use std::str::FromStr;

use crate::id;

/// The name that the owner of a run gives to its recording. It is no id of a run, so that both
/// can name a recording to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingName(String);

/// Text that cannot name a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a recording has a name of 1 to {} letters, digits, `-`, `_` and `.` that begins with a letter \
     or a digit and is no id of a run",
    RecordingName::MAX_BYTES
)]
pub struct InvalidRecordingName;

impl RecordingName {
    pub const MAX_BYTES: usize = 64;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RecordingName {
    type Err = InvalidRecordingName;

    fn from_str(text: &str) -> Result<Self, InvalidRecordingName> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let fits = text.len() <= Self::MAX_BYTES
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.bytes().all(is_plain)
            && !id::is_written(text);
        fits.then(|| Self(text.to_owned())).ok_or(InvalidRecordingName)
    }
}

impl fmt::Display for RecordingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_and_is_no_run() {
        for good in ["q3", "Q3-2026_v1.2", "a", &"a".repeat(64)] {
            assert!(good.parse::<RecordingName>().is_ok(), "{good}");
        }
        let run = crate::RunId::from_bits([7; 16]);
        for bad in
            ["", ".", "..", ".a", "-a", "a/b", "a b", "ä", "a\0", &"a".repeat(65), run.as_str()]
        {
            assert_eq!(bad.parse::<RecordingName>(), Err(InvalidRecordingName), "{bad:?}");
        }
    }
}
