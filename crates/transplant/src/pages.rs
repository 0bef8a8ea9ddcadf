//! Reads `/proc/PID/pagemap`: which page frames a process has where.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use belljar_sys::remote;
use rustix::fs::OFlags;

use crate::PAGE;
use crate::area::USER_END;
use crate::process::Files;
use crate::refusal::{Doing, Refusal};

/// The state of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page(u64);

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const FRAME: u64 = (1 << 55) - 1;

impl Page {
    /// Whether it holds something that its mapping alone does not tell.
    pub(crate) fn is_own(self) -> bool {
        self.0 & (PRESENT | SWAPPED) != 0 && self.0 & OF_FILE == 0
    }

    /// Whether two processes have one and the same page here, or both none.
    /// A page in swap is never taken for another one.
    pub(crate) fn is_same(self, other: Self) -> bool {
        match (self.is_own(), other.is_own()) {
            (false, false) => true,
            (true, true) => {
                let both = self.0 & other.0;
                both & PRESENT != 0 && self.0 & FRAME != 0 && self.0 & FRAME == other.0 & FRAME
            }
            _ => false,
        }
    }
}

/// The page map of one process.
#[derive(Debug)]
pub(crate) struct Pagemap {
    file: File,
}

/// How many pages are looked at in one step.
pub(crate) const WINDOW: u64 = 4096;
/// How many runs the kernel lists in one call.
const RUNS: usize = 4096;

impl Pagemap {
    pub(crate) fn open(files: &Files) -> Result<Self, Refusal> {
        Ok(Self { file: files.open("pagemap", OFlags::RDONLY)? })
    }

    /// The pages from `start` up to `end`, at most a [`WINDOW`].
    pub(crate) fn read(&self, start: u64, end: u64) -> Result<Vec<Page>, Refusal> {
        let pages = (end.saturating_sub(start) / PAGE).min(WINDOW);
        let mut bytes = vec![0u8; usize::try_from(pages * 8).unwrap_or(0)];
        let from = start / PAGE * 8;
        // The file ends where the process's address space does, and when the
        // process does: then it is empty.
        self.file.read_exact_at(&mut bytes, from).map_err(|source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => Refusal::Gone,
            _ => Refusal::System { doing: "read its page map", source },
        })?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| Page(u64::from_le_bytes(*word))).collect())
    }

    /// Runs of pages of its own, at most `limit` bytes.
    pub(crate) fn own(&self, limit: u64) -> Result<Vec<(u64, u64)>, Refusal> {
        let mut found = Vec::new();
        let mut total = 0u64;
        let mut from = 0;
        while from < USER_END {
            let (runs, reached) = remote::own_pages(self.file.as_fd(), from, USER_END, RUNS)
                .doing("look for its own pages")?;
            for &(start, end) in &runs {
                total = total.saturating_add(end.saturating_sub(start));
            }
            if total > limit {
                return Err(Refusal::TooLarge { limit });
            }
            found.extend(runs);
            // An empty step would be one without end.
            if reached <= from {
                break;
            }
            from = reached;
        }
        Ok(found)
    }
}

/// The parts of `ranges` that are in `others` as well, each with the number of
/// its range. Both are in order.
pub(crate) fn common(ranges: &[(u64, u64)], others: &[(u64, u64)]) -> Vec<(usize, u64, u64)> {
    let mut found = Vec::new();
    let mut passed = 0;
    for (index, &(range_start, range_end)) in ranges.iter().enumerate() {
        while others.get(passed).is_some_and(|other| other.1 <= range_start) {
            passed += 1;
        }
        for &(start, end) in others.get(passed..).unwrap_or_default() {
            if start >= range_end {
                break;
            }
            found.push((index, start.max(range_start), end.min(range_end)));
        }
    }
    found
}

