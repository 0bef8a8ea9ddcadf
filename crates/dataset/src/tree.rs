//! The paths of a file, each with what was seen there.
//!
//! Objects that are used as dictionaries (many keys, each in few of them, all
//! values alike) are folded: one path stands for all keys. Otherwise a file
//! keyed by ids would have as many paths as records.

mod fold;
mod node;
mod spelling;

pub(crate) use node::{Counts, Node};
use spelling::Spelling;

use crate::column::{Budget, Value};
use crate::limits;

/// A place in its tree.
pub(crate) type Id = u32;

pub(crate) const ROOT: Id = 0;

/// How many keys an object has before a hash finds them.
const SEARCHED: usize = 8;

#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    free: Vec<Id>,
    sketches: Budget,
    /// Numbers the objects, so that a key that stands twice in one is seen.
    objects: u64,
    pub(crate) cut: Cut,
}

/// What was passed over.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Values below [`limits::DEPTH`].
    pub(crate) deep: u64,
    /// Values of keys for which there was no room.
    pub(crate) keys: u64,
    /// Keys that stood twice in one object.
    pub(crate) repeated: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            free: Vec::new(),
            sketches: limits::SKETCHES,
            objects: 0,
            cut: Cut::default(),
        }
    }
}

impl Tree {
    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The child of that key, and its place.
    pub(crate) fn find(&self, parent: Id, key: &[u8]) -> Option<(Id, usize)> {
        let node = self.node(parent);
        let place = match &node.by_key {
            _ if node.keys.is_some() => 0,
            Some(by_key) => *by_key.get(key)?,
            None => node.children.iter().position(|&child| *self.node(child).key == *key)?,
        };
        Some((*node.children.get(place)?, place))
    }

    /// The child at a place, if `text` begins with its key, and how many bytes
    /// that takes with its colon.
    #[inline]
    pub(crate) fn spelled(&self, parent: Id, place: usize, text: &[u8]) -> Option<(Id, usize)> {
        let node = self.node(parent);
        let length = node.spellings.get(place)?.begins(text)?;
        Some((*node.children.get(place)?, length))
    }

    pub(crate) fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    #[inline]
    pub(crate) fn add(&mut self, id: Id, value: Value<'_>) {
        let node = &mut self.nodes[id as usize];
        node.counts.add(&value);
        node.column.add(value, 1, &mut self.sketches);
    }

    pub(crate) fn begin_object(&mut self, id: Id) -> u64 {
        self.nodes[id as usize].counts.objects += 1;
        self.objects += 1;
        self.objects
    }

    /// Where the value of `key` belongs, in the object that was begun as
    /// `object`, and the place of that child. None if there is no room for it.
    pub(crate) fn child(&mut self, parent: Id, key: &[u8], object: u64) -> Option<(Id, usize)> {
        let found = self.seen(parent, key, 1)?;
        if self.node(parent).keys.is_none() {
            self.stands(found.0, object);
        }
        Some(found)
    }

    /// The same for a key that was seen so many times.
    fn seen(&mut self, parent: Id, key: &[u8], times: u64) -> Option<(Id, usize)> {
        let node = &mut self.nodes[parent as usize];
        if let Some(keys) = &mut node.keys {
            keys.add(Value::text(key), times, &mut self.sketches);
            return Some((*node.children.first()?, 0));
        }
        self.find(parent, key).or_else(|| self.grow(parent, key, times))
    }

    /// A key that stands twice in one object is told.
    #[inline]
    pub(crate) fn stands(&mut self, child: Id, object: u64) {
        let node = &mut self.nodes[child as usize];
        self.cut.repeated += u64::from(node.object == object);
        node.object = object;
    }

    #[cold]
    fn grow(&mut self, parent: Id, key: &[u8], times: u64) -> Option<(Id, usize)> {
        if self.should_fold(parent) {
            self.fold(parent);
            return self.seen(parent, key, times);
        }
        let full = self.nodes[parent as usize].children.len() >= limits::KEYS;
        let Some(child) =
            (if full || key.len() > limits::KEY_BYTES { None } else { self.make(key) })
        else {
            self.nodes[parent as usize].refused += 1;
            self.cut.keys += times;
            return None;
        };
        self.attach(parent, child);
        Some((child, self.node(parent).children.len() - 1))
    }

