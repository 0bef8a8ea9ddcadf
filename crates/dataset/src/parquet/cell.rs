//! Stored values, as a table of texts would have them.
//!
//! A value gets the text that a CSV file of the same rows has, so that both are typed, compared
//! and joined alike.

use std::io::Write as _;

use parquet::data_type::{ByteArray, FixedLenByteArray, Int96};

use super::decimal;
use crate::column::{Text, Value};
use crate::date;
use crate::json::HEAD;
use crate::number::{self, Number};

/// How the values of a column are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// As its physical type says.
    Plain,
    Unsigned,
    /// So many digits are behind the point.
    Decimal(u32),
    Date,
    /// So many units are a second.
    Time(i64),
    Timestamp {
        units: i64,
        is_utc: bool,
    },
    Text,
    Float16,
    Uuid,
    Interval,
}

/// A value that is there.
#[derive(Debug)]
pub(crate) enum Shown<'a> {
    Value(Value<'a>),
    Bool(bool),
    /// NaN, or an infinity.
    NotFinite,
}

/// Where texts are made.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) text: Vec<u8>,
    pub(super) not_utf8: u64,
}

pub(crate) trait Show {
    fn show<'a>(&'a self, cell: Cell, scratch: &'a mut Scratch) -> Shown<'a>;
}

impl Show for bool {
    fn show<'a>(&'a self, _: Cell, _: &'a mut Scratch) -> Shown<'a> {
        Shown::Bool(*self)
    }
}

impl Show for i32 {
    fn show<'a>(&'a self, cell: Cell, scratch: &'a mut Scratch) -> Shown<'a> {
        let value = match cell {
            Cell::Unsigned => i64::from(self.cast_unsigned()),
            _ => i64::from(*self),
        };
        integer(value, cell, scratch)
    }
}

impl Show for i64 {
    fn show<'a>(&'a self, cell: Cell, scratch: &'a mut Scratch) -> Shown<'a> {
        match cell {
            Cell::Unsigned if *self < 0 => {
                let value = self.cast_unsigned();
                let text = scratch.write(format_args!("{value}"));
                Shown::Value(Value::Number(Number::Large(value), text))
            }
            _ => integer(*self, cell, scratch),
        }
    }
}

fn integer(value: i64, cell: Cell, scratch: &mut Scratch) -> Shown<'_> {
    match cell {
        Cell::Date => {
            scratch.text.clear();
            push_day(&mut scratch.text, value);
            scratch.text()
        }
        Cell::Time(units) if value >= 0 => {
            let (seconds, fraction) = (value / units, value % units);
            scratch.text.clear();
            push_clock(&mut scratch.text, seconds, nanos(fraction, units));
            scratch.text()
        }
        Cell::Timestamp { units, is_utc } => {
            let (seconds, fraction) = (value.div_euclid(units), value.rem_euclid(units));
            moment(seconds, nanos(fraction, units), is_utc, scratch)
        }
        Cell::Decimal(scale) => {
            decimal::write(&value.to_be_bytes(), scale, &mut scratch.text);
            scratch.number()
        }
        _ => {
            let text = scratch.digits(value);
            Shown::Value(Value::Number(Number::Int(value), text))
        }
    }
}

impl Show for Int96 {
    /// Nanoseconds of a day, and the day, counted from a noon in 4713 BC.
    fn show<'a>(&'a self, _: Cell, scratch: &'a mut Scratch) -> Shown<'a> {
        const EPOCH: i64 = 2_440_588;
        const SECOND: u64 = 1_000_000_000;
        let (low, high, day) = match *self.data() {
            [low, high, day] => (low, high, day),
            _ => (0, 0, 0),
        };
        let of_day = u64::from(high) << 32 | u64::from(low);
        let seconds = i64::try_from(of_day / SECOND).unwrap_or_default();
        let seconds = (i64::from(day) - EPOCH) * 86_400 + seconds;
        let nanos = u32::try_from(of_day % SECOND).unwrap_or_default();
        moment(seconds, nanos, false, scratch)
    }
}

impl Show for f32 {
    /// The shortest text that means this number, as libraries print it, and what it means.
    fn show<'a>(&'a self, _: Cell, scratch: &'a mut Scratch) -> Shown<'a> {
        if !self.is_finite() {
            return Shown::NotFinite;
        }
        let text = scratch.write(format_args!("{self:?}"));
        let value = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let value = value.unwrap_or_else(|| f64::from(*self));
        Shown::Value(Value::Number(Number::Float(value), text))
    }
}

impl Show for f64 {
    fn show<'a>(&'a self, _: Cell, scratch: &'a mut Scratch) -> Shown<'a> {
        float(*self, scratch)
    }
}

fn float(value: f64, scratch: &mut Scratch) -> Shown<'_> {
    if !value.is_finite() {
        return Shown::NotFinite;
    }
    // Whole ones get a `.0`, as where a gap turned a column of integers into floats.
    let is_whole = value.fract() == 0.0 && value.abs() < 1e18;
    let text = if is_whole {
        scratch.write(format_args!("{value:.1}"))
    } else {
        scratch.write(format_args!("{value:?}"))
    };
    Shown::Value(Value::Number(Number::Float(value), text))
}

impl Show for ByteArray {
    fn show<'a>(&'a self, cell: Cell, scratch: &'a mut Scratch) -> Shown<'a> {
        bytes(self.data(), cell, scratch)
    }
}

impl Show for FixedLenByteArray {
    fn show<'a>(&'a self, cell: Cell, scratch: &'a mut Scratch) -> Shown<'a> {
        bytes(self.data(), cell, scratch)
    }
}

