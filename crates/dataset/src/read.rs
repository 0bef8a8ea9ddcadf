//! The first pass: a file into a tree of paths.

mod blocks;
mod sniff;

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::content::{self, Subtree, Tally};
use crate::csv::Dialect;
use crate::describe::Format;
use crate::json::{Lines, Scanner, Stop, Walk};
use crate::problem::{Problems, What};
use crate::tree::{Id, ROOT, Tree};
use crate::window::{Cut, Passed, Window};
use crate::{csv, limits};

pub(crate) use blocks::{in_blocks, lines, to_first_line};
pub(crate) use sniff::sniff;

/// Why nothing can be said about a file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read `{name}`")]
    Io { name: String, source: io::Error },
    #[error("`{name}` is not a regular file")]
    NotRegular { name: String },
    #[error("`{name}` is empty")]
    Empty { name: String },
    #[error("`{name}` is {what}, not JSON, JSON Lines, CSV or Parquet")]
    Foreign { name: String, what: &'static str },
    #[error("cannot read `{name}` as Parquet: {why}")]
    Parquet { name: String, why: String },
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
    pub(crate) dialect: Option<Dialect>,
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
}

#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) file: &'a Arc<File>,
    pub(crate) name: &'a str,
    pub(crate) size: u64,
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
        ReadError::Io { name: self.name.to_owned(), source }
    }
}

pub(crate) fn read(job: Job<'_>) -> Result<Profile, ReadError> {
    let size = job.size;
    let format = sniff(job, size)?;
    let (mut part, dialect) = match format {
        Format::Json => (json(job, size)?, None),
        Format::JsonLines => (lines(job, size)?, None),
        Format::Csv => {
            let (part, dialect) = csv::read(job, size)?;
            (part, Some(dialect))
        }
        Format::Parquet => return crate::parquet::read(job, size),
    };
    if part.values == 0 {
        return Err(ReadError::Nothing { name: job.name.to_owned(), format });
    }
    if format != Format::Csv {
        part.tree.fold_dictionaries();
    }
    let cut = part.tree.cut;
    part.problems.add(What::RepeatedKeys, cut.repeated, None);
    part.problems.add(What::TooDeep, cut.deep, None);
    part.problems.add(What::TooManyKeys, cut.keys, None);
    let content = content::join(&part.blocks, size, job.cut.block);
    part.problems.add(What::Changed, u64::from(content.is_none()), None);
    let (tree, problems) = (part.tree, part.problems);
    Ok(Profile { format, size, tree, rows: None, dialect, content, problems })
}

/// One value, however large.
fn json(job: Job<'_>, size: u64) -> Result<Part, ReadError> {
    let tally = Tally::new(0..size, size, job.cut.block);
    let mut window = Window::new(job, 0, Some(tally));
    skip_mark(&mut window);
    let mut walk = Walk::new(Scanner::new(window, Lines::Any));
    let stopped = walk.value().err();
    let mut part = finish(&mut walk, stopped);
    part.values = walk.tree.node(ROOT).counts.total();
    if stopped.is_none() && walk.scanner.peek().is_some() {
        part.problems.add(What::TrailingContent, 1, Some(walk.scanner.window.offset()));
    }
    walk.scanner.window.drain(size);
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