    /// Where a table's column belongs, which is never folded away.
    pub(crate) fn column(&mut self, parent: Id, key: &[u8], object: u64) -> Option<Id> {
        let full = self.nodes[parent as usize].children.len() >= limits::KEYS;
        let child = if full { None } else { self.make(key) }?;
        self.nodes[child as usize].object = object;
        self.attach(parent, child);
        Some(child)
    }

    /// Makes an object a dictionary; where its values belong.
    pub(crate) fn dictionary(&mut self, id: Id) -> Option<Id> {
        self.node_mut(id).keys = Some(Box::default());
        let value = self.make(node::ANY_KEY)?;
        self.attach(id, value);
        Some(value)
    }

    /// A key of a dictionary.
    pub(crate) fn add_key(&mut self, id: Id, key: Value<'_>) {
        if let Some(keys) = &mut self.nodes[id as usize].keys {
            keys.add(key, 1, &mut self.sketches);
        }
    }

    fn attach(&mut self, parent: Id, child: Id) {
        let key = self.nodes[child as usize].key.clone();
        let node = &mut self.nodes[parent as usize];
        let place = node.children.len();
        node.children.push(child);
        if node.keys.is_none() {
            node.spellings.push(Spelling::new(&key));
        }
        if let Some(by_key) = &mut node.by_key {
            by_key.insert(key, place);
        } else if place >= SEARCHED {
            let keys = self.node(parent).children.iter().enumerate();
            let by_key =
                keys.map(|(place, &child)| (self.node(child).key.clone(), place)).collect();
            self.node_mut(parent).by_key = Some(by_key);
        }
    }

    /// None if there are too many already.
    fn make(&mut self, key: &[u8]) -> Option<Id> {
        let node = Node { key: key.into(), ..Node::default() };
        if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            return Some(id);
        }
        if self.nodes.len() >= limits::PATHS {
            return None;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).ok()
    }

    /// Where the items of an array belong.
    pub(crate) fn item(&mut self, array: Id) -> Option<Id> {
        if let Some(item) = self.nodes[array as usize].item {
            return Some(item);
        }
        let item = self.make(b"")?;
        self.nodes[array as usize].item = Some(item);
        Some(item)
    }

    /// Adds what followed in the file.
    pub(crate) fn merge(&mut self, later: &Self) {
        self.cut.deep += later.cut.deep;
        self.cut.keys += later.cut.keys;
        self.cut.repeated += later.cut.repeated;
        self.merge_node(ROOT, later, ROOT);
    }

    fn merge_node(&mut self, id: Id, later: &Self, other: Id) {
        let theirs = later.node(other);
        let mine = &mut self.nodes[id as usize];
        mine.counts.merge(&theirs.counts);
        mine.lengths.merge(&theirs.lengths);
        mine.column.merge(&theirs.column, &mut self.sketches);
        if let Some(item) = theirs.item {
            match self.item(id) {
                Some(mine) => self.merge_node(mine, later, item),
                None => self.cut.keys += later.node(item).counts.total(),
            }
        }
        if theirs.keys.is_some() && self.nodes[id as usize].keys.is_none() {
            self.fold(id);
        }
        for &child in &theirs.children {
            let folded = self.nodes[id as usize].keys.is_some();
            if let (true, Some(keys)) = (folded, &theirs.keys) {
                let mine = self.nodes[id as usize].keys.get_or_insert_default();
                mine.merge(keys, &mut self.sketches);
                if let Some(&value) = self.nodes[id as usize].children.first() {
                    self.merge_node(value, later, child);
                } else if let Some(value) = self.make(node::ANY_KEY) {
                    self.attach(id, value);
                    self.merge_node(value, later, child);
                }
                continue;
            }
            let theirs = later.node(child);
            if let Some((mine, _)) = self.seen(id, &theirs.key, theirs.counts.total()) {
                self.merge_node(mine, later, child);
            }
        }
    }
}

#[cfg(test)]
mod tests;
