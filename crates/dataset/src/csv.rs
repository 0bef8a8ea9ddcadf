//! Tables with delimiters, in one pass.
//!
//! Cells are typed as pandas would read them, with one exception: digits with
//! leading zeros stay texts, since the number forgets what the key needs.

mod cells;
mod dialect;

pub(crate) use cells::{Cell, Cells, End};
pub use dialect::Dialect;
pub(crate) use dialect::has_header;

use crate::column::{Text, Value};
use crate::content::Tally;
use crate::limits;
use crate::number::{self, COMMA_BYTES};
use crate::problem::What;
use crate::read::{Job, Part, ReadError, skip_mark};
use crate::tree::{Id, ROOT, Tree};
use crate::window::Window;

/// What pandas reads as missing, apart from nothing.
const MISSING: [&[u8]; 18] = [
    b"NA",
    b"N/A",
    b"n/a",
    b"null",
    b"NULL",
    b"NaN",
    b"nan",
    b"None",
    b"#N/A",
    b"#NA",
    b"<NA>",
    b"-NaN",
    b"-nan",
    b"1.#IND",
    b"-1.#IND",
    b"1.#QNAN",
    b"-1.#QNAN",
    b"#N/A N/A",
];

/// Returns true for a cell that pandas reads as missing.
pub fn is_missing(cell: &[u8]) -> bool {
    cell.is_empty() || MISSING.contains(&cell)
}

/// `commas` are the columns whose numbers have decimal commas, as [`decimal_commas`] finds them.
pub(crate) fn read(job: Job<'_>, commas: &[bool]) -> Result<(Part, Dialect), ReadError> {
    let mut dialect = Dialect::sniff(job).map_err(|error| job.io(error))?;
    let mut window = Window::new(job, 0, job.tally(0..job.size));
    skip_mark(&mut window);
    let mut part = Part::default();
    let mut cells = Cells::new(window, dialect.delimiter);
    let columns = header(&mut cells, &mut dialect, &mut part.tree);
    for id in columns.iter().zip(commas).filter(|(_, has)| **has).filter_map(|(id, _)| *id) {
        part.tree.node_mut(id).has_commas = true;
    }
    let mut ragged = (0, None);
    loop {
        let begin = cells.window.offset();
        match row(&mut cells, &columns, &mut part.tree) {
            Row::Blank => {}
            Row::End => break,
            Row::Cells(count) => {
                part.values += 1;
                if count != columns.len() {
                    ragged.0 += 1;
                    ragged.1.get_or_insert(begin);
                }
            }
        }
    }
    part.problems.add(What::RaggedRows, ragged.0, ragged.1);
    let (count, first) = cells.not_utf8.unwrap_or_default();
    part.problems.add(What::NotUtf8, count, Some(first));
    part.problems.add(What::OpenQuote, u64::from(cells.open_quote.is_some()), cells.open_quote);
    part.text_bytes = cells.window.seen();
    let tally = cells.window.finish().map_err(|error| job.io(error))?;
    part.blocks = tally.map(Tally::finish).unwrap_or_default();
    Ok((part, dialect))
}

/// The columns all of whose values are numbers if a comma is before their decimals, and some are
/// numbers only so. `1,234` can be English; it is not where cells are separated by semicolons.
pub(crate) fn decimal_commas(tree: &Tree, dialect: &Dialect) -> Vec<bool> {
    let has = |id: &Id| {
        let node = tree.node(*id);
        let counts = node.counts;
        let others = counts.scalars() - counts.ints - counts.texts;
        let many = node.column.many();
        many.texts.as_ref().is_some_and(|texts| {
            let commas = texts.commas;
            let is_meant = commas.certain > 0 || dialect.delimiter == b';';
            others == 0 && commas.numbers == texts.count && commas.written > 0 && is_meant
        })
    };
    tree.node(ROOT).children.iter().map(has).collect()
}

/// One path for each column; none for those that are too many.
pub(crate) fn header(
    cells: &mut Cells<'_>,
    dialect: &mut Dialect,
    tree: &mut Tree,
) -> Vec<Option<Id>> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut is_renamed = !dialect.has_header;
    if dialect.has_header {
        loop {
            let (cell, end) = cells.next();
            if names.is_empty() && end == End::Row && is_blank(&cell) {
                continue;
            }
            let name = cell.text.head.trim_ascii();
            is_renamed |= name.len() < cell.text.head.len() || name.len() > limits::KEY_BYTES;
            let name = &name[..name.len().min(limits::KEY_BYTES)];
            if names.len() < 2 * limits::KEYS {
                names.push(name.to_vec());
            }
            if end != End::Cell {
                break;
            }
        }
    } else {
        names = (1..=dialect.columns).map(|n| format!("column_{n}").into_bytes()).collect();
    }
    let columns = columns(tree, &names, &mut is_renamed);
    dialect.is_renamed = is_renamed;
    columns
}

