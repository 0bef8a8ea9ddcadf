//! Parquet, read column by column with the `parquet` crate.
//!
//! What a footer says about values (statistics) is not used: writers cut it short, and it has
//! no keys. Every value is decoded, a page of one column at a time, so memory does not grow with
//! the file.
//!
//! A small file can claim endless values: a run of equal ones takes a few bytes. `Cut::values`
//! and [`VALUES_PER_BYTE`] bound the time that one file takes.

mod cell;
mod chunk;
mod decimal;
mod kind;
mod layout;
mod pages;
mod source;

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};

pub(crate) use cell::Shown;
pub(crate) use chunk::{Chunk, Entry};
pub(crate) use layout::{Leaf, Target};

use crate::content::{self, Tally};
use crate::describe::Format;
use crate::problem::{Problems, What};
use crate::read::{Job, Profile, ReadError};
use crate::tree::{ROOT, Tree};
use crate::window::Window;
use source::Source;

/// The longest footer that is read. Decoded, it takes several times as much.
const MAX_FOOTER_BYTES: u64 = 16 << 20;

/// How many values are read for each byte of a file, on top of `Cut::values`.
const VALUES_PER_BYTE: u64 = 256;

/// A Parquet file that is open, and where its columns belong in a tree.
pub(crate) struct Table {
    meta: ParquetMetaData,
    source: Source,
    pub(crate) leaves: Vec<Leaf>,
    /// The rows of each row group that are read.
    groups: Vec<u64>,
    /// The rows that the footer claims.
    rows: u64,
}

impl Table {
    /// Reads the footer, and makes a path in `tree` for each column.
    pub(crate) fn open(job: Job<'_>, tree: &mut Tree) -> Result<Self, ReadError> {
        let refused =
            |why: &str| ReadError::Parquet { name: job.name.to_owned(), why: why.to_owned() };
        let end = job.size.checked_sub(8).ok_or_else(|| refused("it is too short"))?;
        let mut tail = [0; 8];
        job.file.read_exact_at(&mut tail, end).map_err(|error| job.io(error))?;
        let [l0, l1, l2, l3, mark @ ..] = tail;
        match &mark {
            b"PAR1" => {}
            b"PARE" => return Err(refused("its footer is encrypted")),
            _ => return Err(refused("it has no footer; it may be cut short")),
        }
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        if length > MAX_FOOTER_BYTES || length > end {
            return Err(refused("its footer is too long"));
        }
        let mut footer = vec![0; usize::try_from(length).unwrap_or_default()];
        job.file.read_exact_at(&mut footer, end - length).map_err(|error| job.io(error))?;
        let none = ParquetStatisticsPolicy::SkipAll;
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(none.clone())
            .with_encoding_stats_policy(none.clone())
            .with_size_stats_policy(none);
        let meta = ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(&options))
            .map_err(|_| refused("its footer is damaged"))?;
        drop(footer);
        let claimed = |rows: i64| u64::try_from(rows).unwrap_or_default();
        let rows = meta
            .row_groups()
            .iter()
            .fold(0, |sum: u64, g| sum.saturating_add(claimed(g.num_rows())));
        let leaves = layout::leaves(meta.file_metadata().schema_descr(), rows, tree);
        let groups = groups(&meta, job);
        let source = Source::new(Arc::clone(job.file), job.size);
        Ok(Self { meta, source, leaves, groups, rows })
    }

    /// The row groups, each with how many of its rows are read.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (usize, u64)> {
        self.groups.iter().copied().enumerate()
    }

    /// Rows that are too many to be read.
    fn unread(&self) -> u64 {
        self.rows.saturating_sub(self.groups.iter().fold(0, |sum, rows| sum.saturating_add(*rows)))
    }

    /// The values of one column in one row group; none if they cannot be read at all.
    pub(crate) fn chunk(&self, group: usize, leaf: &Leaf) -> Option<Chunk> {
        let rows = *self.groups.get(group)?;
        let group = self.meta.row_groups().get(group)?;
        Chunk::open(&self.source, group.columns().get(leaf.column)?, leaf, rows)
    }

    /// Tells how much was read since the last time.
    pub(crate) fn tell(&self, job: Job<'_>) {
        (job.passed)(self.source.take_count());
    }
}

