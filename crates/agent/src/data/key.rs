//! The key of each record, read while records are found.
//!
//! Only this one value is decoded, in memory that does not grow with the record. It gets one form
//! in all formats, so that records of several files which can be joined have the same key:
//!
//! | In the file | Key |
//! |---|---|
//! | `7`, `"7"`, ` 7 `, `+7` | `7` |
//! | `"a\u0062"` in JSON, `"ab"` in CSV | `ab` |
//! | nothing, `null`, an object, in CSV also `NA` and the like | none |
//!
//! Two values that a join tells apart may have the same form. Two that it matches never have
//! different ones, as far as a description calls a relationship proven.

use std::io::BufRead;

use belljar_dataset::is_missing;

use super::records::{Cell, CopyError, Form, Mark, cell, walk};

/// A longer value is no key.
const MAX_KEY_BYTES: usize = 4096;

/// The place of the key in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    /// In CSV, from 0.
    Cell(usize),
    /// The name in a JSON object.
    Field(String),
}

/// Passes on the key of each record, in order.
pub(super) fn keys(
    from: &mut impl BufRead,
    form: Form,
    column: &Column,
    each: impl FnMut(Option<&[u8]>),
) -> Result<(), CopyError> {
    let mut reader = Reader {
        finder: Finder::new(form, column),
        is_open: false,
        is_header: form.has_header(),
        each,
    };
    let may_end = walk(from, form, |mark, byte| {
        match mark {
            Mark::Between => {}
            Mark::Record => reader.take(byte),
            Mark::End => reader.end(),
        }
        Ok(())
    })?;
    if may_end {
        reader.end();
    }
    Ok(())
}

struct Reader<'c, E> {
    finder: Finder<'c>,
    is_open: bool,
    is_header: bool,
    each: E,
}

impl<E: FnMut(Option<&[u8]>)> Reader<'_, E> {
    fn take(&mut self, byte: u8) {
        if !std::mem::replace(&mut self.is_open, true) {
            self.finder.begin();
        }
        self.finder.feed(byte);
    }

    fn end(&mut self) {
        let is_record = std::mem::take(&mut self.is_open);
        if is_record && !std::mem::replace(&mut self.is_header, false) {
            (self.each)(self.finder.key());
        }
    }
}

/// The bytes of one value.
#[derive(Debug, Default)]
struct Token {
    bytes: Vec<u8>,
    is_long: bool,
}

impl Token {
    fn clear(&mut self) {
        self.bytes.clear();
        self.is_long = false;
    }

    fn push(&mut self, byte: u8) {
        if self.bytes.len() < MAX_KEY_BYTES {
            self.bytes.push(byte);
        } else {
            self.is_long = true;
        }
    }

    fn whole(&self) -> Option<&[u8]> {
        (!self.is_long).then_some(&self.bytes)
    }
}

/// Finds the key among the bytes of a record.
#[derive(Debug)]
enum Finder<'c> {
    Cell(InCells),
    Field(InFields<'c>),
    /// The file is none that could have this column.
    Nowhere,
}

impl<'c> Finder<'c> {
    fn new(form: Form, column: &'c Column) -> Self {
        match (form, column) {
            (Form::Csv { delimiter, .. }, Column::Cell(wanted)) => Self::Cell(InCells {
                wanted: *wanted,
                delimiter,
                at: Cell::RowBegin,
                place: 0,
                token: Token::default(),
            }),
            (Form::Lines | Form::List, Column::Field(wanted)) => Self::Field(InFields::new(wanted)),
            (Form::Csv { .. }, Column::Field(_)) | (Form::Lines | Form::List, Column::Cell(_)) => {
                Self::Nowhere
            }
        }
    }

    fn begin(&mut self) {
        match self {
            Self::Cell(cells) => cells.begin(),
            Self::Field(fields) => fields.begin(),
            Self::Nowhere => {}
        }
    }

