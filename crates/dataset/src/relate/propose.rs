//! Which columns may be keys, and which may refer to them, by their sketches
//! and names: what is proposed here is proven, or not, by the second pass.

use super::name;
use super::table::{Candidate, Kind, Table, Unique};
use crate::column::Many;
use crate::read::Profile;

/// Keys of one table.
const KEYS: usize = 6;
/// Pairs that are tried where no column is a key.
const PAIRS: usize = 6;
/// Pairs of columns in all.
const LINKS: usize = 256;

/// A column, by its place.
pub(crate) type At = (usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) affinity: u32,
    pub(crate) is_same_kind: bool,
}

/// Columns of a table that may be its key, the likely ones first.
pub(crate) fn keys(table: &Table) -> Vec<usize> {
    let mut found: Vec<(u32, usize)> = Vec::new();
    for (place, column) in table.columns.iter().enumerate() {
        // Items of an array within the table do not tell its objects apart.
        let is_inside = column.path.ends_with("[]");
        if !column.is_complete || column.unique == Unique::No || column.is_date || is_inside {
            continue;
        }
        let is_id = name::is_id(column.leaf());
        let score = match (is_id, column.has_strong_form()) {
            (true, _) if name::is_generic(&column.name) => 3,
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => continue,
        };
        if table.rows > 1 {
            found.push((score, place));
        }
    }
    found.sort_by_key(|&(score, place)| (std::cmp::Reverse(score), place));
    found.truncate(KEYS);
    found.into_iter().map(|(_, place)| place).collect()
}

/// Columns that are named as the id of a table's records, and of which most values, but not all,
/// come once. `called` is what the table is called.
pub(crate) fn repeated_ids(table: &Table, called: &str) -> Vec<usize> {
    let is_one = |column: &Candidate| {
        let is_own =
            name::is_generic(&column.name) || name::stem(&column.name) == name::stem(called);
        column.is_complete
            && !column.is_date
            && !column.path.ends_with("[]")
            && name::is_id(column.leaf())
            && is_own
            && column.unique != Unique::Yes
            && column.distinct * 2 >= table.rows
    };
    (0..table.columns.len()).filter(|&place| is_one(&table.columns[place])).collect()
}

/// Two columns that may be a key together.
pub(crate) fn pairs(table: &Table) -> Vec<[usize; 2]> {
    let is_half = |column: &Candidate| {
        column.is_complete
            && !column.path.ends_with("[]")
            && column.distinct >= 2
            && column.distinct * 10 <= table.rows * 9
            && (name::is_id(column.leaf()) || column.has_strong_form() || column.is_date)
    };
    let halves: Vec<usize> =
        (0..table.columns.len()).filter(|&place| is_half(&table.columns[place])).collect();
    let mut found = Vec::new();
    for (number, &first) in halves.iter().enumerate() {
        for &second in &halves[number + 1..] {
            let (a, b) = (&table.columns[first], &table.columns[second]);
            let ids = u64::from(!a.is_date) + u64::from(!b.is_date);
            let product = a.distinct.saturating_mul(b.distinct);
            if ids > 0 && product as f64 >= 0.9 * table.rows as f64 {
                found.push((std::cmp::Reverse(ids), first, second));
            }
        }
    }
    found.sort_unstable();
    found.truncate(PAIRS);
    found.into_iter().map(|(_, first, second)| [first, second]).collect()
}

