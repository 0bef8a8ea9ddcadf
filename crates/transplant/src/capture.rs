//! Takes an image of a process.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::PAGE;
use crate::area::{Area, Backing, areas, areas_in_detail};
use crate::channel::{DESCRIPTORS, Lent, lend};
use crate::image::{Base, Content, Image, Limits, Mapping, Run};
use crate::layout::{Kind, Layout, Piece, layout};
use crate::memory::{Memory, Source, Wanted};
use crate::pages::{Pagemap, common, compare, either};
use crate::process::Process;
use crate::reference::Reference;
use crate::refusal::Refusal;
use crate::state;
use crate::stopped::{Call, Stopped, mmap};

/// Pages that did not change are taken along when they stand between two
/// that did: one long run costs less than two short ones.
const GAP: u64 = 8 * PAGE;

/// Takes an image of a process that waits for its next message. The process
/// stands still meanwhile, and goes on after.
///
/// `previous` is the last image that was taken of this process or given to it.
/// With it, only what changed since is copied: large runs that were copied are
/// put under the process as private mappings of the image, where the kernel
/// then tells written pages from others.
pub fn capture(
    process: &Process,
    reference: &Reference,
    previous: Option<&Image>,
    limits: &Limits,
) -> Result<Image, Refusal> {
    take(process, reference, previous, limits).map_err(|refusal| process.explain(refusal))
}

fn take(
    process: &Process,
    reference: &Reference,
    previous: Option<&Image>,
    limits: &Limits,
) -> Result<Image, Refusal> {
    let mut stopped = Stopped::stop(process)?;
    stopped.check()?;
    let mark = reference.mark()?;
    let areas = look_at_areas(&stopped, reference, previous, limits)?;
    let mut memories = known(previous);
    let Layout { pieces, kernel } = layout(&areas, reference.areas(), &memories)?;
    let mut mappings = find_runs(&stopped, reference, pieces, limits)?;

    stopped.set_up(&areas, &[])?;
    let state = state::take(&stopped)?;
    let wanted = number_runs(&mut mappings, memories.len());
    let taken = wanted.iter().map(|wanted| wanted.end - wanted.start).sum();
    if taken > 0 {
        let source = Source { pid: process.pid(), memory: stopped.memory() };
        let memory = Memory::take(source, &wanted)?;
        put_under(&stopped, &memory, &mappings, memories.len(), room_for(&areas, limits))?;
        memories.push(Arc::new(memory));
    }
    stopped.tidy_up()?;
    drop(stopped);
    // Frames were compared meanwhile; that told something only if it stood still.
    if reference.mark()? != mark {
        return Err(Refusal::ReferenceRan);
    }
    let mut image = Image { memories, mappings, kernel, state, mark, taken };
    forget_unused(&mut image);
    Ok(image)
}

/// The areas of the process, and which of them fork(2) wipes.
///
/// Only of what came since the fork is the latter unknown, and worth asking for
/// only if it is small and anonymous: generators of random numbers keep a page
/// or two that way. What was there in the last image was asked about then.
fn look_at_areas(
    stopped: &Stopped<'_>,
    reference: &Reference,
    previous: Option<&Image>,
    limits: &Limits,
) -> Result<Vec<Area>, Refusal> {
    const SMALL: u64 = 256 << 10;
    let mut areas = areas(&stopped.files, limits.mappings)?;
    let inherited = reference.areas();
    let seen = previous.map_or(&[][..], |image| &image.mappings);
    for area in &mut areas {
        let place = (area.start, area.end);
        let is_small = area.end - area.start <= SMALL && !area.is_stack;
        if !is_small || area.is_shared || area.backing != Backing::Zeros {
            continue;
        }
        let old = inherited.binary_search_by_key(&place, |other| (other.start, other.end));
        let last = seen.binary_search_by_key(&place, |other| (other.start, other.end));
        match (old, last.ok().and_then(|index| seen.get(index))) {
            (Ok(_), _) => {}
            (Err(_), Some(mapping)) => area.is_wiped = mapping.is_wiped,
            (Err(_), None) => return areas_in_detail(&stopped.files, limits.mappings),
        }
    }
    Ok(areas)
}

