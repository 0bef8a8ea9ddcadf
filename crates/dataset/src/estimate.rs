//! How much memory a dataset takes once pandas holds it.
//!
//! Sizes are those of CPython 3.11 to 3.13 and of pandas with object columns;
//! while loading, about as much again is needed for a moment.

use crate::describe::{Field, Format};

/// A cell that holds a number.
const NUMBER: f64 = 8.0;
/// A pointer to an object, in a column, list or dictionary.
const POINTER: f64 = 8.0;
/// A `datetime.date`.
const DATE: f64 = 32.0;
/// A `decimal.Decimal`.
const DECIMAL: f64 = 104.0;

pub(crate) fn pandas(root: &Field, format: Format, rows: u64) -> u64 {
    let records = match &root.item {
        Some(item) if root.types.array == 1 && root.types.total() == 1 => item,
        _ => root,
    };
    let columns = records.fields.iter().map(|column| match format {
        // Texts that come again are one object each time they are read anew.
        Format::Csv | Format::Parquet | Format::Excel => flat(column, rows),
        Format::Json | Format::JsonLines => top(column, rows),
    });
    let scalars = if records.fields.is_empty() { objects(records) } else { 0.0 };
    let sum: f64 = columns.sum::<f64>() + scalars;
    // An exact figure would claim to be one.
    round(sum)
}

fn is_numeric(field: &Field) -> bool {
    let types = field.types;
    types.int + types.float + types.null == types.total() && types.int + types.float > 0
}

fn flat(column: &Field, rows: u64) -> f64 {
    let types = column.types;
    if column.stored_as.as_deref().is_some_and(|stored| stored.starts_with("decimal")) {
        return rows as f64 * POINTER + (types.int + types.float) as f64 * DECIMAL;
    }
    if is_numeric(column) {
        return rows as f64 * NUMBER;
    }
    if types.bool == types.total() {
        return rows as f64;
    }
    let values = (types.total() - types.null) as f64;
    match column.stored_as.as_deref() {
        Some(stored) if stored.starts_with("timestamp") => return rows as f64 * NUMBER,
        Some("date") => return rows as f64 * POINTER + values * DATE,
        _ => {}
    }
    rows as f64 * POINTER + objects(column)
}

fn top(column: &Field, rows: u64) -> f64 {
    if is_numeric(column) { rows as f64 * NUMBER } else { rows as f64 * POINTER + objects(column) }
}

/// Everything at or below a field, as Python objects.
fn objects(field: &Field) -> f64 {
    let types = field.types;
    let text = field.text.map_or(0.0, |text| types.string as f64 * (text.mean + 57.0));
    let numbers = types.int as f64 * 32.0 + types.float as f64 * 24.0;
    let lists =
        field.lengths.map_or(0.0, |lengths| types.array as f64 * (72.0 + POINTER * lengths.mean));
    let keys = if types.object == 0 {
        0.0
    } else {
        let present: u64 = field.fields.iter().map(|below| below.types.total()).sum();
        present as f64 / types.object as f64
    };
    let objects = types.object as f64 * dictionary(keys);
    let below: f64 = field.fields.iter().chain(field.item.as_deref()).map(objects_below).sum();
    text + numbers + lists + objects + below
}

fn objects_below(field: &Field) -> f64 {
    objects(field)
}

/// A dictionary with so many keys: its table doubles.
fn dictionary(keys: f64) -> f64 {
    match keys {
        k if k <= 5.0 => 184.0,
        k if k <= 10.0 => 352.0,
        k if k <= 21.0 => 632.0,
        k if k <= 42.0 => 1176.0,
        k => 30.0 * k,
    }
}

/// To two digits.
#[expect(clippy::cast_possible_truncation, reason = "far below 2^64, and it saturates")]
#[expect(clippy::cast_sign_loss, reason = "sizes are positive")]
fn round(bytes: f64) -> u64 {
    if bytes < 100.0 {
        return bytes as u64;
    }
    let scale = 10f64.powf(bytes.log10().floor() - 1.0);
    ((bytes / scale).round() * scale) as u64
}
