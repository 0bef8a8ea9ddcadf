//! Tables that are made up, and the forms in which they are written.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};

/// The same numbers for the same seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Float,
    Text,
    /// A day, as text.
    Date,
    /// A day that the file itself says to be one.
    Moment,
    Bool,
    /// Digits with leading zeros.
    Padded,
}

pub(super) struct Made {
    /// As it is described and loaded.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// In its usual form.
    pub(super) cells: Vec<Option<String>>,
}

impl Made {
    fn there(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().flatten().map(String::as_str)
    }

    fn numbers(&self) -> impl Iterator<Item = f64> {
        self.there().map(|cell| cell.parse().unwrap())
    }

    pub(super) fn sum(&self) -> f64 {
        self.numbers().sum()
    }

    pub(super) fn range(&self) -> (f64, f64) {
        self.numbers().fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(n), high.max(n)))
    }

    pub(super) fn distinct(&self) -> u64 {
        let values: BTreeSet<String> = match self.kind {
            Kind::Int | Kind::Float => self.numbers().map(|n| n.to_string()).collect(),
            _ => self.there().map(str::to_owned).collect(),
        };
        values.len() as u64
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.there().map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf8Marked,
    Utf16,
    Utf16Big,
    Utf16Bare,
    Latin1,
    Windows,
}

pub(super) struct Table {
    pub(super) file: String,
    /// For messages.
    pub(super) form: String,
    pub(super) rows: u64,
    pub(super) columns: Vec<Made>,
    /// As they are written in the header; none: there is no header.
    header: Option<Vec<String>>,
    encoding: Encoding,
    delimiter: char,
    decimal: char,
    line: &'static str,
    packed: &'static str,
    /// Where the table of a workbook begins.
    at: Option<(u64, u64)>,
}

impl Table {
    pub(super) fn random(random: &mut Random, number: u64, is_book: bool) -> Self {
        let rows = random.one(&[1, 2, 7, 30, 300, 700]);
        let encodings = [
            Encoding::Utf8,
            Encoding::Utf8Marked,
            Encoding::Utf16,
            Encoding::Utf16Big,
            Encoding::Utf16Bare,
            Encoding::Latin1,
            Encoding::Windows,
        ];
        let encoding = if is_book { Encoding::Utf8 } else { random.one(&encodings) };
        let delimiter = random.one(&[',', ';', '\t', '|']);
        let decimal = if delimiter == ';' && !is_book { ',' } else { '.' };
        let line = random.one(&["\n", "\r\n"]);
        let packed = if is_book { "" } else { random.one(&["", "", ".gz", ".zst"]) };
        let has_header = random.happens(65);
        let mut columns = vec![column(random, "id", Kind::Int, rows, encoding, 0)];
        // The first row has to look like data if it is not a header.
        columns[0].cells[0] = Some("1001".into());
        let kinds = [Kind::Int, Kind::Float, Kind::Text, Kind::Date, Kind::Bool, Kind::Padded];
        for place in 0..1 + random.below(6) {
            let kind = match random.one(&kinds) {
                Kind::Date if is_book => Kind::Moment,
                kind => kind,
            };
            let gaps = random.one(&[0, 0, 20]);
            columns.push(column(random, &format!("c{place}"), kind, rows, encoding, gaps));
        }
        let at = is_book.then(|| (random.below(3), random.below(3)));
        let header = has_header.then(|| names(random, &mut columns));
        if header.is_none() {
            for (place, column) in columns.iter_mut().enumerate() {
                column.name = format!("column_{}", place + 1);
            }
        }
        let file =
            if is_book { format!("t{number}.xlsx") } else { format!("t{number}.csv{packed}") };
        let form = format!(
            "{file}: {rows} rows, {encoding:?}, {delimiter:?}, {decimal:?}, {line:?}, header {header:?}"
        );
        Self { file, form, rows, columns, header, encoding, delimiter, decimal, line, packed, at }
    }