/// Makes a path for each name of a table's columns. Names that are missing or come again get what
/// pandas calls them, and `is_renamed` is set.
pub(crate) fn columns(
    tree: &mut Tree,
    names: &[Vec<u8>],
    is_renamed: &mut bool,
) -> Vec<Option<Id>> {
    let mut seen = std::collections::HashSet::new();
    let object = tree.begin_object(ROOT);
    let columns = names.iter().enumerate().map(|(place, name)| {
        let mut unique =
            if name.is_empty() { format!("Unnamed: {place}").into_bytes() } else { name.clone() };
        let mut copy = 0;
        while !seen.insert(unique.clone()) {
            copy += 1;
            unique = [&name[..], format!(".{copy}").as_bytes()].concat();
        }
        *is_renamed |= unique != *name;
        tree.column(ROOT, &unique, object)
    });
    let columns = columns.collect();
    tree.node_mut(ROOT).counts.objects -= 1;
    columns
}

/// Returns true for a cell that, alone in its row, makes an empty line.
fn is_blank(cell: &Cell<'_>) -> bool {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    !cell.is_quoted && cell.text.is_whole && cell.text.head.iter().all(is_space)
}

enum Row {
    Blank,
    Cells(usize),
    End,
}

fn row(cells: &mut Cells<'_>, columns: &[Option<Id>], tree: &mut Tree) -> Row {
    let mut count = 0;
    loop {
        let (cell, end) = cells.next();
        if count == 0 && end != End::Cell && is_blank(&cell) {
            return if end == End::File { Row::End } else { Row::Blank };
        }
        match columns.get(count) {
            Some(Some(id)) => put(tree, *id, &cell),
            _ => tree.cut.keys += u64::from(count < columns.len()),
        }
        count += 1;
        if end != End::Cell {
            // What a short row lacks is missing, as an empty cell is.
            for id in columns.iter().skip(count).flatten() {
                tree.node_mut(*id).counts.nulls += 1;
            }
            tree.node_mut(ROOT).counts.objects += 1;
            return Row::Cells(count);
        }
    }
}

#[inline]
fn put(tree: &mut Tree, id: Id, cell: &Cell<'_>) {
    let mut usual = [0; COMMA_BYTES];
    let commas = if tree.node(id).has_commas { Some(&mut usual) } else { None };
    match value(cell, commas) {
        Some(Typed::Value(value)) => tree.add(id, value),
        Some(Typed::Bool(true)) => tree.node_mut(id).counts.trues += 1,
        Some(Typed::Bool(false)) => tree.node_mut(id).counts.falses += 1,
        Some(Typed::NotFinite) => tree.node_mut(id).counts.not_finite += 1,
        None => tree.node_mut(id).counts.nulls += 1,
    }
}

/// A cell that is not empty.
#[derive(Debug)]
pub(crate) enum Typed<'a> {
    Value(Value<'a>),
    Bool(bool),
    /// An infinity, or a number beyond what a float holds.
    NotFinite,
}

/// What pandas makes of a cell. Numbers have a decimal comma if there is room for their usual form.
#[inline]
pub(crate) fn value<'a>(
    cell: &Cell<'a>,
    commas: Option<&'a mut [u8; COMMA_BYTES]>,
) -> Option<Typed<'a>> {
    let text = cell.text;
    let head = text.head;
    if let Some(usual) = commas
        && text.is_whole
        && let Some((digits, _)) = number::with_comma(head, usual)
        && let Some(number) = number::read(digits)
    {
        return Some(Typed::Value(Value::Number(number, digits)));
    }
    match head {
        [] => return None,
        [b'0', b'0'..=b'9', ..] => {}
        [b'0'..=b'9' | b'-' | b'.' | b'+' | b' ' | b'i' | b'I', ..] if text.is_whole => {
            if let Some(number) = plain_number(head) {
                return Some(number);
            }
        }
        [b't' | b'T' | b'f' | b'F', ..] if head.len() <= 5 => {
            if head.eq_ignore_ascii_case(b"true") {
                return Some(Typed::Bool(true));
            }
            if head.eq_ignore_ascii_case(b"false") {
                return Some(Typed::Bool(false));
            }
        }
        _ => {}
    }
    let may_be_missing = matches!(head[0], b'N' | b'n' | b'#' | b'<' | b'-' | b'1');
    if may_be_missing && head.len() <= 8 && MISSING.contains(&head) {
        return None;
    }
    Some(Typed::Value(Value::Text(Text { ..text })))
}

/// A number as pandas takes it: with space around it, or a sign before it.
#[inline]
fn plain_number(head: &[u8]) -> Option<Typed<'_>> {
    let digits = match head {
        [b'0'..=b'9' | b'-' | b'.', .., b'0'..=b'9'] => head,
        _ => head.trim_ascii(),
    };
    let digits = digits.strip_prefix(b"+").filter(|rest| !rest.starts_with(b"-")).unwrap_or(digits);
    match number::read(digits) {
        Some(_) if matches!(digits, [b'0', b'0'..=b'9', ..]) => None,
        Some(number) if number.value().is_finite() => {
            Some(Typed::Value(Value::Number(number, digits)))
        }
        Some(_) => Some(Typed::NotFinite),
        None => {
            let word = digits.strip_prefix(b"-").unwrap_or(digits);
            let is_infinite =
                word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity");
            is_infinite.then_some(Typed::NotFinite)
        }
    }
}