/// Everything that is in one of the two or in both, in order.
pub(crate) fn either(one: &[(u64, u64)], two: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = one.iter().chain(two).copied().collect();
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(all.len());
    for (start, end) in all {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// A stretch of memory, and which of the caller's it belongs to.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    index: usize,
    start: u64,
    end: u64,
}

/// Tells every page where `subject` and `reference` do not have the same one.
/// `stretches` are in order, each with a number of the caller's, which is the
/// first argument of `tell`.
///
/// The reference is read before and after: a page that the kernel moves
/// meanwhile could leave its frame to another one, and that must not pass for
/// the same.
pub(crate) fn compare(
    subject: &Pagemap,
    reference: &Pagemap,
    stretches: &[(usize, u64, u64)],
    mut tell: impl FnMut(usize, u64, Page, Page),
) -> Result<(), Refusal> {
    for group in &groups(stretches) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let before = reference.read(first.start, last.end)?;
        let pages = subject.read(first.start, last.end)?;
        let after = reference.read(first.start, last.end)?;
        for stretch in group {
            for address in (stretch.start..stretch.end).step_by(STEP) {
                let at = usize::try_from((address - first.start) / PAGE).unwrap_or(usize::MAX);
                let (Some(&page), Some(&before), Some(&after)) =
                    (pages.get(at), before.get(at), after.get(at))
                else {
                    return Err(Refusal::Gone);
                };
                if !(page.is_same(before) && before == after) {
                    tell(stretch.index, address, page, after);
                }
            }
        }
    }
    Ok(())
}

const STEP: usize = 4096;

/// Puts stretches together that can be looked at in one step; small mappings
/// mostly stand side by side.
fn groups(stretches: &[(usize, u64, u64)]) -> Vec<Vec<Stretch>> {
    let mut groups: Vec<Vec<Stretch>> = Vec::new();
    for &(index, range_start, range_end) in stretches {
        let mut start = range_start;
        while start < range_end {
            let window =
                |group: &Vec<Stretch>| group.first().map_or(0, |first| first.start) + WINDOW * PAGE;
            let end;
            match groups.last_mut() {
                Some(group) if start < window(group) => {
                    end = range_end.min(window(group));
                    group.push(Stretch { index, start, end });
                }
                _ => {
                    end = range_end.min(start + WINDOW * PAGE);
                    groups.push(vec![Stretch { index, start, end }]);
                }
            }
            start = end;
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_frames_are_the_same_page() {
        let own = |frame| Page(PRESENT | frame);
        assert!(own(7).is_same(own(7)));
        assert!(!own(7).is_same(own(8)));
        assert!(!own(7).is_same(Page(0)));
        assert!(Page(0).is_same(Page(PRESENT | OF_FILE | 9)));
        assert!(!Page(SWAPPED | 7).is_same(Page(SWAPPED | 7)));
        // Without the right to see frames all are 0.
        assert!(!own(0).is_same(own(0)));
    }

    #[test]
    fn small_ranges_are_looked_at_together_and_long_ones_in_parts() {
        let long = WINDOW * PAGE;
        let found =
            groups(&[(0, 0, PAGE), (1, 4 * PAGE, 5 * PAGE), (2, 9 * long, 11 * long + PAGE)]);
        let sizes: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1, 1, 1]);
        let total: u64 = found.iter().flatten().map(|part| part.end - part.start).sum();
        assert_eq!(total, 2 * PAGE + 2 * long + PAGE);
    }

    #[test]
    fn ranges_are_joined_and_cut() {
        assert_eq!(either(&[(1, 3), (7, 9)], &[(2, 4), (9, 10), (20, 21)]), {
            [(1, 4), (7, 10), (20, 21)]
        });
        assert_eq!(common(&[(0, 2), (3, 8), (8, 30)], &[(1, 4), (7, 10), (20, 21)]), {
            [(0, 1, 2), (1, 3, 4), (1, 7, 8), (2, 8, 10), (2, 20, 21)]
        });
    }
}
