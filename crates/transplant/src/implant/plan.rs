//! What has to be done to a process to make it like an image.

use crate::PAGE;
use crate::area::{Area, Backing};
use crate::capture::map_file;
use crate::image::{Base, Content, Image, Mapping};
use crate::pages::{Pagemap, common, compare, either};
use crate::reference::Reference;
use crate::refusal::Refusal;
use crate::stopped::{Call, Stopped, mmap, mprotect, munmap};

/// The steps, in the order in which they are done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Where the stack has to begin, if it has to grow for that.
    pub(super) stack_start: Option<u64>,
    steps: Vec<Step>,
    pub(super) writes: Vec<Write>,
}

/// A change of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Remove {
        start: u64,
        end: u64,
    },
    Empty {
        start: u64,
        end: u64,
        access: u64,
    },
    Map {
        start: u64,
        end: u64,
        access: u64,
        index: usize,
        offset: u64,
    },
    Protect {
        start: u64,
        end: u64,
        access: u64,
    },
    /// Gives back pages; what the mapping began with shows again.
    Drop {
        start: u64,
        end: u64,
    },
    /// Empty in children again.
    Wipe {
        start: u64,
        end: u64,
    },
}

/// Pages that are written one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) from: From,
    /// Whether the process itself could write there.
    pub(super) is_writable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Memory { index: usize, offset: u64 },
    Reference,
}

const READ: u64 = 1;
const WRITE: u64 = 2;
const MADVISE: u64 = 28;
const DONTNEED: u64 = 4;
const WIPEONFORK: u64 = 18;
const POPULATE_READ: u64 = 22;
/// From here on a run is worth a call of its own.
const MANY: u64 = 1 << 20;

impl Plan {
    pub(super) fn new(
        image: &Image,
        areas: &[Area],
        stopped: &Stopped<'_>,
        reference: &Reference,
    ) -> Result<Self, Refusal> {
        let kernel: Vec<(u64, u64)> = areas
            .iter()
            .filter(|area| area.backing == Backing::Kernel)
            .map(|area| (area.start, area.end))
            .collect();
        if kernel != image.kernel {
            return Err(Refusal::Layout("the kernel's own mappings are elsewhere".to_owned()));
        }
        let mut plan = Self { stack_start: stack_start(image, areas), ..Self::default() };
        plan.remove(image, areas);
        for mapping in &image.mappings {
            plan.lay(mapping, areas, reference)?;
        }
        plan.restore(image, stopped, reference)?;
        for mapping in &image.mappings {
            plan.fill(mapping);
        }
        Ok(plan)
    }

    /// The calls that change the layout, given the numbers that the files of
    /// the image have in the process.
    pub(super) fn calls(&self, numbers: &[u64]) -> Vec<Call> {
        const EMPTY: u64 = 0x02 | 0x10 | 0x20;
        const NO_RESERVE: u64 = 0x4000;
        const VAST: u64 = 64 << 20;
        let advise = |start, end, advice| Call {
            name: "madvise",
            number: MADVISE,
            arguments: [start, end - start, advice, 0, 0, 0],
        };
        let call = |step: &Step| match *step {
            Step::Remove { start, end } => munmap(start, end - start),
            Step::Empty { start, end, access } => {
                let reserve = if end - start > VAST { NO_RESERVE } else { 0 };
                mmap([start, end - start, access, EMPTY | reserve, u64::MAX, 0])
            }
            Step::Map { start, end, access, index, offset } => {
                let number = numbers.get(index).copied().unwrap_or(u64::MAX);
                map_file(start, end, access, number, offset)
            }
            Step::Protect { start, end, access } => mprotect(start, end - start, access),
            Step::Drop { start, end } => advise(start, end, DONTNEED),
            Step::Wipe { start, end } => advise(start, end, WIPEONFORK),
        };
        // Pages that are in memory anyway are cheaper to map all at once than
        // one by one, when the copy first reads them.
        let populate = |step: &Step| match *step {
            Step::Map { start, end, access, .. } if access & READ != 0 && end - start >= MANY => {
                Some(advise(start, end, POPULATE_READ))
            }
            _ => None,
        };
        self.steps.iter().flat_map(|step| [Some(call(step)), populate(step)]).flatten().collect()
    }

    /// Removes what the image has nothing in place of.
    fn remove(&mut self, image: &Image, areas: &[Area]) {
        let mut wanted = image.mappings.iter().peekable();
        for area in areas.iter().filter(|area| area.backing != Backing::Kernel) {
            let mut at = area.start;
            while at < area.end {
                while wanted.next_if(|mapping| mapping.end <= at).is_some() {}
                let next = wanted.peek().map_or(area.end, |mapping| mapping.start.max(at));
                if next > at {
                    let end = next.min(area.end);
                    // The end of the heap is set by brk(2), which goes first.
                    self.steps.push(Step::Remove { start: at, end });
                    at = end;
                } else {
                    at = wanted.peek().map_or(area.end, |mapping| mapping.end);
                }
            }
        }
    }

