//! Which call a group of processes is: what connections are put down to.
//!
//! Every call has a group of its own in the host's kernel, and an interpreter has
//! one for all of its cells. Calls that have ended are remembered for a while:
//! what they left behind may still go on, and is still theirs.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_domain::network::CallRef;
use belljar_engine::cgroup::{CallGroup, FIRST_CALL};
use belljar_peer_proto::gateway::Belongs;

use crate::command::Tag;
use crate::network::Way;

#[derive(Debug)]
pub(crate) struct Ledger {
    next: AtomicU32,
    book: Mutex<Book>,
    /// Whether anyone asks whose connections are.
    watched: AtomicBool,
    /// How code gets out of the sandbox, if it does.
    way: Mutex<Option<Arc<Way>>>,
}

#[derive(Debug, Default)]
struct Book {
    /// Numbers of calls, by the kernel's number of their group.
    groups: HashMap<u64, u32>,
    calls: HashMap<u32, Entry>,
    /// Those that have ended, oldest first.
    ended: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Entry {
    tag: Tag,
    group: Option<u64>,
    ended: bool,
    /// Of an interpreter: the cell that it runs, or ran last.
    cell: Option<Cell>,
}

#[derive(Debug)]
struct Cell {
    number: u32,
    tag: Tag,
    ended: bool,
}

/// Calls that are remembered after their end, with their names. Of others only
/// the number is known, and that for as long as they have a process.
const REMEMBERED: usize = 1024;

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU32::new(FIRST_CALL),
            book: Mutex::default(),
            watched: AtomicBool::new(false),
            way: Mutex::default(),
        }
    }

    /// The number of the next call, or of the next cell.
    pub(crate) fn next(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, number: u32, tag: &Tag, group: Option<&CallGroup>) {
        self.book().calls.insert(number, Entry { tag: tag.clone(), ..Entry::default() });
        // After it is in the book: whoever begins to watch meanwhile looks for all
        // groups there are, and finds it in one way or the other.
        if self.watched.load(Ordering::SeqCst)
            && let Some(id) = group.and_then(CallGroup::id)
        {
            self.note(id, number);
        }
    }

    /// From now on groups are noted as they are made.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Ordering::SeqCst);
    }

    /// Notes which group a call has.
    pub(crate) fn note(&self, group: u64, number: u32) {
        let mut book = self.book();
        // Not of one that is forgotten: it would never be forgotten again.
        if let Some(entry) = book.calls.get_mut(&number) {
            entry.group = Some(group);
            book.groups.insert(group, number);
        }
    }

    /// A cell of the interpreter `number` begins.
    pub(crate) fn begin_cell(&self, number: u32, cell: u32, tag: &Tag) {
        let cell = Cell { number: cell, tag: tag.clone(), ended: false };
        if let Some(entry) = self.book().calls.get_mut(&number) {
            entry.cell = Some(cell);
        }
    }

    pub(crate) fn end_cell(&self, number: u32) {
        let mut book = self.book();
        if let Some(cell) = book.calls.get_mut(&number).and_then(|entry| entry.cell.as_mut()) {
            cell.ended = true;
        }
    }

    pub(crate) fn end(&self, number: u32) {
        if let Some(way) = self.way() {
            way.end(number);
        }
        let mut book = self.book();
        let Some(entry) = book.calls.get_mut(&number) else { return };
        if std::mem::replace(&mut entry.ended, true) {
            return;
        }
        book.ended.push_back(number);
        if book.ended.len() > REMEMBERED
            && let Some(oldest) = book.ended.pop_front()
            && let Some(entry) = book.calls.remove(&oldest)
            && let Some(group) = entry.group
        {
            book.groups.remove(&group);
        }
    }

    /// The call that has this group.
    pub(crate) fn call_of(&self, group: u64) -> Option<u32> {
        self.book().groups.get(&group).copied()
    }

    /// What is known of the call that has a group, or of the cell in it.
    pub(crate) fn describe(&self, number: u32) -> Belongs {
        let book = self.book();
        let Some(entry) = book.calls.get(&number) else {
            // Older than anyone remembers.
            let call = Some(CallRef { number, name: None, ended: true });
            return Belongs { call, ..Belongs::default() };
        };
        let (number, tag, ended) = match &entry.cell {
            Some(cell) => (cell.number, &cell.tag, cell.ended || entry.ended),
            None => (number, &entry.tag, entry.ended),
        };
        Belongs {
            run: tag.run.clone(),
            turn: tag.turn,
            call: Some(CallRef { number, name: tag.name.clone(), ended }),
            process: None,
        }
    }

    pub(crate) fn way(&self) -> Option<Arc<Way>> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_way(&self, way: Option<Arc<Way>>) {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = way;
    }

    /// What the environment of the call, or of the interpreter, says of the way
    /// out.
    pub(crate) async fn variables(&self, number: u32) -> Vec<(String, String)> {
        match self.way() {
            Some(way) => way.variables(number).await,
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Tag {
        Tag { name: Some(name.into()), run: Some("r".into()), turn: Some(2) }
    }

    fn call(belongs: &Belongs) -> (u32, Option<&str>, bool) {
        let call = belongs.call.as_ref().unwrap();
        (call.number, call.name.as_deref(), call.ended)
    }

    #[test]
    fn a_call_is_known_by_its_group_until_long_after_its_end() {
        let ledger = Ledger::new();
        ledger.watch();
        let number = ledger.next();
        ledger.begin(number, &named("a"), None);
        ledger.note(77, number);
        assert_eq!(ledger.call_of(77), Some(number));
        let belongs = ledger.describe(number);
        assert_eq!(call(&belongs), (number, Some("a"), false));
        assert_eq!((belongs.run.as_deref(), belongs.turn), (Some("r"), Some(2)));
        ledger.end(number);
        assert_eq!(call(&ledger.describe(number)), (number, Some("a"), true));
        for _ in 0..=REMEMBERED {
            let other = ledger.next();
            ledger.begin(other, &Tag::default(), None);
            ledger.end(other);
        }
        // Forgotten, and still the same call.
        assert_eq!(ledger.call_of(77), None);
        assert_eq!(call(&ledger.describe(number)), (number, None, true));
        assert!(ledger.book().calls.len() <= REMEMBERED + 1);
    }

    #[test]
    fn an_interpreter_stands_for_the_cell_in_it() {
        let ledger = Ledger::new();
        let interpreter = ledger.next();
        ledger.begin(interpreter, &Tag::default(), None);
        assert_eq!(call(&ledger.describe(interpreter)), (interpreter, None, false));
        ledger.begin_cell(interpreter, 5, &named("five"));
        assert_eq!(call(&ledger.describe(interpreter)), (5, Some("five"), false));
        ledger.end_cell(interpreter);
        assert_eq!(call(&ledger.describe(interpreter)), (5, Some("five"), true));
        ledger.begin_cell(interpreter, 6, &named("six"));
        assert_eq!(call(&ledger.describe(interpreter)), (6, Some("six"), false));
        ledger.end(interpreter);
        assert_eq!(call(&ledger.describe(interpreter)), (6, Some("six"), true));
    }
}
