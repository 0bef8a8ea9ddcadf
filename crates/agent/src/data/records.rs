//! Where records begin and end, found without understanding them.
//!
//! One byte after the other, in constant memory: a record may be longer than memory.
//! Nothing is decoded, so what a file holds cannot make this do anything but copy.

use std::io::{self, BufRead, Write};

/// What records are separated by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    /// A header is always kept.
    Csv {
        delimiter: u8,
        has_header: bool,
    },
    /// A JSON document that is one array. Its items come out one on each line.
    List,
}

impl Form {
    pub(super) fn has_header(self) -> bool {
        matches!(self, Self::Csv { has_header: true, .. })
    }
}

/// Records that were seen, those that were kept of them, and what these take. What
/// was written after so many bytes is a record that the file breaks off in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) records: u64,
    pub(super) kept: u64,
    pub(super) bytes: u64,
}

/// Why records could not be copied.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    #[error("the JSON document is not a list")]
    NoList,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What may stand before the first byte of a text.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Copies the records for whose numbers, from 0 on, `keep` says so.
pub(super) fn copy(
    from: &mut impl BufRead,
    to: &mut impl Write,
    form: Form,
    keep: impl FnMut(u64) -> bool,
) -> Result<Copied, CopyError> {
    let is_header = form.has_header();
    let mut copier =
        Copier { to, keep, open: None, is_header, copied: Copied::default(), written: 0 };
    let may_end = walk(from, form, |mark, byte| match mark {
        Mark::Between => Ok(()),
        Mark::Record => copier.take(byte),
        Mark::End => copier.end(),
    })?;
    if may_end {
        copier.end()?;
    }
    Ok(copier.copied)
}

/// Says of each byte what it is. Returns true if the file may end where it does: without that, it
/// breaks off a record.
pub(super) fn walk(
    from: &mut impl BufRead,
    form: Form,
    mut each: impl FnMut(Mark, u8) -> io::Result<()>,
) -> Result<bool, CopyError> {
    let mut splitter = Splitter::new(form);
    if from.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        from.consume(BYTE_ORDER_MARK.len());
    }
    loop {
        let piece = from.fill_buf()?;
        if piece.is_empty() {
            return Ok(splitter.may_end());
        }
        for &byte in piece {
            let mark = splitter.feed(byte).ok_or(CopyError::NoList)?;
            each(mark, byte)?;
        }
        let read = piece.len();
        from.consume(read);
    }
}

struct Copier<'t, T, K> {
    to: &'t mut T,
    keep: K,
    /// Whether the record that has begun is kept.
    open: Option<bool>,
    is_header: bool,
    copied: Copied,
    written: u64,
}

impl<T: Write, K: FnMut(u64) -> bool> Copier<'_, T, K> {
    fn take(&mut self, byte: u8) -> io::Result<()> {
        let is_kept = match self.open {
            Some(is_kept) => is_kept,
            None => self.is_header || (self.keep)(self.copied.records),
        };
        self.open = Some(is_kept);
        if is_kept {
            self.to.write_all(&[byte])?;
            self.written += 1;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(is_kept) = self.open.take() else { return Ok(()) };
        if is_kept {
            self.to.write_all(b"\n")?;
            self.written += 1;
            self.copied.bytes = self.written;
        }
        if !std::mem::replace(&mut self.is_header, false) {
            self.copied.records += 1;
            self.copied.kept += u64::from(is_kept);
        }
        Ok(())
    }
}

/// What a byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Record,
    /// The record before it, if there is one, ends here.
    End,
    /// Not of any record, or not needed in it.
    Between,
}

#[derive(Debug)]
enum Splitter {
    Lines { is_open: bool },
    Csv { delimiter: u8, at: Cell },
    List { at: Level, depth: u64 },
}

/// Where in a row of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    RowBegin,
    Begin,
    Plain,
    Quoted,
    /// A quote inside of quotes: their end, or the first half of one that is meant.
    Quote,
}

/// Where in a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Outside,
    Plain,
    Text,
    Escaped,
    Over,
}

impl Splitter {
    fn new(form: Form) -> Self {
        match form {
            Form::Lines => Self::Lines { is_open: false },
            Form::Csv { delimiter, .. } => Self::Csv { delimiter, at: Cell::RowBegin },
            Form::List => Self::List { at: Level::Outside, depth: 0 },
        }
    }

    /// None: this is no list.
    fn feed(&mut self, byte: u8) -> Option<Mark> {
        Some(match self {
            Self::Lines { is_open } => match byte {
                b'\n' => {
                    *is_open = false;
                    Mark::End
                }
                b' ' | b'\t' | b'\r' if !*is_open => Mark::Between,
                _ => {
                    *is_open = true;
                    Mark::Record
                }
            },
            Self::Csv { delimiter, at } => cell(at, *delimiter, byte),
            Self::List { at, depth } => return item(at, depth, byte),
        })
    }

    /// Whether a file may end here without breaking off a record.
    fn may_end(&self) -> bool {
        match self {
            Self::Lines { .. } => true,
            Self::Csv { at, .. } => *at != Cell::Quoted,
            Self::List { at, .. } => *at == Level::Over,
        }
    }
}

