//! JSON Lines, block by block, on several threads.
//!
//! Blocks are cut by size alone, never by the number of threads, and their
//! parts are merged in the file's order: however many threads there are, the
//! same comes out. A line belongs to the block in which it begins.

use std::io;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{Job, Part, ReadError, finish, skip_mark};
use crate::content::Tally;
use crate::json::{Lines, Scanner, Stop, Walk};
use crate::problem::What;
use crate::window::Window;

pub(crate) fn lines(job: Job<'_>) -> Result<Part, ReadError> {
    let mut whole = Part::default();
    let block = |range: Range<u64>| {
        let tally = job.tally(range.clone());
        let window = Window::new(job, range.start, tally);
        one(window, range)
    };
    let fold = |part: Part| {
        whole.tree.merge(&part.tree);
        whole.problems.merge(&part.problems);
        whole.blocks.extend(part.blocks);
        whole.values += part.values;
        whole.text_bytes += part.text_bytes;
    };
    in_blocks(job, block, fold).map_err(|error| job.io(error))?;
    Ok(whole)
}

/// Stands at the first line that begins in a block; false if none does.
pub(crate) fn to_first_line(window: &mut Window<'_>, range: &Range<u64>) -> bool {
    if range.start == 0 {
        skip_mark(window);
        return true;
    }
    // A line that begins right here has its line feed just before.
    window.seek(range.start - 1);
    let found = window.next_line();
    found && window.offset() < range.end
}

fn one(window: Window<'_>, range: Range<u64>) -> io::Result<Part> {
    let mut walk = Walk::new(Scanner::new(window, Lines::One));
    let mut goes_on = to_first_line(&mut walk.scanner.window, &range);
    let (mut good, mut bad, mut first_bad, mut stopped) = (0, 0, None, None);
    while goes_on && walk.scanner.window.offset() < range.end {
        let line = walk.scanner.window.offset();
        if walk.scanner.peek().is_none() {
            // An empty line, or the end.
            goes_on = walk.scanner.window.next_line();
            continue;
        }
        let result = walk.value();
        if result.is_ok() && walk.scanner.peek().is_none() {
            good += 1;
            goes_on = walk.scanner.window.next_line();
            continue;
        }
        walk.scanner.window.seek(line);
        goes_on = walk.scanner.window.next_line();
        if goes_on || result != Err(Stop::End) {
            bad += 1;
            first_bad.get_or_insert(line);
        } else {
            stopped = Some(Stop::End);
        }
    }
    let mut part = finish(&mut walk, stopped);
    part.problems.add(What::BadLines, bad, first_bad);
    part.values = good;
    walk.scanner.window.drain(range.end);
    part.text_bytes = walk.scanner.window.seen();
    let tally = walk.scanner.window.finish()?;
    part.blocks = tally.map(Tally::finish).unwrap_or_default();
    part.tree = walk.tree;
    Ok(part)
}

/// Calls `work` for each block on some threads, and `fold` with what it made,
/// in the file's order, on this one.
pub(crate) fn in_blocks<T: Send>(
    job: Job<'_>,
    work: impl Fn(Range<u64>) -> io::Result<T> + Sync,
    mut fold: impl FnMut(T),
) -> io::Result<()> {
    let Job { size, threads, cut, .. } = job;
    if !job.coding.is_plain() {
        // The text has another length than the file, and cannot be entered in the middle.
        return work(0..u64::MAX).map(fold);
    }
    let count = size.div_ceil(cut.block);
    let range = |number: u64| number * cut.block..((number + 1) * cut.block).min(size);
    if threads <= 1 || count <= 1 {
        return (0..count).try_for_each(|block| work(range(block)).map(&mut fold));
    }
    let ahead = threads as u64 + 1;
    let queue = Queue { state: Mutex::new(State::default()), changed: Condvar::new() };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(block) = queue.take(count, ahead) {
                    let made = work(range(block));
                    queue.put(block, made);
                }
            });
        }
        for block in 0..count {
            match queue.get(block) {
                Ok(made) => fold(made),
                Err(error) => {
                    queue.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    })
}

/// Blocks that are under way, and those that are done but not yet folded. A
/// worker that is far ahead waits: memory stays bounded.
struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    next: u64,
    folded: u64,
    done: Vec<(u64, io::Result<T>)>,
    is_stopped: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { next: 0, folded: 0, done: Vec::new(), is_stopped: false }
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, count: u64, ahead: u64) -> Option<u64> {
        let is_waiting = |state: &mut State<T>| {
            !state.is_stopped && state.next < count && state.next >= state.folded + ahead
        };
        let guard = self.changed.wait_while(self.lock(), is_waiting);
        let mut state = guard.unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped || state.next >= count {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn put(&self, block: u64, made: io::Result<T>) {
        self.lock().done.push((block, made));
        self.changed.notify_all();
    }

    fn get(&self, block: u64) -> io::Result<T> {
        let is_missing = |state: &mut State<T>| state.done.iter().all(|(done, _)| *done != block);
        let guard = self.changed.wait_while(self.lock(), is_missing);
        let mut state = guard.unwrap_or_else(PoisonError::into_inner);
        let place = state.done.iter().position(|(done, _)| *done == block).unwrap_or_default();
        state.folded = block + 1;
        self.changed.notify_all();
        state.done.swap_remove(place).1
    }

    fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }
}
