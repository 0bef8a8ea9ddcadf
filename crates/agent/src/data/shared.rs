//! The keys by which several files of a run are sampled together.

use belljar_dataset::{Checked, Dataset, Description, Encoding, Relationship, Side};
use belljar_objects::Digest;

use super::Format;
use super::key::Column;
use super::plan::Part;

/// A column that a sample is drawn by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedKey {
    /// As the profile calls it.
    pub(super) name: String,
    pub(super) column: Column,
    /// The same in all files with this key, and in no others: it decides, with the key, which
    /// records are drawn. It depends on the content of the files alone.
    pub(super) seed: Digest,
    /// No two records have the same key.
    pub(super) is_unique: bool,
}

/// The key that each part is to be sampled by: one that at least one other sampled part has, by
/// relationships that were proven. Of several, the one that covers the most bytes.
pub(super) fn shared_keys(profile: Option<&Description>, parts: &[Part]) -> Vec<Option<SharedKey>> {
    let mut keys: Vec<Option<SharedKey>> = vec![None; parts.len()];
    let Some(profile) = profile else { return keys };
    let groups = groups(&profile.relationships);
    loop {
        let all = groups.iter().map(|group| members(group, parts, &keys));
        let shared = all.filter(|members| members.len() > 1);
        let Some(members) = shared.max_by_key(|members| covered(members, parts)) else {
            return keys;
        };
        for (at, key) in members {
            keys[at] = Some(key);
        }
    }
}

/// Columns that have the same values, directly or through others.
fn groups(relationships: &[Relationship]) -> Vec<Vec<&Side>> {
    let mut groups: Vec<Vec<&Side>> = Vec::new();
    for one in relationships {
        let sides = [&one.from, &one.to];
        let has_one = |group: &Vec<&Side>| sides.iter().any(|side| group.contains(side));
        let (joined, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(has_one);
        let mut group: Vec<&Side> = joined.into_iter().flatten().chain(sides).collect();
        group.sort();
        group.dedup();
        groups = others;
        groups.push(group);
    }
    groups
}

/// The parts that are sampled, have a column of the group and no key yet.
fn members(group: &[&Side], parts: &[Part], keys: &[Option<SharedKey>]) -> Vec<(usize, SharedKey)> {
    let seed = seed(group, parts);
    let mut members = Vec::new();
    for (at, (part, key)) in parts.iter().zip(keys).enumerate() {
        if !part.is_sample() || part.unsuited.is_some() || key.is_some() {
            continue;
        }
        // Sides are in order: of two columns of one file, it always is the same.
        let mut sides = group.iter().filter(|side| side.dataset == part.origin.name);
        let found = sides.find_map(|side| Some((side.path.clone(), column(part, &side.path)?)));
        if let Some((name, column)) = found {
            let is_unique = is_unique(part, &name);
            members.push((at, SharedKey { name, column, seed, is_unique }));
        }
    }
    members
}

fn covered(members: &[(usize, SharedKey)], parts: &[Part]) -> u64 {
    let bytes = members.iter().filter_map(|(at, _)| Some(parts.get(*at)?.origin.bytes));
    bytes.fold(0, u64::saturating_add)
}

fn seed(group: &[&Side], parts: &[Part]) -> Digest {
    let line = |side: &&Side| {
        let part = parts.iter().find(|part| part.origin.name == side.dataset);
        let content = part.map(|part| part.origin.fingerprint.to_string());
        format!("{} {}\n", content.unwrap_or_default(), side.path)
    };
    let mut lines: Vec<String> = group.iter().map(line).collect();
    lines.sort();
    Digest::of(lines.concat().as_bytes())
}

/// Where records have a column, if it is one value of each of them, which is read as it is written.
fn column(part: &Part, path: &str) -> Option<Column> {
    let profile = part.profile.as_ref()?;
    if profile.encoding != Encoding::Utf8 {
        return None;
    }
    match (profile.format, part.origin.format()) {
        (belljar_dataset::Format::Csv, Format::Csv | Format::Tsv) => {
            let fields = &profile.root.fields;
            let at = fields.iter().position(|field| field.name == path)?;
            let has_commas = fields.get(at)?.has_decimal_commas;
            (!has_commas).then_some(Column::Cell(at))
        }
        (
            belljar_dataset::Format::Json | belljar_dataset::Format::JsonLines,
            Format::Json | Format::JsonLines,
        ) => {
            // A point may be part of a name, or lead into an object.
            let is_plain = !path.contains(['.', '[', char::REPLACEMENT_CHARACTER]);
            let is_there = records(profile).iter().any(|field| field.name == path);
            (is_plain && is_there).then(|| Column::Field(path.to_owned()))
        }
        _ => None,
    }
}

fn records(profile: &Dataset) -> &[belljar_dataset::Field] {
    &profile.root.item.as_deref().unwrap_or(&profile.root).fields
}

fn is_unique(part: &Part, column: &str) -> bool {
    let mut keys = part.profile.iter().flat_map(|profile| &profile.keys);
    keys.any(|key| {
        let is_own = matches!(&key.columns[..], [own] if own == column);
        is_own && key.of.is_empty() && key.checked == Checked::All
    })
}
