//! Cells of a sheet, as `load_data` has them in Python.

use calamine::{DataRef, ExcelDateTime};

use crate::column::Value;
use crate::number::Number;
use crate::tree::{Id, Tree};

/// What is in a cell that is not empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum SheetCell {
    Text(String),
    Number(f64),
    Bool(bool),
    /// A date, with or without a time, in ISO 8601.
    Moment(String),
    /// `#DIV/0!` and its like.
    #[default]
    Error,
}

/// What Excel writes where a formula failed. Python cannot tell a text of that kind from it.
const ERRORS: [&str; 8] =
    ["#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#GETTING_DATA"];

/// Whole numbers up to this one are integers.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

impl SheetCell {
    pub(super) fn new(data: &DataRef<'_>) -> Option<Self> {
        Some(match data {
            DataRef::Empty => return None,
            DataRef::Int(int) => Self::Number(*int as f64),
            DataRef::Float(float) => Self::Number(*float),
            DataRef::Bool(bool) => Self::Bool(*bool),
            DataRef::Error(_) => Self::Error,
            DataRef::DateTime(moment) => moment_of(moment),
            DataRef::DateTimeIso(text) => Self::Moment(text.clone()),
            DataRef::DurationIso(text) => Self::Text(text.clone()),
            DataRef::String(text) if text.is_empty() => return None,
            DataRef::String(text) => Self::of_text(text),
            DataRef::SharedString("") => return None,
            DataRef::SharedString(text) => Self::of_text(text),
        })
    }

    fn of_text(text: &str) -> Self {
        if ERRORS.contains(&text) { Self::Error } else { Self::Text(text.to_owned()) }
    }

    pub(super) fn put(&self, tree: &mut Tree, id: Id) {
        match self {
            Self::Bool(true) => tree.node_mut(id).counts.trues += 1,
            Self::Bool(false) => tree.node_mut(id).counts.falses += 1,
            Self::Error => tree.node_mut(id).counts.nulls += 1,
            Self::Number(number) if !number.is_finite() => {
                tree.node_mut(id).counts.not_finite += 1;
            }
            Self::Text(_) | Self::Number(_) | Self::Moment(_) => {
                self.with_value(|value| tree.add(id, value));
            }
        }
    }

    /// Calls `take` with the value, if it is a text or a number.
    pub(crate) fn with_value(&self, take: impl FnOnce(Value<'_>)) {
        match self {
            Self::Text(text) | Self::Moment(text) => take(Value::text(text.as_bytes())),
            Self::Number(float) if float.is_finite() => {
                let digits = float.to_string();
                take(Value::Number(number(*float), digits.as_bytes()));
            }
            Self::Number(_) | Self::Bool(_) | Self::Error => {}
        }
    }

    /// As it would be written in a text.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Moment(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Bool(bool) => bool.to_string(),
            Self::Error => String::new(),
        }
    }

    /// About how many bytes it would take in a text, with what separates it.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Text(text) | Self::Moment(text) => text.len() as u64 + 1,
            Self::Number(_) | Self::Bool(_) | Self::Error => 8,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole, and within 2^53")]
fn number(float: f64) -> Number {
    let is_whole = float.fract() == 0.0 && float.abs() <= MAX_WHOLE;
    if is_whole { Number::Int(float as i64) } else { Number::Float(float) }
}

/// Excel counts days, and has times and durations as fractions of one.
fn moment_of(moment: &ExcelDateTime) -> SheetCell {
    let days = moment.as_f64();
    if moment.is_duration() || (0.0..1.0).contains(&days) {
        let seconds = (days.abs() * 86_400.0).round();
        let sign = if days < 0.0 { "-" } else { "" };
        let (hours, minutes) = ((seconds / 3600.0).floor(), (seconds / 60.0).floor() % 60.0);
        return SheetCell::Text(format!("{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60.0));
    }
    if !(0.0..2_958_466.0).contains(&days) {
        // Beyond the year 9999, or before 1900: Excel shows no date either.
        return SheetCell::Error;
    }
    let (year, month, day, hour, minute, second, milli) = moment.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    SheetCell::Moment(match (hour, minute, second, milli) {
        (0, 0, 0, 0) => date,
        (_, _, _, 0) => format!("{date}T{hour:02}:{minute:02}:{second:02}"),
        _ => format!("{date}T{hour:02}:{minute:02}:{second:02}.{milli:03}"),
    })
}
