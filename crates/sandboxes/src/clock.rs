//! Moments, as every surface writes them.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment, to the microsecond, written as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment(OffsetDateTime);

pub fn now() -> Moment {
    Moment::from(belljar_fault::wall_clock())
}

impl Moment {
    pub fn parse(text: &str) -> Option<Self> {
        OffsetDateTime::parse(text, &Rfc3339).ok().map(Self)
    }

    pub fn from_unix(seconds: i64) -> Option<Self> {
        OffsetDateTime::from_unix_timestamp(seconds).ok().map(Self)
    }

    pub fn from_unix_micros(micros: u64) -> Self {
        (SystemTime::UNIX_EPOCH + Duration::from_micros(micros)).into()
    }

    pub fn unix(self) -> i64 {
        self.0.unix_timestamp()
    }

    pub fn unix_micros(self) -> i128 {
        self.0.unix_timestamp_nanos() / 1000
    }

    /// Later by this much; the end of time when there is no such moment.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        let by = time::Duration::try_from(by).unwrap_or(time::Duration::MAX);
        Self(self.0.checked_add(by).unwrap_or(time::PrimitiveDateTime::MAX.assume_utc()))
    }

    /// How long after an earlier moment; nothing when that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::try_from(self.0 - earlier.0).unwrap_or(Duration::ZERO)
    }

    /// How long until then; nothing when it is past.
    pub fn remaining(self) -> Duration {
        Duration::try_from(self.0 - now().0).unwrap_or(Duration::ZERO)
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        let exact = OffsetDateTime::from(time);
        let micros = exact.nanosecond() / 1000 * 1000;
        Self(exact.replace_nanosecond(micros).unwrap_or(exact))
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.format(&Rfc3339).unwrap_or_default())
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.to_string()
    }
}

/// Why a text is not a moment.
#[derive(Debug, thiserror::Error)]
#[error("not a time in RFC 3339 format, such as 2026-01-31T12:00:00Z")]
pub struct NotAMoment;

impl TryFrom<String> for Moment {
    type Error = NotAMoment;

    fn try_from(text: String) -> Result<Self, NotAMoment> {
        Self::parse(&text).ok_or(NotAMoment)
    }
}
