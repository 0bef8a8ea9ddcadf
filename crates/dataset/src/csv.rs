//! Tables with delimiters, in one pass.
//!
//! Cells are typed as pandas would read them, with one exception: digits with
//! leading zeros stay texts, since the number forgets what the key needs.

mod cells;
mod dialect;

pub(crate) use cells::{Cell, Cells, End};
pub use dialect::Dialect;

use crate::column::{Text, Value};
use crate::content::Tally;
use crate::limits;
use crate::number;
use crate::problem::What;
use crate::read::{Job, Part, ReadError, skip_mark};
use crate::tree::{Id, ROOT, Tree};
use crate::window::Window;

/// What pandas reads as missing.
const MISSING: [&[u8]; 9] =
    [b"NA", b"N/A", b"null", b"NULL", b"NaN", b"nan", b"None", b"#N/A", b"<NA>"];

pub(crate) fn read(job: Job<'_>, size: u64) -> Result<(Part, Dialect), ReadError> {
    let dialect = Dialect::sniff(job).map_err(|error| job.io(error))?;
    let tally = Tally::new(0..size, size, job.cut.block);
    let mut window = Window::new(job, 0, Some(tally));
    skip_mark(&mut window);
    let mut part = Part::default();
    let mut cells = Cells::new(window, dialect.delimiter);
    let columns = header(&mut cells, &dialect, &mut part.tree);
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
    let tally = cells.window.finish().map_err(|error| job.io(error))?;
    part.blocks = tally.map(Tally::finish).unwrap_or_default();
    Ok((part, dialect))
}

/// One path for each column; none for those that are too many.
pub(crate) fn header(cells: &mut Cells<'_>, dialect: &Dialect, tree: &mut Tree) -> Vec<Option<Id>> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    if dialect.has_header {
        loop {
            let (cell, end) = cells.next();
            let name = cell.text.head.trim_ascii();
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
    let mut seen = std::collections::HashSet::new();
    let object = tree.begin_object(ROOT);
    let columns = names.iter().enumerate().map(|(place, name)| {
        // What pandas calls them.
        let mut unique =
            if name.is_empty() { format!("Unnamed: {place}").into_bytes() } else { name.clone() };
        let mut copy = 0;
        while !seen.insert(unique.clone()) {
            copy += 1;
            unique = [&name[..], format!(".{copy}").as_bytes()].concat();
        }
        tree.column(ROOT, &unique, object)
    });
    let columns = columns.collect();
    tree.node_mut(ROOT).counts.objects -= 1;
    columns
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
        if count == 0 && cell.text.head.is_empty() && !cell.is_quoted && end != End::Cell {
            if end == End::File {
                return Row::End;
            }
            if columns.len() > 1 {
                return Row::Blank;
            }
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
    match value(cell) {
        Some(Typed::Value(value)) => tree.add(id, value),
        Some(Typed::Bool(true)) => tree.node_mut(id).counts.trues += 1,
        Some(Typed::Bool(false)) => tree.node_mut(id).counts.falses += 1,
        None => tree.node_mut(id).counts.nulls += 1,
    }
}

/// A cell that is not empty.
#[derive(Debug)]
pub(crate) enum Typed<'a> {
    Value(Value<'a>),
    Bool(bool),
}

#[inline]
pub(crate) fn value<'a>(cell: &Cell<'a>) -> Option<Typed<'a>> {
    let text = cell.text;
    let head = text.head;
    match head {
        [] => return None,
        [b'0', b'0'..=b'9', ..] => {}
        [b'0'..=b'9' | b'-' | b'.', ..] if text.is_whole => {
            if let Some(number) = number::read(head).filter(|number| number.value().is_finite()) {
                return Some(Typed::Value(Value::Number(number, head)));
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
        [b'N' | b'n' | b'#' | b'<', ..] if head.len() <= 4 && MISSING.contains(&head) => {
            return None;
        }
        _ => {}
    }
    Some(Typed::Value(Value::Text(Text { ..text })))
}