/// Columns that may refer to one of `keys`.
pub(crate) fn links(
    tables: &[Table],
    keys: &[At],
    names: &[String],
    profiles: &[Profile],
) -> Vec<Link> {
    let many = |at: At| {
        let table = &tables[at.0];
        profiles[table.dataset].tree.node(table.columns[at.1].id).column.many()
    };
    let targets: Vec<_> = keys.iter().map(|&key| (key, many(key))).collect();
    let mut links = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        for place in 0..table.columns.len() {
            let from = (number, place);
            if table.columns[place].is_date || table.columns[place].distinct < 2 {
                continue;
            }
            let own = many(from);
            let named = |to: At| {
                let (key, target) = (&tables[to.0].columns[to.1], &tables[to.0]);
                name::affinity(&table.columns[place].path, &key.name, &called(names, target))
            };
            // What is named after one table does not refer to another one by chance.
            let best = targets.iter().map(|(to, _)| named(*to)).max().unwrap_or(0);
            for (to, theirs) in targets.iter().filter(|(to, _)| *to != from) {
                let found = judge(tables, (from, *to), named(*to), (&own, theirs));
                links.extend(found.filter(|link| link.affinity > 0 || best < 2));
            }
        }
    }
    links.sort_by_key(|link| {
        (std::cmp::Reverse((link.is_same_kind, link.affinity)), link.from, link.to)
    });
    links.truncate(LINKS);
    links
}

fn judge(
    tables: &[Table],
    (from, to): (At, At),
    affinity: u32,
    many: (&Many, &Many),
) -> Option<Link> {
    let (own, key) = (&tables[from.0].columns[from.1], &tables[to.0].columns[to.1]);
    let is_same_kind = own.kind == key.kind;
    let (told, both) = shared(many.0, many.1);
    // The key of a table that is named nothing but "id" refers to nothing.
    if own.unique != Unique::No
        && own.is_complete
        && name::is_generic(&own.name)
        && own.kind == Kind::Int
    {
        return None;
    }
    let is_told = told >= 8;
    if is_told && both * 2 < told {
        return None;
    }
    if own.kind == Kind::Int
        && key.kind == Kind::Int
        && (own.min < key.min || own.max > key.max)
        && !is_told
    {
        return None;
    }
    let is_within = from.0 == to.0;
    let is_named = name::is_id(own.leaf())
        && !name::is_generic(own.leaf())
        && (!is_within || name::is_of_own_kind(own.leaf()));
    let is_plausible = match (own.kind, key.kind) {
        (Kind::Text, Kind::Text) => own.may_equal(key) && (affinity > 0 || own.has_strong_form()),
        (Kind::Int, Kind::Int) => affinity > 0 || is_named,
        (Kind::Int, Kind::Text) => key.is_digits() && affinity > 0,
        (Kind::Text, Kind::Int) => own.is_digits() && affinity > 0,
    };
    is_plausible.then_some(Link { from, to, affinity, is_same_kind })
}

fn shared(own: &Many, key: &Many) -> (usize, usize) {
    match (&own.distinct, &key.distinct) {
        (Some(own), Some(key)) => own.bottom.shared_with(&key.bottom),
        _ => (0, 0),
    }
}

/// What the objects of a table are called: by the array that holds them, or by
/// their file.
pub(crate) fn called(names: &[String], table: &Table) -> String {
    let path = table.path.trim_end_matches("[]");
    match path.rsplit('.').next() {
        Some(last) if !last.is_empty() => last.trim_end_matches("[]").to_owned(),
        _ => names[table.dataset].clone(),
    }
}

/// Columns whose names fit a key that they share no value with, as they are.
pub(crate) fn misses(tables: &[Table], keys: &[At], names: &[String], linked: &[At]) -> Vec<Link> {
    const MOST: usize = 24;
    let mut found = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        for (place, own) in table.columns.iter().enumerate() {
            let from = (number, place);
            if linked.contains(&from) || own.is_date || own.distinct < 2 {
                continue;
            }
            for &to in keys {
                let target = &tables[to.0];
                let key = &target.columns[to.1];
                if (target.dataset, target.table()) == (table.dataset, table.table()) {
                    continue;
                }
                let affinity = name::affinity(&own.path, &key.name, &called(names, target));
                if affinity > 0 {
                    let is_same_kind = own.kind == key.kind;
                    found.push(Link { from, to, affinity, is_same_kind });
                }
            }
        }
    }
    found.sort_by_key(|link| (std::cmp::Reverse(link.affinity), link.from, link.to));
    found.truncate(MOST);
    found
}

impl Table {
    fn table(&self) -> u32 {
        self.id
    }
}
