//! Which objects are dictionaries, and folding them.

use super::node::ANY_KEY;
use super::{Id, Node, ROOT, Tree};
use crate::column::Value;
use crate::limits;

/// An object with fewer keys is not folded while the file is read.
const MANY: usize = 64;
/// An object with fewer keys is never folded.
const SOME: usize = 6;

impl Tree {
    /// Asked before a new key is added.
    pub(super) fn should_fold(&self, id: Id) -> bool {
        let node = self.node(id);
        let keys = node.children.len();
        // At the limit, every further key asks.
        let asked = if keys < limits::KEYS { keys as u64 } else { node.refused + 1 };
        if keys < MANY || !asked.is_power_of_two() {
            return false;
        }
        let fill = self.fill(node);
        self.are_alike(node)
            && ((node.counts.objects >= 8 && fill < 0.25)
                || self.have_id_keys(node)
                || (keys == limits::KEYS && self.holds_containers(node)))
    }

    /// Folds what shows to be a dictionary only now that all has been read.
    pub(crate) fn fold_dictionaries(&mut self) {
        self.fold_below(ROOT);
    }

    fn fold_below(&mut self, id: Id) {
        let node = self.node(id);
        let keys = node.children.len();
        let is_dictionary = node.keys.is_none()
            && keys >= SOME
            && self.are_alike(node)
            && self.have_id_keys(node)
            && (self.fill(node) < 0.7 || keys >= 3 * SOME && self.holds_containers(node));
        if is_dictionary {
            self.fold(id);
        }
        let node = self.node(id);
        let below: Vec<Id> = node.children.iter().copied().chain(node.item).collect();
        below.into_iter().for_each(|child| self.fold_below(child));
    }

    /// How many of its keys an object has, on average.
    fn fill(&self, node: &Node) -> f64 {
        let seen: u64 = node.children.iter().map(|&child| self.node(child).counts.total()).sum();
        let room = node.counts.objects.max(1) * node.children.len().max(1) as u64;
        seen as f64 / room as f64
    }

    fn are_alike(&self, node: &Node) -> bool {
        let kinds = node.children.iter().fold(0, |kinds, &id| kinds | self.node(id).counts.kinds());
        kinds.count_ones() <= 1
    }

    fn holds_containers(&self, node: &Node) -> bool {
        let kinds = |id: &Id| self.node(*id).counts;
        node.children.iter().all(|id| kinds(id).objects + kinds(id).arrays > 0)
    }

    /// Whether nine of ten keys have a digit, as ids and dates do, and as the
    /// names of fields seldom do.
    fn have_id_keys(&self, node: &Node) -> bool {
        let has_digit = |id: &&Id| {
            let key = &self.node(**id).key;
            key.iter().any(u8::is_ascii_digit) || key.contains(&b'@')
        };
        node.children.iter().filter(has_digit).count() * 10 >= node.children.len() * 9
    }

    /// One child takes the place of all.
    pub(super) fn fold(&mut self, id: Id) {
        let node = self.node_mut(id);
        let children = std::mem::take(&mut node.children);
        let mut keys = node.keys.take().unwrap_or_default();
        node.by_key = None;
        node.spellings.clear();
        let mut value: Option<Id> = None;
        for child in children {
            let folded = std::mem::take(self.node_mut(child));
            let times = folded.counts.total();
            keys.add(Value::text(&folded.key), times, &mut self.sketches);
            match value {
                None => {
                    *self.node_mut(child) = Node { key: ANY_KEY.into(), ..folded };
                    value = Some(child);
                }
                Some(value) => {
                    self.absorb(value, folded);
                    self.free.push(child);
                }
            }
        }
        let node = self.node_mut(id);
        node.children.extend(value);
        node.keys = Some(keys);
    }

    /// Adds a node of this tree that nothing refers to any more.
    fn absorb(&mut self, id: Id, other: Node) {
        let sketches = &mut self.sketches;
        let mine = &mut self.nodes[id as usize];
        mine.counts.merge(&other.counts);
        mine.lengths.merge(&other.lengths);
        mine.column.merge(&other.column, sketches);
        match (mine.item, other.item) {
            (Some(mine), Some(theirs)) => self.absorb_id(mine, theirs),
            (None, theirs) => mine.item = theirs,
            (Some(_), None) => {}
        }
        if other.keys.is_some() && self.node(id).keys.is_none() {
            self.fold(id);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.nodes[id as usize].keys, &other.keys) {
            mine.merge(theirs, &mut self.sketches);
        }
        for child in other.children {
            let is_folded = self.node(id).keys.is_some();
            let place = if is_folded {
                self.node(id).children.first().copied()
            } else {
                let key = self.node(child).key.clone();
                self.node(id).children.iter().copied().find(|&mine| self.node(mine).key == key)
            };
            match place {
                Some(place) => self.absorb_id(place, child),
                None => self.attach(id, child),
            }
        }
    }

    fn absorb_id(&mut self, id: Id, other: Id) {
        let node = std::mem::take(self.node_mut(other));
        self.free.push(other);
        self.absorb(id, node);
    }
}
