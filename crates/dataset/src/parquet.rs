//! Parquet, from its footer: the schema, and what the writer said about each
//! column. Pages are not read, so there are no enums, samples or relationships.

mod schema;
mod thrift;

use std::os::unix::fs::FileExt as _;

use crate::content::{self, Tally};
use crate::describe::{Field, Format};
use crate::problem::{Problems, What};
use crate::read::{Job, Profile, ReadError};
use crate::tree::Tree;
use crate::window::Window;

/// A larger footer describes more columns than anyone could read about.
const LONGEST: u64 = 32 << 20;

/// What a footer told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) root: Field,
    pub(crate) rows: u64,
    /// Columns for which there was no room.
    cut: u64,
}

pub(crate) fn read(job: Job<'_>, size: u64) -> Result<Profile, ReadError> {
    let refused = |why: &str| ReadError::Parquet { name: job.name.to_owned(), why: why.to_owned() };
    let end = size.checked_sub(8).ok_or_else(|| refused("it is too short"))?;
    let mut tail = [0; 8];
    job.file.read_exact_at(&mut tail, end).map_err(|error| job.io(error))?;
    let [l0, l1, l2, l3, mark @ ..] = tail;
    match &mark {
        b"PAR1" => {}
        b"PARE" => return Err(refused("its footer is encrypted")),
        _ => return Err(refused("it has no footer; it may be cut short")),
    }
    let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
    if length > LONGEST || length > end {
        return Err(refused("its footer is too long"));
    }
    let mut footer = vec![0; usize::try_from(length).unwrap_or_default()];
    job.file.read_exact_at(&mut footer, end - length).map_err(|error| job.io(error))?;
    let told = schema::read(&footer).ok_or_else(|| refused("its footer is damaged"))?;
    drop(footer);
    let mut problems = Problems::default();
    problems.add(What::TooManyKeys, told.cut, None);
    let content = hash(job, size)?;
    problems.add(What::Changed, u64::from(content.is_none()), None);
    Ok(Profile {
        format: Format::Parquet,
        size,
        tree: Tree::default(),
        told: Some(told),
        dialect: None,
        content,
        problems,
    })
}

fn hash(job: Job<'_>, size: u64) -> Result<Option<String>, ReadError> {
    let mut window = Window::new(job, 0, Some(Tally::new(0..size, size, job.cut.block)));
    window.drain(size);
    let tally = window.finish().map_err(|error| job.io(error))?;
    let blocks = tally.map(Tally::finish).unwrap_or_default();
    Ok(content::join(&blocks, size, job.cut.block))
}