fn bytes<'a>(bytes: &'a [u8], cell: Cell, scratch: &'a mut Scratch) -> Shown<'a> {
    match (cell, bytes) {
        (Cell::Text, _) => {
            let text = text(bytes);
            if str::from_utf8(bytes).is_err() {
                scratch.not_utf8 += 1;
            }
            Shown::Value(Value::Text(text))
        }
        (Cell::Decimal(scale), _) if bytes.len() <= decimal::MAX_BYTES => {
            decimal::write(bytes, scale, &mut scratch.text);
            scratch.number()
        }
        (Cell::Float16, &[low, high]) => float(half(u16::from_le_bytes([low, high])), scratch),
        (Cell::Uuid, _) if bytes.len() == 16 => {
            scratch.text.clear();
            for (place, byte) in bytes.iter().enumerate() {
                if matches!(place, 4 | 6 | 8 | 10) {
                    scratch.text.push(b'-');
                }
                push_hex(&mut scratch.text, *byte);
            }
            scratch.text()
        }
        (Cell::Interval, &[m0, m1, m2, m3, d0, d1, d2, d3, s0, s1, s2, s3]) => {
            let [months, days, millis] =
                [[m0, m1, m2, m3], [d0, d1, d2, d3], [s0, s1, s2, s3]].map(u32::from_le_bytes);
            let (seconds, millis) = (millis / 1000, millis % 1000);
            scratch.write(format_args!("P{months}M{days}DT{seconds}.{millis:03}S"));
            scratch.text()
        }
        _ if is_readable(bytes) => Shown::Value(Value::Text(text(bytes))),
        _ => hexadecimal(bytes, scratch),
    }
}

/// As much of a text as is kept, cut between two characters.
fn text(bytes: &[u8]) -> Text<'_> {
    let chars = bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u64;
    let Some(head) = bytes.get(..HEAD).filter(|_| bytes.len() > HEAD) else {
        return Text { head: bytes, chars, is_whole: true };
    };
    let head = match str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => {
            head.get(..error.valid_up_to()).unwrap_or_default()
        }
        _ => head,
    };
    Text { head, chars, is_whole: false }
}

/// Bytes without a type are texts in files of old writers.
fn is_readable(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_ok_and(|text| !text.contains(|c: char| c.is_control() && c != '\n'))
}

fn hexadecimal<'a>(bytes: &[u8], scratch: &'a mut Scratch) -> Shown<'a> {
    let shown = bytes.get(..(HEAD - 2) / 2).unwrap_or(bytes);
    scratch.text.clear();
    scratch.text.extend_from_slice(b"0x");
    shown.iter().for_each(|byte| push_hex(&mut scratch.text, *byte));
    let is_whole = shown.len() == bytes.len();
    let text = Text { head: &scratch.text, chars: bytes.len() as u64, is_whole };
    Shown::Value(Value::Text(text))
}

fn push_hex(text: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.extend([byte >> 4, byte & 0xf].map(|digit| DIGITS[usize::from(digit)]));
}

/// A float of 16 bits.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

fn nanos(fraction: i64, units: i64) -> u32 {
    u32::try_from(fraction * (1_000_000_000 / units)).unwrap_or_default()
}

fn moment(seconds: i64, nanos: u32, is_utc: bool, scratch: &mut Scratch) -> Shown<'_> {
    const DAY: i64 = 86_400;
    scratch.text.clear();
    push_day(&mut scratch.text, seconds.div_euclid(DAY));
    scratch.text.push(b'T');
    push_clock(&mut scratch.text, seconds.rem_euclid(DAY), nanos);
    if is_utc {
        scratch.text.push(b'Z');
    }
    scratch.text()
}

/// `2026-03-20`, from days since 1970.
fn push_day(text: &mut Vec<u8>, days: i64) {
    let (year, month, day) = date::civil_day(days);
    let _ = write!(text, "{year:04}-{month:02}-{day:02}");
}

/// `hh:mm:ss`, and as much of a fraction as is not zero: thousandths, millionths or billionths.
fn push_clock(text: &mut Vec<u8>, seconds: i64, nanos: u32) {
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let _ = write!(text, "{hour:02}:{minute:02}:{second:02}");
    let _ = match nanos {
        0 => Ok(()),
        _ if nanos.is_multiple_of(1_000_000) => write!(text, ".{:03}", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1000) => write!(text, ".{:06}", nanos / 1000),
        _ => write!(text, ".{nanos:09}"),
    };
}

impl Scratch {
    fn write(&mut self, arguments: std::fmt::Arguments<'_>) -> &[u8] {
        self.text.clear();
        // A vector takes everything.
        let _ = self.text.write_fmt(arguments);
        &self.text
    }

    /// The digits of an integer. Every value of most columns passes here.
    fn digits(&mut self, value: i64) -> &[u8] {
        self.text.clear();
        if value < 0 {
            self.text.push(b'-');
        }
        let from = self.text.len();
        let mut rest = value.unsigned_abs();
        loop {
            self.text.push(b'0' + u8::try_from(rest % 10).unwrap_or_default());
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if let Some(digits) = self.text.get_mut(from..) {
            digits.reverse();
        }
        &self.text
    }

    fn text(&self) -> Shown<'_> {
        Shown::Value(Value::text(&self.text))
    }

    /// What was written, read as a table's number.
    fn number(&self) -> Shown<'_> {
        match number::read(&self.text) {
            Some(number) => Shown::Value(Value::Number(number, &self.text)),
            None => self.text(),
        }
    }
}

#[cfg(test)]
mod tests;
