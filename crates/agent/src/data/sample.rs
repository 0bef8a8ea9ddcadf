//! Another form of a dataset, or a sample of it, made before the run.
//!
//! A record is in the sample or not by its key, and where it has none by its number and the file's
//! digest, alone: it is the same sample each time, wherever it is drawn, and a smaller one is part
//! of it. Records of several files with the same key are drawn together.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek as _, Write as _};

use belljar_dataset::Dialect;
use belljar_objects::Digest;

use super::depot::{DataError, Depot};
use super::estimate::LARGEST;
use super::key::keys;
use super::records::{Copied, CopyError, Form, copy};
use super::shared::SharedKey;
use super::{Format, Item};

const BUFFER: usize = 1 << 18;

/// Records are counted by so many groups of keys: memory does not grow with the keys.
const GROUPS: u64 = 1 << 18;

/// A dataset in another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) item: Item,
    pub(super) records: u64,
    pub(super) kept: u64,
    /// One value of the key, or one record, in 2 to the power of this was drawn.
    pub(super) halvings: u32,
    /// No value of the key has more records than this, in the whole file.
    pub(super) most: u64,
    /// Records without a key: each was drawn by itself.
    pub(super) unkeyed: u64,
}

impl Drawn {
    /// Returns true if one value of the key has so many records that no bound for a figure means
    /// anything, whether that value is in the sample or not.
    pub(super) fn is_lopsided(&self) -> bool {
        let expected = self.records.checked_shr(self.halvings).unwrap_or(0);
        self.most.saturating_mul(LARGEST) > expected
    }
}

/// One record in `2^halvings`, or those of one value of a key in so many, as a file of its own;
/// none: the file has no records that could be taken apart.
pub(super) async fn draw(
    depot: &dyn Depot,
    item: &Item,
    dialect: Option<&Dialect>,
    halvings: u32,
    key: Option<&SharedKey>,
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
    let (rule, key) = (Rule { file: item.fingerprint, halvings }, key.cloned());
    let copying = tokio::task::spawn_blocking(move || {
        let chosen = match &key {
            Some(key) => Some(choose(&from, form, key, &rule)?),
            None => None,
        };
        let keep = |number| match &chosen {
            Some(chosen) => chosen.has(number),
            None => rule.draws_record(number),
        };
        let copied = copied(&from, fresh.as_file(), form, keep)?;
        Ok::<_, CopyError>((copied, chosen, key.is_some_and(|key| key.is_unique), fresh))
    });
    let copying = copying.await.map_err(|error| cannot(io::Error::other(error)))?;
    let (copied, chosen, is_unique, fresh) = match copying {
        Ok(copied) => copied,
        Err(CopyError::NoList) => return Ok(None),
        Err(CopyError::Io(source)) => return Err(cannot(source)),
    };
    let item = depot.take(&name, fresh).await?;
    let Copied { records, kept, .. } = copied;
    let most = chosen.as_ref().filter(|_| !is_unique).map_or(1, Chosen::most);
    let unkeyed = chosen.as_ref().map_or(0, |chosen| chosen.unkeyed);
    Ok(Some(Drawn { item, records, kept, halvings, most, unkeyed }))
}

fn copied(
    from: &File,
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

/// Decides which records of a file are drawn.
#[derive(Debug, Clone, Copy)]
struct Rule {
    file: Digest,
    halvings: u32,
}

impl Rule {
    fn draws_record(&self, number: u64) -> bool {
        let mut text = [0; 40];
        text[..32].copy_from_slice(self.file.as_bytes());
        text[32..].copy_from_slice(&number.to_be_bytes());
        self.draws(hash(&text))
    }

    fn draws(&self, hash: u64) -> bool {
        self.halvings == 0 || hash.leading_zeros() >= self.halvings
    }
}

fn hash(text: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&Digest::of(text).as_bytes()[..8]);
    u64::from_be_bytes(first)
}

/// The records whose keys are drawn, and what was counted to find them.
#[derive(Debug)]
struct Chosen {
    /// One bit for each record.
    kept: Vec<u64>,
    records: u64,
    unkeyed: u64,
    /// Records by a part of their key's hash.
    groups: Vec<u64>,
}

/// Reads the keys of all records, and leaves the file at its beginning.
fn choose(mut from: &File, form: Form, key: &SharedKey, rule: &Rule) -> Result<Chosen, CopyError> {
    let groups = usize::try_from(GROUPS).unwrap_or_default();
    let mut chosen = Chosen { kept: Vec::new(), records: 0, unkeyed: 0, groups: vec![0; groups] };
    let seed = key.seed.as_bytes();
    let mut text = Vec::new();
    keys(&mut BufReader::with_capacity(BUFFER, from), form, &key.column, |value| {
        let is_kept = match value {
            Some(value) => {
                text.clear();
                text.extend_from_slice(seed);
                text.extend_from_slice(value);
                let hash = hash(&text);
                chosen.count(hash);
                rule.draws(hash)
            }
            None => {
                chosen.unkeyed += 1;
                rule.draws_record(chosen.records)
            }
        };
        chosen.push(is_kept);
    })?;
    from.rewind()?;
    Ok(chosen)
}

impl Chosen {
    /// By the last bits of the hash: the first ones decide whether it is drawn.
    fn count(&mut self, hash: u64) {
        let group = usize::try_from(hash % GROUPS).ok().and_then(|at| self.groups.get_mut(at));
        if let Some(records) = group {
            *records += 1;
        }
    }

    fn push(&mut self, is_kept: bool) {
        let bit = self.records % 64;
        if bit == 0 {
            self.kept.push(0);
        }
        if let Some(last) = self.kept.last_mut() {
            *last |= u64::from(is_kept) << bit;
        }
        self.records += 1;
    }

    fn has(&self, number: u64) -> bool {
        let bits = usize::try_from(number / 64).ok().and_then(|at| self.kept.get(at));
        bits.is_some_and(|bits| (bits >> (number % 64)) & 1 == 1)
    }

    /// At least as many records as any one key has.
    fn most(&self) -> u64 {
        self.groups.iter().copied().max().unwrap_or(0).max(1)
    }
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
        let quarter = draw(&shelf, &item, None, 2, None).await.unwrap().unwrap();
        assert_eq!(quarter, draw(&shelf, &item, None, 2, None).await.unwrap().unwrap());
        assert_eq!((quarter.item.name.as_str(), quarter.records), ("squares.sample.csv", 4000));
        // Five standard deviations around a thousand.
        assert!((863..=1137).contains(&quarter.kept), "{}", quarter.kept);
        let rows = read(&quarter).await;
        assert_eq!((rows[0].as_str(), rows.len() as u64), ("n,square", quarter.kept + 1));
        let eighth = read(&draw(&shelf, &item, None, 3, None).await.unwrap().unwrap()).await;
        assert!(eighth.len() < rows.len() && eighth.iter().all(|row| rows.contains(row)));
        let all = draw(&shelf, &item, None, 0, None).await.unwrap().unwrap();
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
            assert_eq!(draw(&shelf, &item, None, 1, None).await.unwrap(), None, "{name}");
        }
    }
}
