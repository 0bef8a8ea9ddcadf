//! From open files to a description.

use std::fs::File;
use std::sync::Arc;

use crate::coding::Coding;
use crate::describe::{Dataset, Description, Field, Types, VERSION};
use crate::estimate;
use crate::read::{self, Job, Profile, ReadError};
use crate::relate::{self, Checked, Key, RepeatedId};
use crate::summarize;
use crate::variables::variables;
use crate::window::Cut;

/// A file to describe. It has to be a regular one, and is read from its
/// beginning, wherever its offset is.
#[derive(Debug)]
pub struct Input {
    name: String,
    file: Arc<File>,
    size: u64,
}

impl Input {
    /// `name` is what the file is called in the description.
    pub fn new(name: String, file: File) -> Result<Self, ReadError> {
        match file.metadata() {
            Ok(meta) if meta.is_file() => Ok(Self { name, file: Arc::new(file), size: meta.len() }),
            Ok(_) => Err(ReadError::NotRegular { name }),
            Err(source) => Err(ReadError::Io { name, source }),
        }
    }
}

pub struct Options<'a> {
    /// How many threads read JSON Lines. What comes out does not depend on it.
    pub threads: usize,
    /// Told how many bytes were read, as it goes on.
    pub passed: &'a (dyn Fn(u64) + Sync),
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("threads", &self.threads).finish_non_exhaustive()
    }
}

pub fn describe(inputs: &[Input], options: &Options<'_>) -> Result<Description, ReadError> {
    describe_cut(inputs, options, Cut::default())
}

fn describe_cut(
    inputs: &[Input],
    options: &Options<'_>,
    cut: Cut,
) -> Result<Description, ReadError> {
    let (threads, passed) = (options.threads, options.passed);
    let jobs: Vec<Job<'_>> = inputs
        .iter()
        .map(|Input { name, file, size }| {
            let coding = Coding::default();
            Job { file, name, size: *size, coding, threads, cut, passed }
        })
        .collect();
    let profiles = jobs.iter().map(|&job| read::read(job)).collect::<Result<Vec<_>, _>>()?;
    let jobs: Vec<Job<'_>> = jobs
        .iter()
        .zip(&profiles)
        .map(|(job, profile)| Job { coding: profile.coding, ..*job })
        .collect();
    let variables = variables(inputs.iter().map(|input| input.name.as_str()));
    let found = relate::find(&jobs, &profiles, &variables)?;
    let keys = found.keys.into_iter().zip(found.repeated_ids);
    let parts = inputs.iter().zip(profiles).zip(variables).zip(keys);
    let datasets =
        parts.map(|(((input, profile), variable), keys)| dataset(input, profile, variable, keys));
    let datasets: Vec<Dataset> = datasets.collect();
    let as_of = datasets.iter().filter_map(|dataset| dataset.as_of.clone()).max();
    let (relationships, near_misses) = (found.relationships, found.near_misses);
    Ok(Description { version: VERSION, datasets, relationships, near_misses, as_of })
}

fn dataset(
    input: &Input,
    profile: Profile,
    variable: String,
    (keys, repeated_ids): (Vec<Key>, Vec<RepeatedId>),
) -> Dataset {
    let mut root = summarize::root(&profile.tree);
    let counts = repeated_ids.iter().map(|one| (&one.column, Some(one.distinct), one.checked));
    let proven = keys.iter().filter(|key| key.of.is_empty() && key.columns.len() == 1);
    let counts = proven.map(|key| (&key.columns[0], None, key.checked)).chain(counts);
    counts.for_each(|(column, distinct, checked)| count(&mut root, column, distinct, checked));
    let read = || profile.tree.node(read::records(&profile.tree)).counts.total();
    let rows = profile.rows.unwrap_or_else(read);
    Dataset {
        name: input.name.clone(),
        variable,
        format: profile.format,
        bytes: profile.size,
        rows,
        pandas_bytes: estimate::pandas(&root, profile.format, rows),
        schema_hash: schema_hash(&root),
        content_hash: profile.content,
        as_of: latest(&root).map(str::to_owned),
        compression: profile.coding.compression,
        encoding: profile.coding.encoding,
        text_bytes: profile.text_bytes,
        dialect: profile.dialect,
        sheet: profile.sheet,
        problems: profile.problems.into_vec(),
        keys,
        repeated_ids,
        root,
    }
}

/// Says how many different values a column of the records has, once all were compared; none: all
/// of them.
fn count(root: &mut Field, column: &str, distinct: Option<u64>, checked: Checked) {
    let is_list = root.types.array == 1 && root.types.total() == 1;
    let fields = match root.item.as_deref_mut() {
        Some(item) if is_list => &mut item.fields,
        _ => &mut root.fields,
    };
    let Some(field) = below(fields, column) else { return };
    let values = field.types.int + field.types.float + field.types.string;
    if checked == Checked::All && values > 0 {
        field.distinct = Some(distinct.unwrap_or(values));
        field.distinct_is_exact = true;
    }
}

/// The field that a name such as `owner.id` leads to; names may have points themselves.
fn below<'f>(fields: &'f mut [Field], name: &str) -> Option<&'f mut Field> {
    let leads = |field: &Field| {
        name.strip_prefix(field.name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let place = fields.iter().position(|field| field.name == name);
    let place = place.or_else(|| fields.iter().position(leads))?;
    let field = &mut fields[place];
    let rest = name[field.name.len()..].strip_prefix('.').map(str::to_owned);
    match rest {
        None => Some(field),
        Some(rest) => below(&mut field.fields, &rest),
    }
}

/// The day of the latest date at or below a field. `9999-12-31` and its like
/// mean "never".
fn latest(field: &Field) -> Option<&str> {
    let own =
        field.dates.as_ref().and_then(|dates| dates.last.get(..10)).filter(|day| *day < "2100");
    let below = field.fields.iter().chain(field.item.as_deref()).filter_map(latest);
    below.chain(own).max()
}

/// Of names and types, not of how often they come: another file of the same
/// shape has the same.
fn schema_hash(root: &Field) -> String {
    let mut hasher = blake3::Hasher::new();
    hash_field(root, &mut hasher);
    hasher.finalize().to_hex().as_str()[..32].to_owned()
}

fn hash_field(field: &Field, hasher: &mut blake3::Hasher) {
    let Types { null, bool, int, float, string, array, object } = field.types;
    let has = [null, bool, int + float, string, array, object].map(|count| u8::from(count > 0));
    hasher.update(&(field.name.len() as u64).to_le_bytes());
    hasher.update(field.name.as_bytes());
    hasher.update(&has);
    hasher.update(&[u8::from(field.keys.is_some()), u8::from(field.item.is_some())]);
    hasher.update(&(field.fields.len() as u64).to_le_bytes());
    field.fields.iter().chain(field.item.as_deref()).for_each(|below| hash_field(below, hasher));
}

#[cfg(test)]
mod tests;