/// The files that the process may have mapped. Of a long history only the
/// latest are known; what is in others is copied like any other file.
fn known(previous: Option<&Image>) -> Vec<Arc<Memory>> {
    let all = previous.map_or(&[][..], |image| &image.memories);
    all.get(all.len().saturating_sub(DESCRIPTORS - 1)..).unwrap_or_default().to_vec()
}

/// Finds what differs from the base of each mapping. Where content has to be
/// taken it is not known yet where it will be: the offset is still 0.
fn find_runs(
    stopped: &Stopped<'_>,
    reference: &Reference,
    pieces: Vec<Piece>,
    limits: &Limits,
) -> Result<Vec<Mapping>, Refusal> {
    let pagemap = Pagemap::open(&stopped.files)?;
    let shared: u64 = reference.own().iter().map(|(start, end)| end - start).sum();
    let own = pagemap.own(limits.bytes.saturating_add(shared))?;
    // Where neither has a page of its own, both have what the mapping says.
    let looked_at = either(&own, reference.own());
    let mut pieces = pieces;
    let (mut compared, others): (Vec<_>, Vec<_>) =
        pieces.iter_mut().partition(|piece| piece.kind == Kind::Inherited);
    let stretches = common(&ranges(&compared), &looked_at);
    compare(&pagemap, &reference.pagemap()?, &stretches, |index, address, page, _| {
        if let Some(piece) = compared.get_mut(index) {
            let content = if page.is_own() { TAKEN } else { Content::Untouched };
            add(&mut piece.mapping.runs, address, address + PAGE, content);
        }
    })?;
    let mut others = others;
    for (index, start, end) in common(&ranges(&others), &own) {
        if let Some(piece) = others.get_mut(index) {
            add(&mut piece.mapping.runs, start, end, TAKEN);
        }
    }
    let mut taken = 0u64;
    for Piece { mapping, kind } in &mut pieces {
        let content = match kind {
            _ if mapping.is_wiped => Some(Content::Untouched),
            Kind::NewFile => Some(TAKEN),
            _ => None,
        };
        if let Some(content) = content {
            mapping.runs = vec![Run { start: mapping.start, end: mapping.end, content }];
        }
        for run in mapping.runs.iter().filter(|run| run.content == TAKEN) {
            taken = taken.saturating_add(run.size());
        }
    }
    if taken > limits.bytes {
        return Err(Refusal::TooLarge { limit: limits.bytes });
    }
    Ok(pieces.into_iter().map(|piece| piece.mapping).collect())
}

fn ranges(pieces: &[&mut Piece]) -> Vec<(u64, u64)> {
    pieces.iter().map(|piece| (piece.mapping.start, piece.mapping.end)).collect()
}

/// Stands for content until it is known where it will be.
const TAKEN: Content = Content::Memory { index: 0, offset: 0 };

/// Adds a run behind the others, or makes the last one longer.
fn add(runs: &mut Vec<Run>, start: u64, end: u64, content: Content) {
    match runs.last_mut() {
        Some(last) if last.content == content && last.end == start => last.end = end,
        Some(last)
            if last.content == TAKEN
                && content == TAKEN
                && start.saturating_sub(last.end) <= GAP =>
        {
            last.end = end;
        }
        _ => runs.push(Run { start, end, content }),
    }
}

/// Says where each run will be in the file with number `index`, and answers
/// what has to be taken, in that order.
fn number_runs(mappings: &mut [Mapping], index: usize) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let mut offset = 0u64;
    for mapping in mappings {
        let missing = mapping.missing;
        for run in &mut mapping.runs {
            if run.content == Content::Untouched {
                continue;
            }
            run.content = Content::Memory { index, offset };
            wanted.push(Wanted { start: run.start, end: run.end, missing });
            offset += run.size();
        }
    }
    wanted
}

