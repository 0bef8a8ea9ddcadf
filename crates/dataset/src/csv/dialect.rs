//! How a table is written: the delimiter, and whether it has a header.

use std::io;

use serde::{Deserialize, Serialize};

use super::cells::{Cells, End};
use crate::date;
use crate::number::{self, COMMA_BYTES};
use crate::read::{Job, skip_mark};
use crate::window::Window;

/// How many rows are looked at.
const ROWS: usize = 64;
/// And how many cells, since a row may be long.
const CELLS: usize = 16_384;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialect {
    #[serde(serialize_with = "as_char", deserialize_with = "from_char")]
    pub delimiter: u8,
    pub has_header: bool,
    /// Whether columns are called otherwise than in the file: it has no header, or one with names
    /// that are missing, come again, or have space around them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_renamed: bool,
    pub(crate) columns: usize,
}

fn as_char<S: serde::Serializer>(byte: &u8, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_char(char::from(*byte))
}

fn from_char<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let char = char::deserialize(from)?;
    u8::try_from(char).map_err(serde::de::Error::custom)
}

impl Dialect {
    /// The delimiter that cuts most rows into the same number of cells, and more
    /// than one.
    pub(crate) fn sniff(job: Job<'_>) -> io::Result<Self> {
        let judged = |delimiter: u8| {
            let rows = rows(job, delimiter)?;
            let columns = rows.first().map_or(0, Vec::len);
            let same = rows.iter().filter(|row| row.len() == columns).count();
            let share = same as f64 / rows.len().max(1) as f64;
            let score = if columns > 1 { share * (columns as f64).sqrt() } else { 0.0 };
            let has_header = has_header(&rows);
            let dialect = Self { delimiter, has_header, is_renamed: false, columns };
            let is_certain = columns > 1 && share == 1.0 && has_decimal_commas(&rows);
            io::Result::Ok((score, dialect, is_certain))
        };
        let (_, dialect, is_certain) = judged(b';')?;
        if is_certain {
            return Ok(dialect);
        }
        let mut best: Option<(f64, Self)> = None;
        for delimiter in [b',', b'\t', b';', b'|'] {
            let (score, dialect, _) = judged(delimiter)?;
            if best.is_none_or(|(highest, _)| score > highest) {
                best = Some((score, dialect));
            }
        }
        let one = Self { delimiter: b',', has_header: true, is_renamed: false, columns: 1 };
        Ok(best.map_or(one, |(_, best)| best))
    }
}

fn rows(job: Job<'_>, delimiter: u8) -> io::Result<Vec<Vec<Vec<u8>>>> {
    let mut window = Window::first(job);
    skip_mark(&mut window);
    let mut cells = Cells::new(window, delimiter);
    let mut rows = vec![vec![]];
    let mut count = 0;
    while rows.len() <= ROWS && count < CELLS {
        let (cell, end) = cells.next();
        let text = cell.text.head.trim_ascii();
        count += 1;
        if let Some(row) = rows.last_mut() {
            row.push(text[..text.len().min(128)].to_vec());
        }
        match end {
            End::Cell => {}
            End::Row => rows.push(vec![]),
            End::File => break,
        }
    }
    cells.window.finish()?;
    // The last one may be cut short; the others may be empty.
    rows.pop_if(|_| rows_are_many(count));
    rows.retain(|row: &Vec<Vec<u8>>| row.iter().any(|cell| !cell.is_empty()));
    Ok(rows)
}

/// Returns true if there are commas in the cells, and all of them are before decimals: then it is
/// not they that separate cells.
fn has_decimal_commas(rows: &[Vec<Vec<u8>>]) -> bool {
    let mut cells = rows.iter().flatten().filter(|cell| cell.contains(&b','));
    let is_number = |cell: &Vec<u8>| number::with_comma(cell, &mut [0; COMMA_BYTES]).is_some();
    cells.clone().next().is_some() && cells.all(is_number)
}

fn rows_are_many(count: usize) -> bool {
    count >= CELLS
}

/// Names are texts, all different, and not typed as the cells below them are.
pub(crate) fn has_header(rows: &[Vec<Vec<u8>>]) -> bool {
    let Some((first, others)) = rows.split_first() else { return true };
    let has_comma = |cell: &[u8]| number::with_comma(cell, &mut [0; COMMA_BYTES]).is_some();
    let is_data = |cell: &Vec<u8>| {
        number::read(cell).is_some() || date::read(cell).is_some() || has_comma(cell)
    };
    if first.iter().any(is_data) {
        return false;
    }
    // A column of numbers or dates below a text: names may be missing or come again.
    let is_column_of_data = |place: usize| {
        let mut below = others.iter().filter_map(|row| row.get(place)).filter(|c| !c.is_empty());
        below.clone().next().is_some() && below.all(is_data) && !first[place].is_empty()
    };
    if (0..first.len()).any(is_column_of_data) {
        return true;
    }
    // Some names may be missing, as in a first line that is only a title. The others must differ.
    let filled = || first.iter().enumerate().filter(|(_, cell)| !cell.is_empty());
    let unique: std::collections::HashSet<_> = filled().map(|(_, cell)| cell).collect();
    if unique.is_empty() || unique.len() < filled().count() {
        return false;
    }
    // Texts all the way down: a header unless the first row's values come again.
    let comes_again = |(place, name): (usize, &Vec<u8>)| {
        others.iter().any(|row| row.get(place).is_some_and(|cell| cell == name))
    };
    !filled().any(comes_again)
}
