//! The first pass: a file into a tree of paths.

mod blocks;
mod sniff;

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::coding::{Coding, Compression, Decoder, Encoding};
use crate::content::{self, Subtree, Tally};
use crate::csv::Dialect;
use crate::describe::Format;
use crate::excel::Sheet;
use crate::json::{Lines, Scanner, Stop, Walk};
use crate::problem::{Problems, What};
use crate::tree::{Id, ROOT, Tree};
use crate::window::{Cut, Passed, Window};
use crate::{csv, excel, limits};

pub(crate) use blocks::{in_blocks, lines, to_first_line};
pub(crate) use sniff::sniff;

/// Why nothing can be said about a file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read `{name}`")]
    Io { name: String, source: io::Error },
    #[error("cannot unpack `{name}` ({by})")]
    Unpack { name: String, by: Compression, source: io::Error },
    #[error("`{name}` is not a regular file")]
    NotRegular { name: String },
    #[error("`{name}` is empty")]
    Empty { name: String },
    #[error("`{name}` is {what}, not JSON, JSON Lines, CSV, Excel or Parquet")]
    Foreign { name: String, what: &'static str },
    #[error("cannot read `{name}` as Parquet: {why}")]
    Parquet { name: String, why: String },
    #[error("cannot read `{name}` as Excel: {why}")]
    Excel { name: String, why: String },
    #[error("`{name}` has a header ({columns}) and no rows")]
    HeaderOnly { name: String, columns: String },
    #[error("`{name}` has no data that can be read as {format}")]
    Nothing { name: String, format: Format },
}

/// What one pass over a file found.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) format: Format,
    pub(crate) size: u64,
    pub(crate) tree: Tree,
    /// How many records there are, if only some of them were read.
    pub(crate) rows: Option<u64>,
    pub(crate) coding: Coding,
    /// Bytes of the text, if the file is compressed or a spreadsheet.
    pub(crate) text_bytes: Option<u64>,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) sheet: Option<Sheet>,
    pub(crate) content: Option<String>,
    pub(crate) problems: Problems,
}

/// One part of a file, or all of it.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) tree: Tree,
    pub(crate) problems: Problems,
    pub(crate) blocks: Vec<Subtree>,
    /// Values at the top.
    pub(crate) values: u64,
    /// Bytes of text that were read.
    pub(crate) text_bytes: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) file: &'a Arc<File>,
    pub(crate) name: &'a str,
    pub(crate) size: u64,
    pub(crate) coding: Coding,
    pub(crate) threads: usize,
    pub(crate) cut: Cut,
    pub(crate) passed: Passed<'a>,
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({})", self.name)
    }
}

impl Job<'_> {
    pub(crate) fn io(&self, source: io::Error) -> ReadError {
        let name = self.name.to_owned();
        match self.coding.compression {
            Some(by) => ReadError::Unpack { name, by, source },
            None => ReadError::Io { name, source },
        }
    }

    /// Hashes what passes through a window over `range`; none if that is not what is in the file.
    pub(crate) fn tally(&self, range: Range<u64>) -> Option<Tally> {
        self.coding.is_plain().then(|| Tally::new(range, self.size, self.cut.block))
    }
}

pub(crate) fn read(mut job: Job<'_>) -> Result<Profile, ReadError> {
    job.coding.compression = Compression::sniff(job.file).map_err(|error| job.io(error))?;
    job.coding = job.coding.with_encoding(job.file, job.size).map_err(|error| job.io(error))?;
    let format = sniff(job)?;
    let text = match format {
        Format::Parquet => return crate::parquet::read(job, job.size),
        Format::Excel => {
            let (part, sheet) = excel::read(job)?;
            Text { part, dialect: None, sheet: Some(sheet) }
        }
        _ => text(&mut job, format)?,
    };
    let Text { mut part, dialect, sheet } = text;
    if part.values == 0 {
        return Err(nothing(job, format, &part.tree, dialect));
    }
    if !matches!(format, Format::Csv | Format::Excel) {
        part.tree.fold_dictionaries();
    }
    let cut = part.tree.cut;
    part.problems.add(What::RepeatedKeys, cut.repeated, None);
    part.problems.add(What::TooDeep, cut.deep, None);
    part.problems.add(What::TooManyKeys, cut.keys, None);
    let content = match job.coding.is_plain() && format != Format::Excel {
        true => content::join(&part.blocks, job.size, job.cut.block),
        false => content::of_file(job).map_err(|error| job.io(error))?,
    };
    part.problems.add(What::Changed, u64::from(content.is_none()), None);
    let is_other = job.coding.compression.is_some() || format == Format::Excel;
    let text_bytes = is_other.then_some(part.text_bytes);
    let (tree, problems, size, coding) = (part.tree, part.problems, job.size, job.coding);
    Ok(Profile {
        format,
        size,
        tree,
        rows: None,
        coding,
        text_bytes,
        dialect,
        sheet,
        content,
        problems,
    })
}

