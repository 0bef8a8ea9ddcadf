//! Another form of a dataset, or a sample of it, made before the run.
//!
//! A record is in the sample or not by its number and the file's digest alone: it is
//! the same sample each time, wherever it is drawn, and a smaller one is part of it.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};

use belljar_dataset::Dialect;
use belljar_objects::Digest;

use super::depot::{DataError, Depot};
use super::records::{Copied, CopyError, Form, copy};
use super::{Format, Item};

const BUFFER: usize = 1 << 18;

/// A dataset in another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) item: Item,
    pub(super) records: u64,
    pub(super) kept: u64,
}

/// One record in `2^halvings`, as a file of its own; none: the file has no records
/// that could be taken apart.
pub(super) async fn draw(
    depot: &dyn Depot,
    item: &Item,
    dialect: Option<&Dialect>,
    halvings: u32,
) -> Result<Option<Drawn>, DataError> {
    let delimiter = dialect.map(|dialect| dialect.delimiter);
    let has_header = dialect.is_none_or(|dialect| dialect.has_header);
    let csv = |usual: u8| Form::Csv { delimiter: delimiter.unwrap_or(usual), has_header };
    let (form, ending) = match item.format() {
        Format::JsonLines => (Form::Lines, "jsonl"),
        Format::Json => (Form::List, "jsonl"),
        Format::Csv => (csv(b','), "csv"),
        Format::Tsv => (csv(b'\t'), "tsv"),
        Format::Parquet | Format::Excel | Format::Other => return Ok(None),
    };
    let stem = item.name.rsplit_once('.').map_or(item.name.as_str(), |(stem, _)| stem);
    let name = match halvings {
        0 => format!("{stem}.{ending}"),
        _ => format!("{stem}.sample.{ending}"),
    };
    let from = depot.open(item).await?;
    let fresh = depot.fresh(&name)?;
    let cannot = |source| DataError::Write { name: name.clone(), source };
    let file = item.fingerprint;
    let copying = tokio::task::spawn_blocking(move || {
        let copied = copied(from, fresh.as_file(), form, |n| is_drawn(&file, n, halvings));
        copied.map(|copied| (copied, fresh))
    });
    let (copied, fresh) = match copying.await.map_err(|error| cannot(io::Error::other(error)))? {
        Ok(copied) => copied,
        Err(CopyError::NoList) => return Ok(None),
        Err(CopyError::Io(source)) => return Err(cannot(source)),
    };
    let item = depot.take(&name, fresh).await?;
    Ok(Some(Drawn { item, records: copied.records, kept: copied.kept }))
}

fn copied(
    from: File,
    to: &File,
    form: Form,
    keep: impl FnMut(u64) -> bool,
) -> Result<Copied, CopyError> {
    let mut from = BufReader::with_capacity(BUFFER, from);
    let mut writer = BufWriter::with_capacity(BUFFER, to);
    let copied = copy(&mut from, &mut writer, form, keep)?;
    writer.flush()?;
    // What the file broke off in is no record.
    to.set_len(copied.bytes)?;
    Ok(copied)
}

fn is_drawn(file: &Digest, number: u64, halvings: u32) -> bool {
    let mut text = [0; 40];
    text[..32].copy_from_slice(file.as_bytes());
    text[32..].copy_from_slice(&number.to_be_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&Digest::of(&text).as_bytes()[..8]);
    halvings == 0 || u64::from_be_bytes(first).leading_zeros() >= halvings
}

#[cfg(test)]
mod tests {
    use belljar_objects::Shelf;

    use super::*;
    use crate::data::shelve_files;

    #[tokio::test]
    async fn a_sample_is_the_same_each_time_and_a_smaller_one_is_part_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("shelf"));
        let rows: String = (0..4000).map(|n| format!("{n},{}\n", n * n)).collect();
        let path = dir.path().join("squares.csv");
        std::fs::write(&path, format!("n,square\n{rows}")).unwrap();
        let item = shelve_files(&shelf, std::slice::from_ref(&path)).unwrap().remove(0);
        let read = async |drawn: &Drawn| {
            let text = io::read_to_string(Depot::open(&shelf, &drawn.item).await.unwrap()).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<String>>()
        };
        let quarter = draw(&shelf, &item, None, 2).await.unwrap().unwrap();
        assert_eq!(quarter, draw(&shelf, &item, None, 2).await.unwrap().unwrap());
        assert_eq!((quarter.item.name.as_str(), quarter.records), ("squares.sample.csv", 4000));
        // Five standard deviations around a thousand.
        assert!((863..=1137).contains(&quarter.kept), "{}", quarter.kept);
        let rows = read(&quarter).await;
        assert_eq!((rows[0].as_str(), rows.len() as u64), ("n,square", quarter.kept + 1));
        let eighth = read(&draw(&shelf, &item, None, 3).await.unwrap().unwrap()).await;
        assert!(eighth.len() < rows.len() && eighth.iter().all(|row| rows.contains(row)));
        let all = draw(&shelf, &item, None, 0).await.unwrap().unwrap();
        assert_eq!((all.kept, all.item.fingerprint), (4000, item.fingerprint));
    }

    #[tokio::test]
    async fn what_has_no_records_is_not_taken_apart() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("shelf"));
        for (name, text) in [("a.json", "{\"a\": [1, 2]}"), ("b.parquet", "PAR1"), ("c.txt", "c")] {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            let item = shelve_files(&shelf, std::slice::from_ref(&path)).unwrap().remove(0);
            assert_eq!(draw(&shelf, &item, None, 1).await.unwrap(), None, "{name}");
        }
    }
}
