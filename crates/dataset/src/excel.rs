//! Excel workbooks (`.xlsx`, `.xlsm`), read row by row with the `calamine` crate.
//!
//! One sheet is the table: the first one that has cells. Its first row with cells is the header,
//! by the same rules as in CSV; rows without cells are passed over. `load_data` goes by the
//! [`Sheet`] that is found here, so that both read the same cells.

mod cell;

use std::io::BufReader;

use calamine::{Reader as _, SheetType, Xlsx};
use serde::{Deserialize, Serialize};

pub(crate) use cell::SheetCell;

use crate::coding::FileBytes;
use crate::csv;
use crate::limits;
use crate::problem::What;
use crate::read::{Job, Part, ReadError};
use crate::tree::ROOT;

/// Rows that are looked at to find the header and the columns.
const SNIFFED_ROWS: usize = 64;

/// Cells of one sheet that are read, on top of [`CELLS_PER_BYTE`] for each byte of its file.
const MIN_CELLS: u64 = if cfg!(fuzzing) { 1 << 16 } else { 1 << 26 };
const CELLS_PER_BYTE: u64 = 16;

/// Where the table of a workbook is. Rows and columns are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sheet {
    pub name: String,
    /// How many sheets the workbook has.
    pub sheets: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub header_row: Option<u32>,
    /// The first row that is a record.
    pub first_row: u32,
    pub first_column: u32,
    pub columns: u32,
}

type Book<'a> = Xlsx<BufReader<FileBytes<'a>>>;

/// One row: columns, counted from the table's first one, and what is in them.
pub(crate) type Row = [(usize, SheetCell)];

pub(crate) fn read(job: Job<'_>) -> Result<(Part, Sheet), ReadError> {
    let (sheet, names) = find(job)?;
    let mut part = Part::default();
    let columns = csv::columns(&mut part.tree, &names, &mut false);
    let mut moments = vec![0; columns.len()];
    let (tree, mut text_bytes, mut values, mut outside) = (&mut part.tree, 0, 0, 0);
    rows(job, &sheet, |row| {
        let mut at = 0;
        for (place, cell) in row {
            let Some(id) = columns.get(*place) else {
                outside += 1;
                continue;
            };
            for id in columns[at.min(*place)..*place].iter().flatten() {
                tree.node_mut(*id).counts.nulls += 1;
            }
            at = at.max(*place + 1);
            text_bytes += cell.bytes();
            moments[*place] += u64::from(matches!(cell, SheetCell::Moment(_)));
            match id {
                Some(id) => cell.put(tree, *id),
                None => tree.cut.keys += 1,
            }
        }
        for id in columns[at..].iter().flatten() {
            tree.node_mut(*id).counts.nulls += 1;
        }
        tree.node_mut(ROOT).counts.objects += 1;
        values += 1;
    })?;
    for (id, moments) in columns.iter().zip(moments).filter_map(|(id, n)| Some(((*id)?, n))) {
        let node = part.tree.node_mut(id);
        if moments > 0 && moments == node.counts.scalars() {
            node.stored_as = Some("timestamp".into());
        }
    }
    part.problems.add(What::RaggedRows, outside, None);
    (part.values, part.text_bytes) = (values, text_bytes);
    Ok((part, sheet))
}

/// Calls `each` with every row of a sheet that has cells. Cells left of the table are not told.
pub(crate) fn rows(
    job: Job<'_>,
    sheet: &Sheet,
    mut each: impl FnMut(&Row),
) -> Result<(), ReadError> {
    let mut book = open(job)?;
    let mut row = Vec::new();
    walk(job, &mut book, &sheet.name, |number, cells| {
        if number >= sheet.first_row {
            row.clear();
            for (column, cell) in cells {
                if let Some(place) = column.checked_sub(sheet.first_column) {
                    row.push((place as usize, std::mem::take(cell)));
                }
            }
            each(&row);
        }
        true
    })
}