/// How many rows of each group are read: all of them, until they are too many for such a file.
fn groups(meta: &ParquetMetaData, job: Job<'_>) -> Vec<u64> {
    let mut left = job.size.saturating_mul(VALUES_PER_BYTE).saturating_add(job.cut.values);
    let rows = meta.row_groups().iter().map(|group| {
        let rows = u64::try_from(group.num_rows()).unwrap_or_default();
        let values = group.columns().iter().fold(0u64, |sum, column| {
            sum.saturating_add(u64::try_from(column.num_values()).unwrap_or_default())
        });
        let values = values.max(rows);
        let taken = if values <= left {
            rows
        } else {
            // As many rows as there is room for, as if each had as many values.
            let share = u128::from(rows) * u128::from(left) / u128::from(values.max(1));
            u64::try_from(share).unwrap_or(rows)
        };
        left = left.saturating_sub(values);
        taken
    });
    rows.collect()
}

pub(crate) fn read(job: Job<'_>, size: u64) -> Result<Profile, ReadError> {
    let mut tree = Tree::default();
    let table = Table::open(job, &mut tree)?;
    let content = hash(job, size)?;
    let mut problems = Problems::default();
    problems.add(What::Changed, u64::from(content.is_none()), None);
    let mut rows = 0u64;
    let mut unread = 0;
    let mut not_utf8 = 0;
    for (group, claimed) in table.groups() {
        let mut most = 0;
        for leaf in &table.leaves {
            let found = column(&table, group, leaf, &mut tree);
            most = most.max(found.records);
            unread += u64::from(!found.is_whole);
            not_utf8 += found.not_utf8;
            table.tell(job);
        }
        rows = rows.saturating_add(if table.leaves.is_empty() { claimed } else { most });
    }
    tree.node_mut(ROOT).counts.objects = rows;
    let is_partial = table.unread() > 0;
    problems.add(What::UnreadPages, unread, None);
    problems.add(What::UnreadRows, table.unread(), None);
    problems.add(What::NotUtf8, not_utf8, None);
    let cut = tree.cut;
    problems.add(What::RepeatedKeys, cut.repeated, None);
    problems.add(What::TooDeep, cut.deep, None);
    problems.add(What::TooManyKeys, cut.keys, None);
    let not_finite = table.leaves.iter().filter_map(|leaf| match leaf.target {
        Target::Value(id) => Some(tree.node(id).counts.not_finite),
        Target::Key(_) => None,
    });
    problems.add(What::NotFinite, not_finite.sum(), None);
    Ok(Profile {
        format: Format::Parquet,
        size,
        tree,
        rows: is_partial.then_some(table.rows),
        coding: job.coding,
        text_bytes: None,
        dialect: None,
        sheet: None,
        content,
        problems,
    })
}

/// What came of one column of one row group.
struct Found {
    records: u64,
    is_whole: bool,
    not_utf8: u64,
}

fn column(table: &Table, group: usize, leaf: &Leaf, tree: &mut Tree) -> Found {
    let Some(mut chunk) = table.chunk(group, leaf) else {
        return Found { records: 0, is_whole: false, not_utf8: 0 };
    };
    let mut lengths = vec![None; leaf.steps.len()];
    let mut records = 0;
    let is_whole = loop {
        let read = chunk.next(&mut |entry| {
            leaf.count(&entry, tree, &mut lengths);
            leaf.put(entry, tree);
        });
        match read {
            Ok(0) => break chunk.is_whole(),
            Ok(count) => records += count,
            Err(_) => break false,
        }
    };
    leaf.close(tree, &mut lengths);
    Found { records, is_whole, not_utf8: chunk.not_utf8() }
}

fn hash(job: Job<'_>, size: u64) -> Result<Option<String>, ReadError> {
    let mut window = Window::new(job, 0, Some(Tally::new(0..size, size, job.cut.block)));
    window.drain(size);
    let tally = window.finish().map_err(|error| job.io(error))?;
    let blocks = tally.map(Tally::finish).unwrap_or_default();
    Ok(content::join(&blocks, size, job.cut.block))
}