    fn feed(&mut self, byte: u8) {
        match self {
            Self::Cell(cells) => cells.feed(byte),
            Self::Field(fields) => fields.feed(byte),
            Self::Nowhere => {}
        }
    }

    /// The key of the record that has ended.
    fn key(&self) -> Option<&[u8]> {
        let text = match self {
            Self::Cell(cells) => cells.token.whole()?,
            Self::Field(fields) => fields.key.as_deref()?,
            Self::Nowhere => return None,
        };
        let text = text.trim_ascii();
        if matches!(self, Self::Cell(_)) && is_missing(text) {
            return None;
        }
        let text = text.strip_prefix(b"+").unwrap_or(text);
        (!text.is_empty()).then_some(text)
    }
}

/// One cell of a row.
#[derive(Debug)]
struct InCells {
    wanted: usize,
    delimiter: u8,
    at: Cell,
    place: usize,
    token: Token,
}

impl InCells {
    fn begin(&mut self) {
        (self.at, self.place) = (Cell::RowBegin, 0);
        self.token.clear();
    }

    fn feed(&mut self, byte: u8) {
        let before = self.at;
        cell(&mut self.at, self.delimiter, byte);
        if byte == self.delimiter && before != Cell::Quoted {
            self.place += 1;
            return;
        }
        // A quote that begins or ends a cell is not in it. The second of two is.
        let is_border = byte == b'"' && !matches!(before, Cell::Plain | Cell::Quote);
        if self.place == self.wanted && !is_border {
            self.token.push(byte);
        }
    }
}

/// One field of an object.
#[derive(Debug)]
struct InFields<'c> {
    wanted: &'c str,
    /// As it is usually written.
    written: Vec<u8>,
    depth: u64,
    is_object: bool,
    text: Text,
    /// A name or a value of the outermost object.
    token: Token,
    part: Part,
    key: Option<Vec<u8>>,
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    Escaped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Name,
    Wanted,
    /// The wanted value, and it is an object or an array.
    Nested,
    Other,
}

impl<'c> InFields<'c> {
    fn new(wanted: &'c str) -> Self {
        Self {
            wanted,
            written: serde_json::to_vec(wanted).unwrap_or_default(),
            depth: 0,
            is_object: false,
            text: Text::Outside,
            token: Token::default(),
            part: Part::Name,
            key: None,
        }
    }

    fn begin(&mut self) {
        (self.depth, self.is_object, self.text) = (0, false, Text::Outside);
        (self.part, self.key) = (Part::Name, None);
        self.token.clear();
    }