/// The sheet that is the table, and the names of its columns.
fn find(job: Job<'_>) -> Result<(Sheet, Vec<Vec<u8>>), ReadError> {
    let mut book = open(job)?;
    let is_table = |sheet: &&calamine::Sheet| sheet.typ == SheetType::WorkSheet;
    let names: Vec<String> =
        book.sheets_metadata().iter().filter(is_table).map(|sheet| sheet.name.clone()).collect();
    for name in &names {
        let mut first: Vec<(u32, Vec<(u32, SheetCell)>)> = Vec::new();
        walk(job, &mut book, name, |number, cells| {
            first.push((number, std::mem::take(cells)));
            first.len() < SNIFFED_ROWS
        })?;
        if !first.is_empty() {
            return Ok(table(name, names.len(), &first));
        }
    }
    Err(ReadError::Empty { name: job.name.to_owned() })
}

fn table(
    name: &str,
    sheets: usize,
    rows: &[(u32, Vec<(u32, SheetCell)>)],
) -> (Sheet, Vec<Vec<u8>>) {
    let columns = || rows.iter().flat_map(|(_, cells)| cells.iter().map(|(column, _)| *column));
    let first_column = columns().min().unwrap_or_default();
    let most = u32::try_from(limits::KEYS).unwrap_or(u32::MAX);
    let width = (columns().max().unwrap_or_default() - first_column + 1).min(most);
    let texts: Vec<Vec<Vec<u8>>> = rows
        .iter()
        .map(|(_, cells)| {
            let mut texts = vec![Vec::new(); width as usize];
            for (column, cell) in cells {
                if let Some(text) = texts.get_mut((column - first_column) as usize) {
                    *text = cell.text().trim().as_bytes().to_vec();
                }
            }
            texts
        })
        .collect();
    let is_text = |(_, cell): &(u32, SheetCell)| matches!(cell, SheetCell::Text(_));
    let has_header = rows[0].1.iter().all(is_text) && csv::has_header(&texts);
    let names = match has_header {
        true => texts[0].iter().map(|name| cut(name)).collect(),
        false => (1..=width).map(|n| format!("column_{n}").into_bytes()).collect(),
    };
    let header_row = has_header.then_some(rows[0].0);
    let first_row = header_row.map_or(rows[0].0, |row| row + 1);
    let name = name.to_owned();
    (Sheet { name, sheets, header_row, first_row, first_column, columns: width }, names)
}

fn cut(name: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(&name[..name.len().min(limits::KEY_BYTES)])
        .trim_end_matches('\u{fffd}')
        .as_bytes()
        .to_vec()
}

fn open(job: Job<'_>) -> Result<Book<'_>, ReadError> {
    Book::new(BufReader::new(FileBytes::new(job.file, job.size)))
        .map_err(|error| broken(job, &error))
}

fn broken(job: Job<'_>, error: &calamine::XlsxError) -> ReadError {
    ReadError::Excel { name: job.name.to_owned(), why: error.to_string() }
}

/// Calls `each` with the number and the cells of every row that has any, until it says no.
fn walk(
    job: Job<'_>,
    book: &mut Book<'_>,
    sheet: &str,
    mut each: impl FnMut(u32, &mut Vec<(u32, SheetCell)>) -> bool,
) -> Result<(), ReadError> {
    let failed = |error: calamine::XlsxError| broken(job, &error);
    let mut cells = book.worksheet_cells_reader(sheet).map_err(failed)?;
    let mut left = job.size.saturating_mul(CELLS_PER_BYTE).saturating_add(MIN_CELLS);
    let mut row: Vec<(u32, SheetCell)> = Vec::new();
    let mut number = 0;
    loop {
        let next = cells.next_cell().map_err(failed)?;
        let at = next.as_ref().map(calamine::Cell::get_position);
        if at.is_none_or(|(row, _)| row != number) {
            if !row.is_empty() && !each(number, &mut row) {
                return Ok(());
            }
            row.clear();
        }
        let (Some(cell), Some((in_row, column))) = (next, at) else { return Ok(()) };
        number = in_row;
        left = left.checked_sub(1).ok_or_else(|| ReadError::Excel {
            name: job.name.to_owned(),
            why: "it has too many cells for a file of this size".to_owned(),
        })?;
        if let Some(cell) = SheetCell::new(cell.get_value()) {
            row.push((column, cell));
        }
    }
}