pub(super) fn cell(at: &mut Cell, delimiter: u8, byte: u8) -> Mark {
    let is_quoted = matches!(at, Cell::Quoted);
    if byte == b'\n' && !is_quoted {
        *at = Cell::RowBegin;
        return Mark::End;
    }
    *at = match (*at, byte) {
        (Cell::RowBegin, b'\r') => return Mark::Between,
        (Cell::RowBegin | Cell::Begin, b'"') | (Cell::Quote, b'"') => Cell::Quoted,
        (Cell::Quoted, b'"') => Cell::Quote,
        (Cell::Quoted, _) => Cell::Quoted,
        (_, byte) if byte == delimiter => Cell::Begin,
        _ => Cell::Plain,
    };
    Mark::Record
}

fn item(at: &mut Level, depth: &mut u64, byte: u8) -> Option<Mark> {
    let mark = match (*at, byte) {
        (Level::Over, _) => Mark::Between,
        (Level::Escaped, _) => {
            *at = Level::Text;
            Mark::Record
        }
        (Level::Text, _) => {
            match byte {
                b'\\' => *at = Level::Escaped,
                b'"' => *at = Level::Plain,
                _ => {}
            }
            Mark::Record
        }
        // Whatever stands between words of JSON does not matter, and lines are needed
        // for something else.
        (_, b' ' | b'\t' | b'\r' | b'\n') => Mark::Between,
        (Level::Outside, b'[') => {
            *at = Level::Plain;
            Mark::Between
        }
        (Level::Outside, _) => return None,
        (Level::Plain, b',') if *depth == 0 => Mark::End,
        (Level::Plain, b']' | b'}') if *depth == 0 => {
            *at = Level::Over;
            Mark::End
        }
        (Level::Plain, _) => {
            match byte {
                b'"' => *at = Level::Text,
                b'[' | b'{' => *depth += 1,
                b']' | b'}' => *depth -= 1,
                _ => {}
            }
            Mark::Record
        }
    };
    Some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: Form = Form::Csv { delimiter: b',', has_header: true };

    #[track_caller]
    fn check(form: Form, text: &str, keep: &[u64], want: &str, records: u64) {
        // Pieces of any size, so that every state is met at a seam.
        for size in [1, 2, 3, 7, 1000] {
            let mut from = io::BufReader::with_capacity(size.max(3), text.as_bytes());
            let mut to = Vec::new();
            let copied = copy(&mut from, &mut to, form, |number| keep.contains(&number)).unwrap();
            to.truncate(usize::try_from(copied.bytes).unwrap());
            assert_eq!(String::from_utf8(to).unwrap(), want, "{text}");
            assert_eq!((copied.records, copied.kept), (records, keep.len() as u64), "{text}");
        }
    }

    #[test]
    fn lines_are_records_and_empty_ones_are_not() {
        check(
            Form::Lines,
            "{\"a\":1}\n\n  \r\n{\"a\":2}\r\n{\"a\":3}",
            &[0, 2],
            "{\"a\":1}\n{\"a\":3}\n",
            3,
        );
        check(Form::Lines, "\u{feff}{}\n", &[0], "{}\n", 1);
        check(Form::Lines, "", &[], "", 0);
    }

    #[test]
    fn a_row_may_have_lines_inside_of_quotes() {
        let text = "id,note\n1,\"two\nlines, \"\"said\"\"\"\n2,5\" pipe\n3,\"\"\n4,last";
        check(CSV, text, &[0], "id,note\n1,\"two\nlines, \"\"said\"\"\"\n", 4);
        check(CSV, text, &[1, 2], "id,note\n2,5\" pipe\n3,\"\"\n", 4);
        check(CSV, text, &[3], "id,note\n4,last\n", 4);
        check(CSV, "id\n\n1\n\r\n2\n", &[1], "id\n2\n", 2);
        let bare = Form::Csv { delimiter: b';', has_header: false };
        check(bare, "1;a\n2;b\n3;c\n", &[1], "2;b\n", 3);
        // Cut off inside of quotes.
        check(CSV, "id\n1\n\"2", &[0], "id\n1\n", 1);
    }

    #[test]
    fn items_of_a_list_come_one_on_each_line() {
        let text =
            " [ {\"a\": [1, {\"b\": \"x, ]\\\" \\\\\"}],\n \"c\" : 2 } ,\n3, \"t w\", [], null ] ";
        let first = "{\"a\":[1,{\"b\":\"x, ]\\\" \\\\\"}],\"c\":2}\n";
        check(Form::List, text, &[0], first, 5);
        check(Form::List, text, &[1, 2, 3, 4], "3\n\"t w\"\n[]\nnull\n", 5);
        check(Form::List, "[]", &[], "", 0);
        // Cut off in the middle.
        check(Form::List, "[{\"a\":1},{\"a\":", &[0], "{\"a\":1}\n", 1);
        let object = copy(&mut "{\"a\":[1]}".as_bytes(), &mut Vec::new(), Form::List, |_| true);
        assert!(matches!(object, Err(CopyError::NoList)));
    }
}