    fn feed(&mut self, byte: u8) {
        match (self.text, byte) {
            (Text::Escaped, _) => {
                self.text = Text::Inside;
                self.keep(byte);
            }
            (Text::Inside, _) => {
                self.keep(byte);
                match byte {
                    b'\\' => self.text = Text::Escaped,
                    b'"' => self.text = Text::Outside,
                    _ => {}
                }
            }
            (Text::Outside, b'"') => {
                self.text = Text::Inside;
                self.keep(byte);
            }
            (Text::Outside, b' ' | b'\t' | b'\r' | b'\n') => {}
            (Text::Outside, b'{' | b'[') => self.open(byte),
            (Text::Outside, b'}' | b']') => {
                if self.depth == 1 {
                    self.close();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            (Text::Outside, b':') if self.depth == 1 => {
                let is_wanted = self.is_object && self.is_wanted();
                self.part = if is_wanted { Part::Wanted } else { Part::Other };
                self.token.clear();
            }
            (Text::Outside, b',') if self.depth == 1 => self.close(),
            (Text::Outside, _) => self.keep(byte),
        }
    }

    fn open(&mut self, byte: u8) {
        match self.depth {
            0 => self.is_object = byte == b'{',
            1 if self.part == Part::Wanted => self.part = Part::Nested,
            _ => {}
        }
        self.depth += 1;
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && matches!(self.part, Part::Name | Part::Wanted) {
            self.token.push(byte);
        }
    }

    /// A field has ended. The last one of a name counts.
    fn close(&mut self) {
        match self.part {
            Part::Wanted => self.key = self.token.whole().and_then(decoded),
            Part::Nested => self.key = None,
            Part::Name | Part::Other => {}
        }
        self.part = Part::Name;
        self.token.clear();
    }

    fn is_wanted(&self) -> bool {
        let Some(name) = self.token.whole() else { return false };
        let is_other = || {
            let name = serde_json::from_slice::<String>(name);
            name.is_ok_and(|name| name == self.wanted)
        };
        name == self.written || (name.contains(&b'\\') && is_other())
    }
}

/// A text or a number; none: it is something else.
fn decoded(value: &[u8]) -> Option<Vec<u8>> {
    match value {
        [b'"', text @ .., b'"'] if !text.contains(&b'\\') => Some(text.to_vec()),
        [b'"', ..] => Some(serde_json::from_slice::<String>(value).ok()?.into_bytes()),
        [b'-' | b'0'..=b'9', ..] => Some(value.to_vec()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: Form = Form::Csv { delimiter: b',', has_header: true };

    #[track_caller]
    fn check(form: Form, column: &Column, text: &str, want: &[Option<&str>]) {
        // Pieces of any size, so that every state is met at a seam.
        for size in [3, 7, 1000] {
            let mut found = Vec::new();
            let mut from = std::io::BufReader::with_capacity(size, text.as_bytes());
            keys(&mut from, form, column, |key| {
                found.push(key.map(|key| String::from_utf8_lossy(key).into_owned()));
            })
            .unwrap();
            let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
            assert_eq!(found, want, "{text}");
        }
    }

    #[test]
    fn a_key_has_one_form_in_all_formats() {
        let second = Column::Cell(1);
        let id = Column::Field("id".to_owned());
        let want = [Some("7"), Some("7"), Some("a b"), Some("ä\"b"), None, None];
        let rows = "n,id\n1,7\n2, +7 \r\n\n3,\"a b\"\n4,\"ä\"\"b\"\n5,\n6,NA\n";
        check(CSV, &second, rows, &want);
        let tabs = rows.replace(',', "\t");
        check(Form::Csv { delimiter: b'\t', has_header: true }, &second, &tabs, &want);
        let lines = [
            r#"{"n": 1, "id": 7}"#,
            r#"{"id":"+7", "n": [{"id": 9}, "\"id\": 8"]}"#,
            r#"{"other": {"id": 1}, "id" : "a b" }"#,
            r#"{"\u0069d": "\u00e4\"b"}"#,
            r#"{"id": null}"#,
            r#"{"id": {"id": 3}}"#,
        ];
        check(Form::Lines, &id, &lines.join("\r\n"), &want);
        check(Form::List, &id, &format!(" [{}]\n", lines.join(" , ")), &want);
    }

    #[test]
    fn what_is_no_value_of_the_column_is_no_key() {
        let id = Column::Field("id".to_owned());
        let long = "x".repeat(MAX_KEY_BYTES + 1);
        let lines = format!(
            "[\"id\", 1]\n3\n\"id\"\n{{}}\n{{\"id\": true}}\n{{\"ids\": 1}}\n{{\"id\": \"{long}\"}}\n\
             {{\"id\": 1, \"id\": 2}}\n"
        );
        let none = [None; 7];
        check(Form::Lines, &id, &lines, &[&none[..], &[Some("2")][..]].concat());
        let bare = Form::Csv { delimiter: b';', has_header: false };
        check(bare, &Column::Cell(1), &format!("1\n1;{long}\n1;2\n"), &[None, None, Some("2")]);
        // A row may have lines inside of quotes, and delimiters.
        check(CSV, &Column::Cell(1), "n,id\n\"a,\nb\",4\n", &[Some("4")]);
        check(CSV, &id, "n,id\n1,4\n", &[None]);
    }
}