/// How many runs may be put under a process: each can cost two mappings more,
/// and the next image must not be refused because of this one.
fn room_for(areas: &[Area], limits: &Limits) -> usize {
    (limits.mappings / 2).saturating_sub(areas.len()) / 2
}

/// Lets the process have its large runs from the image rather than on its own.
fn put_under(
    stopped: &Stopped<'_>,
    memory: &Memory,
    mappings: &[Mapping],
    index: usize,
    most: usize,
) -> Result<(), Refusal> {
    let runs = mappings.iter().filter(|mapping| !mapping.is_stack).flat_map(|mapping| {
        mapping.runs.iter().filter(|run| run.is_large()).map(|run| (mapping.access, run))
    });
    let mut runs: Vec<(u64, Run)> = runs.map(|(access, run)| (access, *run)).collect();
    runs.sort_by_key(|(_, run)| std::cmp::Reverse(run.size()));
    runs.truncate(most);
    if runs.is_empty() {
        return Ok(());
    }
    let outcome = lend(stopped, &[memory.as_fd()], |numbers| {
        let number = numbers.first().copied().unwrap_or(u64::MAX);
        let map = |(access, run): &(u64, Run)| match run.content {
            Content::Memory { index: its, offset } if its == index => {
                Some(map_file(run.start, run.end, *access, number, offset))
            }
            _ => None,
        };
        runs.iter().filter_map(map).collect()
    });
    match outcome {
        Lent::Done => Ok(()),
        // It may have no number free for a socket. The image is whole all the
        // same; the next one will cost more.
        Lent::Never(Refusal::Call { .. }) => Ok(()),
        Lent::Never(refusal) => Err(refusal),
        Lent::Halfway(refusal) => {
            // A mapping that failed may have left a hole in its place.
            stopped.process().kill();
            Err(refusal)
        }
    }
}

/// Maps a file privately, in place of whatever is there.
pub(crate) fn map_file(start: u64, end: u64, access: u64, number: u64, offset: u64) -> Call {
    const PRIVATE_FIXED: u64 = 0x02 | 0x10;
    mmap([start, end - start, access, PRIVATE_FIXED, number, offset])
}

/// Lets go of files that nothing refers to any more.
fn forget_unused(image: &mut Image) {
    let mut used = vec![false; image.memories.len()];
    let mut see = |index: usize| {
        if let Some(used) = used.get_mut(index) {
            *used = true;
        }
    };
    for mapping in &image.mappings {
        if let Base::Memory { index, .. } = mapping.base {
            see(index);
        }
        for run in &mapping.runs {
            if let Content::Memory { index, .. } = run.content {
                see(index);
            }
        }
    }
    let new = |index: usize| used.iter().take(index).filter(|used| **used).count();
    for mapping in &mut image.mappings {
        if let Base::Memory { index, .. } = &mut mapping.base {
            *index = new(*index);
        }
        for run in &mut mapping.runs {
            if let Content::Memory { index, .. } = &mut run.content {
                *index = new(*index);
            }
        }
    }
    let mut kept = used.iter();
    image.memories.retain(|_| kept.next().copied().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_with_a_small_gap_become_one() {
        let mut runs = Vec::new();
        add(&mut runs, 0, PAGE, TAKEN);
        add(&mut runs, 4 * PAGE, 5 * PAGE, TAKEN);
        add(&mut runs, 5 * PAGE, 6 * PAGE, Content::Untouched);
        add(&mut runs, 6 * PAGE, 7 * PAGE, Content::Untouched);
        add(&mut runs, 40 * PAGE, 41 * PAGE, TAKEN);
        let found: Vec<(u64, u64)> = runs.iter().map(|r| (r.start / PAGE, r.end / PAGE)).collect();
        assert_eq!(found, [(0, 5), (5, 7), (40, 41)]);
    }
}