    /// The text of the file.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |cells: Vec<String>| {
            let _ = write!(text, "{}{}", cells.join(&self.delimiter.to_string()), self.line);
        };
        if let Some(header) = &self.header {
            row(header.iter().map(|name| self.quoted(name)).collect());
        }
        for at in 0..usize::try_from(self.rows).unwrap() {
            row(self.columns.iter().map(|column| self.cell(column, at)).collect());
        }
        text
    }

    fn cell(&self, column: &Made, at: usize) -> String {
        match (column.kind, &column.cells[at]) {
            (_, None) => String::new(),
            (Kind::Float, Some(cell)) => cell.replace('.', &self.decimal.to_string()),
            (_, Some(cell)) => self.quoted(cell),
        }
    }

    fn quoted(&self, text: &str) -> String {
        let special = [self.delimiter, '"', '\n', '\r'];
        match text.contains(special) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        }
    }

    /// The file.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let text = self.text();
        let utf16 = |mark: &str, bytes: fn(u16) -> [u8; 2]| {
            let all = mark.encode_utf16().chain(text.encode_utf16());
            all.flat_map(bytes).collect::<Vec<u8>>()
        };
        let single = |c: char| if c == '€' { 0x80 } else { u8::try_from(c).unwrap() };
        let bytes = match self.encoding {
            Encoding::Utf8 => text.into_bytes(),
            Encoding::Utf8Marked => format!("\u{feff}{text}").into_bytes(),
            Encoding::Utf16 => utf16("\u{feff}", u16::to_le_bytes),
            Encoding::Utf16Big => utf16("\u{feff}", u16::to_be_bytes),
            Encoding::Utf16Bare => utf16("", u16::to_le_bytes),
            Encoding::Latin1 | Encoding::Windows => text.chars().map(single).collect(),
        };
        match self.packed {
            ".gz" => {
                let fast = flate2::Compression::fast();
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), fast);
                packed.write_all(&bytes).unwrap();
                packed.finish().unwrap()
            }
            ".zst" => zstd::encode_all(&*bytes, 1).unwrap(),
            _ => bytes,
        }
    }

    /// The cells of a workbook, if it is one.
    pub(super) fn book(&self) -> Option<Value> {
        let (down, right) = self.at?;
        let header = self.header.as_ref().map(|names| json!(names));
        let rows = (0..usize::try_from(self.rows).unwrap()).map(|at| {
            let cells = self.columns.iter().map(|column| match (column.kind, &column.cells[at]) {
                (_, None) => Value::Null,
                (Kind::Int, Some(cell)) => cell.parse::<i64>().unwrap().into(),
                (Kind::Float, Some(cell)) => cell.parse::<f64>().unwrap().into(),
                (Kind::Bool, Some(cell)) => (cell == "True").into(),
                (Kind::Moment, Some(cell)) => format!("date:{cell}").into(),
                (_, Some(cell)) => cell.as_str().into(),
            });
            cells.collect::<Value>()
        });
        let rows: Vec<Value> = header.into_iter().chain(rows).collect();
        Some(json!({ "rows": rows, "down": down, "right": right }))
    }
}

/// What the header says; columns are called what readers make of it.
fn names(random: &mut Random, columns: &mut [Made]) -> Vec<String> {
    let mut header: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    match random.below(4) {
        0 => header[0] = " id ".into(),
        1 if columns.len() > 2 => {
            header[2] = header[1].clone();
            columns[2].name = format!("{}.1", columns[1].name);
        }
        2 => {
            header[1].push_str(" (Größe)");
            columns[1].name.clone_from(&header[1]);
        }
        _ => {}
    }
    header
}

fn column(
    random: &mut Random,
    name: &str,
    kind: Kind,
    rows: u64,
    encoding: Encoding,
    gaps: u64,
) -> Made {
    let mut words =
        vec!["Köln", "München", "Zürich", "plain", "a b", "x;y|z", "quo\"te", "5 %", "l\nb"];
    match encoding {
        Encoding::Latin1 => {}
        Encoding::Windows => words.push("€ 5"),
        _ => words.extend(["€ 5", "Łódź", "日本"]),
    }
    let is_dotted = random.happens(50);
    let mut cells: Vec<Option<String>> = Vec::new();
    for row in 0..rows {
        let cell = match kind {
            Kind::Int => (random.below(100_000) as i64 - 50_000).to_string(),
            Kind::Float => format!("{}.{}5", random.below(9000), random.below(10)),
            Kind::Text => random.one(&words).to_owned(),
            Kind::Bool => random.one(&["True", "False"]).to_owned(),
            Kind::Padded => format!("0{:04}", random.below(10_000)),
            Kind::Moment => format!("2026-{:02}-{:02}", 1 + random.below(12), 1 + random.below(28)),
            Kind::Date => {
                let (month, day) = (1 + random.below(12), 1 + random.below(28));
                match is_dotted {
                    true => format!("{day:02}.{month:02}.2026"),
                    false => format!("2026-{month:02}-{day:02}"),
                }
            }
        };
        let is_gap = row > 0 && random.happens(gaps);
        cells.push((!is_gap).then_some(cell));
    }
    Made { name: name.to_owned(), kind, cells }
}
