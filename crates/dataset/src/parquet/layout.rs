//! Which column is which path, and what its levels count.
//!
//! A column of a nested schema has two small numbers beside each value. The repetition level says
//! which of the lists around it goes on; the definition level says how far down the path
//! something is there. Objects, lists and nulls above a leaf are counted from the levels of the
//! first leaf below them.

use parquet::basic::Repetition;
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::cell::{Cell, Shown};
use super::chunk::Entry;
use super::kind;
use crate::limits;
use crate::tree::{Id, ROOT, Tree};

/// A column, and where its values belong.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// Its number in the file.
    pub(crate) column: usize,
    pub(crate) target: Target,
    pub(super) cell: Cell,
    /// The definition level from which on there is a value, or a null in its place.
    present: i16,
    /// The levels of a value.
    pub(super) def: i16,
    pub(super) rep: i16,
    /// What above it is counted by its levels.
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Value(Id),
    /// A key of this dictionary.
    Key(Id),
}

/// An object or a list above a leaf.
#[derive(Debug)]
pub(super) struct Step {
    id: Id,
    /// A level at most this high begins another one.
    rep: i16,
    /// From this level on there is one, or a null in its place; from `value` on it is no null.
    present: i16,
    value: i16,
    is_list: bool,
}

impl Leaf {
    /// Counts what begins above the leaf with an entry. `lengths` are those of open lists.
    pub(super) fn count(&self, entry: &Entry<'_>, tree: &mut Tree, lengths: &mut [Option<u64>]) {
        for (step, length) in self.steps.iter().zip(lengths) {
            if entry.rep <= step.rep {
                let node = tree.node_mut(step.id);
                if let Some(length) = length.take() {
                    node.lengths.add(length);
                }
                if entry.def >= step.value {
                    if step.is_list {
                        node.counts.arrays += 1;
                        *length = Some(0);
                    } else {
                        node.counts.objects += 1;
                    }
                } else if entry.def >= step.present {
                    node.counts.nulls += 1;
                }
            }
            if let Some(length) = length
                && entry.rep <= step.rep + 1
                && entry.def > step.value
            {
                *length += 1;
            }
        }
    }

    pub(super) fn put(&self, entry: Entry<'_>, tree: &mut Tree) {
        match (self.target, entry.value) {
            (Target::Value(id), Some(Shown::Value(value))) => tree.add(id, value),
            (Target::Value(id), Some(Shown::Bool(true))) => tree.node_mut(id).counts.trues += 1,
            (Target::Value(id), Some(Shown::Bool(false))) => tree.node_mut(id).counts.falses += 1,
            (Target::Value(id), Some(Shown::NotFinite)) => tree.node_mut(id).counts.not_finite += 1,
            (Target::Value(id), None) if entry.def >= self.present => {
                tree.node_mut(id).counts.nulls += 1;
            }
            (Target::Key(id), Some(Shown::Value(value))) => tree.add_key(id, value),
            (Target::Key(_), _) | (Target::Value(_), None) => {}
        }
    }

    /// A row group has ended, and with it the lists.
    pub(super) fn close(&self, tree: &mut Tree, lengths: &mut [Option<u64>]) {
        for (step, length) in self.steps.iter().zip(lengths) {
            if let Some(length) = length.take() {
                tree.node_mut(step.id).lengths.add(length);
            }
        }
    }
}

/// Makes a path in `tree` for each column; without one are those that are too deep, or too many.
pub(super) fn leaves(schema: &SchemaDescriptor, rows: u64, tree: &mut Tree) -> Vec<Leaf> {
    let mut walk = Walk { tree, rows, leaves: Vec::new(), steps: Vec::new(), column: 0 };
    for field in schema.root_schema().get_fields() {
        walk.field(field, Some(ROOT), Levels { def: 0, rep: 0 }, 1);
    }
    walk.leaves
}

#[derive(Debug, Clone, Copy)]
struct Levels {
    def: i16,
    rep: i16,
}

struct Walk<'a> {
    tree: &'a mut Tree,
    rows: u64,
    leaves: Vec<Leaf>,
    /// Those that no leaf counts yet.
    steps: Vec<Step>,
    /// The number of the next leaf.
    column: usize,
}