/// What one pass over a text found.
struct Text {
    part: Part,
    dialect: Option<Dialect>,
    sheet: Option<Sheet>,
}

/// Reads a text. A first pass may show that it is to be read in another way.
fn text(job: &mut Job<'_>, format: Format) -> Result<Text, ReadError> {
    let mut found = pass(*job, format, &[])?;
    if job.coding.encoding == Encoding::Utf8 && found.part.problems.has(What::NotUtf8) {
        let bytes = Decoder::new(job.file, job.size, job.coding);
        job.coding.encoding = Encoding::judge(bytes).map_err(|error| job.io(error))?;
        if job.coding.encoding != Encoding::Utf8 {
            found = pass(*job, format, &[])?;
        }
    }
    if let Some(dialect) = &found.dialect {
        let commas = csv::decimal_commas(&found.part.tree, dialect);
        if commas.contains(&true) {
            found = pass(*job, format, &commas)?;
        }
    }
    Ok(found)
}

/// `commas` are the columns of a table whose numbers have decimal commas.
fn pass(job: Job<'_>, format: Format, commas: &[bool]) -> Result<Text, ReadError> {
    let (part, dialect) = match format {
        Format::Json => (json(job)?, None),
        Format::JsonLines => (lines(job)?, None),
        _ => {
            let (part, dialect) = csv::read(job, commas)?;
            (part, Some(dialect))
        }
    };
    Ok(Text { part, dialect, sheet: None })
}

/// Why there are no records in a file.
fn nothing(job: Job<'_>, format: Format, tree: &Tree, dialect: Option<Dialect>) -> ReadError {
    let name = job.name.to_owned();
    let columns = &tree.node(ROOT).children;
    let is_header = dialect.is_none_or(|dialect| dialect.has_header) && !columns.is_empty();
    if !is_header || !matches!(format, Format::Csv | Format::Excel) {
        return ReadError::Nothing { name, format };
    }
    let shown = |id: &Id| crate::summarize::shown(&tree.node(*id).key);
    let mut names: Vec<String> = columns.iter().take(8).map(shown).collect();
    names.extend((columns.len() > names.len()).then(|| "…".to_owned()));
    ReadError::HeaderOnly { name, columns: names.join(", ") }
}

/// One value, however large.
fn json(job: Job<'_>) -> Result<Part, ReadError> {
    let mut window = Window::new(job, 0, job.tally(0..job.size));
    skip_mark(&mut window);
    let mut walk = Walk::new(Scanner::new(window, Lines::Any));
    let stopped = walk.value().err();
    let mut part = finish(&mut walk, stopped);
    part.values = walk.tree.node(ROOT).counts.total();
    if stopped.is_none() && walk.scanner.peek().is_some() {
        part.problems.add(What::TrailingContent, 1, Some(walk.scanner.window.offset()));
    }
    walk.scanner.window.drain(if job.coding.is_plain() { job.size } else { u64::MAX });
    part.text_bytes = walk.scanner.window.seen();
    let tally = walk.scanner.window.finish().map_err(|error| job.io(error))?;
    part.blocks = tally.map(Tally::finish).unwrap_or_default();
    part.tree = walk.tree;
    Ok(part)
}

/// What went wrong in a walk, as problems.
pub(crate) fn finish(walk: &mut Walk<'_>, stopped: Option<Stop>) -> Part {
    let mut problems = Problems::default();
    match stopped {
        Some(Stop::End) => problems.add(What::Truncated, 1, Some(walk.scanner.window.offset())),
        Some(Stop::Invalid) => problems.add(What::Invalid, 1, Some(walk.scanner.window.offset())),
        None => {}
    }
    let mut told = |what, met: Option<(u64, u64)>| {
        let (count, at) = met.unwrap_or_default();
        problems.add(what, count, Some(at));
    };
    told(What::NotUtf8, walk.scanner.not_utf8);
    told(What::NotFinite, walk.not_finite);
    Part { problems, ..Part::default() }
}

/// A byte order mark says nothing in UTF-8.
pub(crate) fn skip_mark(window: &mut Window<'_>) {
    while window.rest().len() < 3 && window.more(window.at) {}
    if window.rest().starts_with(b"\xef\xbb\xbf") {
        window.at += 3;
    }
}

/// Where the records of a file are: the items of the array it consists of, or
/// the values at the top.
pub(crate) fn records(tree: &Tree) -> Id {
    let root = tree.node(ROOT);
    match root.item {
        Some(item) if root.counts.arrays == root.counts.total() && root.counts.arrays == 1 => item,
        _ => ROOT,
    }
}

const _: () = assert!(limits::DEPTH < 128, "walking recurses this deeply");