    /// Puts one mapping in place, without its runs.
    fn lay(
        &mut self,
        mapping: &Mapping,
        areas: &[Area],
        reference: &Reference,
    ) -> Result<(), Refusal> {
        let &Mapping { start, end, access, .. } = mapping;
        match mapping.base {
            Base::Memory { index, offset } => {
                self.steps.push(Step::Map { start, end, access, index, offset });
            }
            // A stack is grown, not mapped, or it would not grow again.
            Base::Zeros if mapping.is_stack => self.steps.push(Step::Drop { start, end }),
            Base::Zeros => self.steps.push(Step::Empty { start, end, access }),
            Base::Reference => self.keep(mapping, areas, reference)?,
        }
        if mapping.is_wiped && mapping.base == Base::Zeros {
            self.steps.push(Step::Wipe { start, end });
        }
        Ok(())
    }

    /// Keeps a mapping that the process has had from the zygote.
    fn keep(
        &mut self,
        mapping: &Mapping,
        areas: &[Area],
        reference: &Reference,
    ) -> Result<(), Refusal> {
        let access = mapping.access;
        let lost = || Refusal::Layout(format!("nothing like it at {:#x}", mapping.start));
        let origin = find(reference.areas(), mapping.start).ok_or_else(lost)?;
        let first = areas.partition_point(|area| area.end <= mapping.start);
        let mut at = mapping.start;
        for area in areas.get(first..).unwrap_or_default() {
            if area.start >= mapping.end {
                break;
            }
            let (start, end) = (area.start.max(at), area.end.min(mapping.end));
            if !area.is_like(origin, start) {
                continue;
            }
            self.replace(mapping, at, start, origin)?;
            if area.access != access {
                self.steps.push(Step::Protect { start, end, access });
            }
            at = end;
        }
        self.replace(mapping, at, mapping.end, origin)
    }

    /// Makes up for a part that the process no longer has from the zygote. Its
    /// content is then written like all else that differs.
    fn replace(
        &mut self,
        mapping: &Mapping,
        start: u64,
        end: u64,
        origin: &Area,
    ) -> Result<(), Refusal> {
        if start >= end {
            return Ok(());
        }
        if origin.backing != Backing::Zeros || origin.is_shared {
            return Err(Refusal::Layout(format!("nothing like it at {start:#x}")));
        }
        // The stack is grown before anything else is done.
        if !mapping.is_stack {
            self.steps.push(Step::Empty { start, end, access: mapping.access });
        }
        Ok(())
    }

    /// Undoes what the process has written itself since it was forked.
    fn restore(
        &mut self,
        image: &Image,
        stopped: &Stopped<'_>,
        reference: &Reference,
    ) -> Result<(), Refusal> {
        let kept: Vec<&Mapping> =
            image.mappings.iter().filter(|mapping| mapping.base == Base::Reference).collect();
        let mut ranges = Vec::new();
        let mut writable = Vec::new();
        for mapping in kept {
            let mut at = mapping.start;
            let ends = mapping.runs.iter().map(|run| (run.start, run.end));
            for (start, end) in ends.chain([(mapping.end, mapping.end)]) {
                if at < start {
                    ranges.push((at, start));
                    writable.push(mapping.access & WRITE != 0);
                }
                at = end;
            }
        }
        let pagemap = Pagemap::open(&stopped.files)?;
        let looked_at = either(&pagemap.own(u64::MAX)?, reference.own());
        let stretches = common(&ranges, &looked_at);
        compare(&pagemap, &reference.pagemap()?, &stretches, |index, start, _, original| {
            let end = start + PAGE;
            if original.is_own() {
                let is_writable = writable.get(index).copied().unwrap_or(false);
                self.write(Write { start, end, from: From::Reference, is_writable });
            } else {
                self.drop_pages(start, end);
            }
        })
    }

    /// Lays the runs of one mapping.
    fn fill(&mut self, mapping: &Mapping) {
        let is_writable = mapping.access & WRITE != 0;
        let access = mapping.access;
        for run in &mapping.runs {
            let (start, end) = (run.start, run.end);
            match run.content {
                Content::Untouched => self.drop_pages(start, end),
                Content::Memory { index, offset } if run.is_large() && !mapping.is_stack => {
                    self.steps.push(Step::Map { start, end, access, index, offset });
                }
                Content::Memory { index, offset } => {
                    let from = From::Memory { index, offset };
                    self.write(Write { start, end, from, is_writable });
                }
            }
        }
    }

    fn drop_pages(&mut self, start: u64, end: u64) {
        match self.steps.last_mut() {
            Some(Step::Drop { end: last, .. }) if *last == start => *last = end,
            _ => self.steps.push(Step::Drop { start, end }),
        }
    }

    fn write(&mut self, write: Write) {
        match self.writes.last_mut() {
            Some(last)
                if last.end == write.start
                    && last.from == From::Reference
                    && write.from == From::Reference
                    && last.is_writable == write.is_writable =>
            {
                last.end = write.end;
            }
            _ => self.writes.push(write),
        }
    }
}

/// Where the stack of the image begins, if that of the process ends above.
fn stack_start(image: &Image, areas: &[Area]) -> Option<u64> {
    let wanted = image.mappings.iter().find(|mapping| mapping.is_stack)?.start;
    let now = areas.iter().find(|area| area.is_stack)?.start;
    (wanted < now).then_some(wanted)
}

fn find(areas: &[Area], address: u64) -> Option<&Area> {
    let index = areas.partition_point(|area| area.end <= address);
    areas.get(index).filter(|area| area.start <= address)
}
