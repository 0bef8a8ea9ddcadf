//! A file as tables: its records, and the objects in each of its arrays.

use crate::column::Many;
use crate::describe::Meaning;
use crate::meaning;
use crate::read::{Profile, records};
use crate::tree::{Id, Node, Tree};

/// A column that could be a key, or refer to one.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) id: Id,
    /// Within its table, such as `owner.id`.
    pub(crate) name: String,
    /// Within its dataset, such as `contacts[].owner.id`.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) distinct: u64,
    /// Whether every object of the table has one.
    pub(crate) is_complete: bool,
    pub(crate) unique: Unique,
    pub(crate) meaning: Option<Meaning>,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Whether it may be half of a key.
    pub(crate) is_date: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unique {
    Yes,
    /// The sketches do not tell.
    Maybe,
    No,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) dataset: usize,
    pub(crate) id: Id,
    /// Empty for the records themselves, or such as `contacts[]`.
    pub(crate) path: String,
    pub(crate) rows: u64,
    pub(crate) columns: Vec<Candidate>,
}

/// Longer texts on average are prose, not keys.
const LONGEST: u64 = 128;
/// Tables of one dataset that are looked at, the largest objects first seen.
const TABLES: usize = 32;

pub(crate) fn tables(dataset: usize, profile: &Profile) -> Vec<Table> {
    let mut tables = Vec::new();
    if profile.rows.is_some() {
        // What holds for some of the records may not hold for all.
        return tables;
    }
    collect(&profile.tree, dataset, records(&profile.tree), String::new(), &mut tables);
    tables
}

fn collect(tree: &Tree, dataset: usize, id: Id, path: String, tables: &mut Vec<Table>) {
    if tables.len() == TABLES {
        return;
    }
    let node = tree.node(id);
    let place = tables.len();
    let table = Table { dataset, id, path, rows: node.counts.objects, columns: Vec::new() };
    tables.push(table);
    let mut arrays = Vec::new();
    let mut columns = Vec::new();
    let prefix = tables[place].path.clone();
    let rows = node.counts.objects;
    let mut walk = Walk { tree, rows, prefix, arrays: &mut arrays, columns: &mut columns };
    walk.below(node, "");
    tables[place].columns = columns;
    if let Some(item) = node.item {
        arrays.push((item, format!("{}[]", tables[place].path)));
    }
    for (item, path) in arrays {
        collect(tree, dataset, item, path, tables);
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    rows: u64,
    prefix: String,
    arrays: &'a mut Vec<(Id, String)>,
    columns: &'a mut Vec<Candidate>,
}

impl Walk<'_> {
    fn below(&mut self, node: &Node, name: &str) {
        let is_dictionary = node.keys.is_some();
        for &child in &node.children {
            let below = self.tree.node(child);
            let key = String::from_utf8_lossy(&below.key);
            let name = if name.is_empty() { key.into_owned() } else { format!("{name}.{key}") };
            let path = if self.prefix.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", self.prefix)
            };
            if is_dictionary {
                // Its values are objects of a table of their own.
                self.arrays.push((child, path));
                continue;
            }
            self.column(child, below, &name, &path);
            if below.counts.objects > 0 {
                self.below(below, &name);
            }
            if let Some(item) = below.item {
                self.arrays.push((item, format!("{path}[]")));
                // Texts in an array can refer to something as well.
                self.column(item, self.tree.node(item), &name, &format!("{path}[]"));
            }
        }
    }

    fn column(&mut self, id: Id, node: &Node, name: &str, path: &str) {
        let counts = node.counts;
        let values = counts.ints + counts.texts;
        let kind = if counts.ints == 0 { Kind::Text } else { Kind::Int };
        let is_pure = counts.ints == 0 || counts.texts == 0;
        if values == 0
            || !is_pure
            || counts.scalars() != values
            || counts.arrays + counts.objects > 0
        {
            return;
        }
        let many = node.column.many();
        let Some(distinct) = &many.distinct else { return };
        if many.texts.as_ref().is_some_and(|texts| texts.chars > LONGEST * texts.count) {
            return;
        }
        let estimate = distinct.estimate();
        let is_exact = distinct.bottom.is_whole();
        let unique = match (node.column.is_ascending(), is_exact) {
            (true, _) => Unique::Yes,
            (false, true) if estimate == values => Unique::Yes,
            (false, false) if estimate as f64 >= 0.88 * values as f64 => Unique::Maybe,
            _ => Unique::No,
        };
        let is_date = is_date(&many);
        let (min, max) = many.numbers.as_ref().map_or((0.0, 0.0), |n| (n.min, n.max));
        let is_text = kind == Kind::Text && !is_date;
        self.columns.push(Candidate {
            id,
            name: name.to_owned(),
            path: path.to_owned(),
            kind,
            distinct: estimate,
            is_complete: values == self.rows,
            unique,
            meaning: if is_text { meaning::of_texts(distinct.bottom.texts()) } else { None },
            min,
            max,
            is_date,
        });
    }
}

fn is_date(many: &Many) -> bool {
    let texts = many.texts.as_ref().map_or(0, |texts| texts.count);
    many.dates.as_ref().is_some_and(|dates| dates.count * 20 >= texts * 19)
}

impl Candidate {
    pub(crate) fn leaf(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// Texts of digits, which a column of numbers could mean.
    pub(crate) fn is_digits(&self) -> bool {
        matches!(self.meaning, Some(Meaning::NumericText | Meaning::ZeroPadded))
    }

    /// False if the forms of the texts rule it out that they are the same.
    pub(crate) fn may_equal(&self, other: &Self) -> bool {
        match (&self.meaning, &other.meaning) {
            (Some(Meaning::Pattern(mine)), Some(Meaning::Pattern(theirs))) => {
                literal(mine) == literal(theirs)
            }
            (Some(mine), Some(theirs)) if self.has_strong_form() || other.has_strong_form() => {
                mine == theirs
            }
            (Some(_), None) | (None, Some(_)) => {
                !(self.has_strong_form() && other.has_strong_form())
            }
            _ => true,
        }
    }

    /// Whether values alone tell that they are ids: chance overlaps of these
    /// are unlikely, unlike those of small numbers and common words.
    pub(crate) fn has_strong_form(&self) -> bool {
        match &self.meaning {
            Some(Meaning::Uuid | Meaning::Email | Meaning::Url | Meaning::Pattern(_)) => true,
            Some(Meaning::ZeroPadded) => self.distinct > 100,
            _ => false,
        }
    }
}

/// What a pattern begins with, before its digits.
fn literal(pattern: &str) -> &str {
    let end = pattern.find(['\\', '[']).unwrap_or(pattern.len());
    &pattern[..end]
}