impl Walk<'_> {
    /// A field of an object that is there at `at`.
    fn field(&mut self, field: &Type, object: Option<Id>, at: Levels, depth: usize) {
        let name = field.name().as_bytes();
        let name = name.get(..limits::KEY_BYTES).unwrap_or(name);
        let id = object.filter(|_| depth < limits::DEPTH).and_then(|object| {
            self.tree.cut.repeated += u64::from(self.tree.find(object, name).is_some());
            self.tree.column(object, name, 0)
        });
        let (leaves, steps) = (self.leaves.len(), self.steps.len());
        self.one_or_many(field, id, at, depth);
        if self.leaves.len() == leaves {
            // No leaf below it counts them, and that of another field must not.
            self.steps.truncate(steps);
        }
    }

    /// A value, or a list of them where the type is repeated.
    fn one_or_many(&mut self, of: &Type, id: Option<Id>, at: Levels, depth: usize) {
        if repetition(of) == Repetition::REPEATED {
            let item = self.list(id, at, at.def);
            self.value(of, item, Levels { def: at.def + 1, rep: at.rep + 1 }, depth + 1);
        } else {
            self.value(of, id, at, depth);
        }
    }

    /// A list that is no null from `value` on; returns where its items belong.
    fn list(&mut self, id: Option<Id>, at: Levels, value: i16) -> Option<Id> {
        let id = id?;
        let Levels { def: present, rep } = at;
        self.steps.push(Step { id, rep, present, value, is_list: true });
        self.tree.item(id)
    }

    /// What is there at `at`, or a null in its place.
    fn value(&mut self, of: &Type, id: Option<Id>, at: Levels, depth: usize) {
        let Some(id) = id.filter(|_| depth < limits::DEPTH) else {
            return self.pass_over(of, depth);
        };
        let def = at.def + i16::from(repetition(of) == Repetition::OPTIONAL);
        if of.is_primitive() {
            return self.leaf(of, Target::Value(id), at.def, Levels { def, rep: at.rep });
        }
        let inside = Levels { def: def + 1, rep: at.rep + 1 };
        match (kind::of_group(of), of.get_fields()) {
            (kind::Group::List, [repeated]) if repetition(repeated) == Repetition::REPEATED => {
                let item = self.list(Some(id), at, def);
                match fields(repeated) {
                    [item_type] if !is_itself_the_item(of, repeated) => {
                        self.one_or_many(item_type, item, inside, depth + 1);
                    }
                    _ => self.value(repeated, item, inside, depth + 1),
                }
            }
            (kind::Group::Map, [pair]) if is_pair(pair) => {
                let [key, value] = pair.get_fields() else { return };
                let value_id = self.tree.dictionary(id);
                self.object(id, at, def);
                let key_def = inside.def + i16::from(repetition(key) == Repetition::OPTIONAL);
                self.leaf(key, Target::Key(id), inside.def, Levels { def: key_def, ..inside });
                self.one_or_many(value, value_id, inside, depth + 1);
            }
            (_, fields) => {
                self.object(id, at, def);
                for field in fields {
                    self.field(field, Some(id), Levels { def, rep: at.rep }, depth + 1);
                }
            }
        }
    }

    fn object(&mut self, id: Id, at: Levels, value: i16) {
        let Levels { def: present, rep } = at;
        self.steps.push(Step { id, rep, present, value, is_list: false });
    }

    fn leaf(&mut self, of: &Type, target: Target, present: i16, at: Levels) {
        let (cell, stored_as) = kind::of_values(of);
        if let Target::Value(id) = target {
            self.tree.node_mut(id).stored_as = Some(stored_as.into());
        }
        let steps = std::mem::take(&mut self.steps);
        let Levels { def, rep } = at;
        self.leaves.push(Leaf { column: self.column, target, cell, present, def, rep, steps });
        self.column += 1;
    }

    /// Leaves for which there is no room. A schema can be deeper than a stack.
    fn pass_over(&mut self, of: &Type, depth: usize) {
        let mut open = vec![of];
        while let Some(of) = open.pop() {
            if of.is_primitive() {
                self.column += 1;
                let cut = &mut self.tree.cut;
                let count = if depth < limits::DEPTH { &mut cut.keys } else { &mut cut.deep };
                *count = count.saturating_add(self.rows);
            } else {
                open.extend(of.get_fields().iter().map(AsRef::as_ref));
            }
        }
    }
}

fn fields(of: &Type) -> &[TypePtr] {
    if of.is_group() { of.get_fields() } else { &[] }
}

fn repetition(of: &Type) -> Repetition {
    let info = of.get_basic_info();
    if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED }
}

/// Old writers have no group of its own for each item. The format names the cases.
fn is_itself_the_item(list: &Type, repeated: &Type) -> bool {
    let name = repeated.name();
    name == "array" || name.strip_suffix("_tuple").is_some_and(|name| name == list.name())
}

/// Returns true for what a dictionary repeats: a plain key, and a value.
fn is_pair(of: &Type) -> bool {
    let is_key = |key: &Type| key.is_primitive() && repetition(key) != Repetition::REPEATED;
    repetition(of) == Repetition::REPEATED && matches!(fields(of), [key, _] if is_key(key))
}
