//! Tells what of a process's layout the reference has as well.

use std::sync::Arc;

use crate::area::{Area, Backing};
use crate::image::{Base, Mapping};
use crate::memory::{Memory, Missing};
use crate::refusal::Refusal;

/// The layout of a process, in pieces that are all of one kind.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) kernel: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) mapping: Mapping,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Mapped before the fork; the reference has it too.
    Inherited,
    /// Anonymous memory mapped since.
    New,
    /// A file mapped since, a library for example. What the other sandbox has
    /// by that name may be something else, so its content is taken.
    NewFile,
    /// Mapped by us, from an earlier image.
    Known,
}

const WRITE: u64 = 2;

/// Splits the areas of a process where they begin or cease to be the
/// reference's.
pub(crate) fn layout(
    areas: &[Area],
    reference: &[Area],
    known: &[Arc<Memory>],
) -> Result<Layout, Refusal> {
    let mut layout = Layout::default();
    let mut passed = 0;
    for area in areas {
        if area.backing == Backing::Kernel {
            layout.kernel.push((area.start, area.end));
            continue;
        }
        if area.is_shared && area.can(WRITE) {
            return Err(Refusal::SharedMemory(area.name.clone()));
        }
        while reference.get(passed).is_some_and(|other| other.end <= area.start) {
            passed += 1;
        }
        let mut at = area.start;
        for other in reference.get(passed..).unwrap_or_default() {
            if other.start >= area.end {
                break;
            }
            let start = other.start.max(area.start);
            let end = other.end.min(area.end);
            if !area.is_like(other, start) {
                continue;
            }
            if at < start {
                layout.pieces.push(since(area, at, start, known));
            }
            let mut same = piece(area, start, end, Kind::Inherited, Base::Reference);
            same.mapping.is_wiped |= other.is_wiped;
            layout.pieces.push(same);
            at = end;
        }
        if at < area.end {
            layout.pieces.push(since(area, at, area.end, known));
        }
    }
    Ok(layout)
}

/// A piece that came after the fork.
fn since(area: &Area, start: u64, end: u64, known: &[Arc<Memory>]) -> Piece {
    let Backing::File { id, offset } = area.backing_at(start) else {
        return piece(area, start, end, Kind::New, Base::Zeros);
    };
    // The file is still open here, so no other one can have its number.
    let ours = known.iter().position(|memory| memory.id() == id).filter(|&index| {
        let size = known.get(index).map_or(0, |memory| memory.size());
        !area.is_shared && offset.checked_add(end - start).is_some_and(|until| until <= size)
    });
    match ours {
        Some(index) => piece(area, start, end, Kind::Known, Base::Memory { index, offset }),
        None => piece(area, start, end, Kind::NewFile, Base::Zeros),
    }
}

fn piece(area: &Area, start: u64, end: u64, kind: Kind, base: Base) -> Piece {
    let mapping = Mapping {
        start,
        end,
        access: area.access,
        base,
        is_stack: area.is_stack,
        is_wiped: area.is_wiped,
        missing: if kind == Kind::NewFile { Missing::Zeros } else { Missing::Refuse },
        runs: Vec::new(),
    };
    Piece { mapping, kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::FileId;

    fn area(start: u64, end: u64, backing: Backing) -> Area {
        Area {
            start,
            end,
            access: 3,
            is_shared: false,
            backing,
            is_wiped: false,
            is_stack: false,
            name: "memory".to_owned(),
        }
    }

    fn file(inode: u64, offset: u64) -> Backing {
        Backing::File { id: FileId { major: 0, minor: 1, inode }, offset }
    }

    fn kinds(areas: &[Area], reference: &[Area]) -> Vec<(u64, u64, Kind)> {
        let layout = layout(areas, reference, &[]).unwrap();
        layout.pieces.iter().map(|p| (p.mapping.start, p.mapping.end, p.kind)).collect()
    }

    #[test]
    fn memory_that_grew_on_both_sides_is_split() {
        let found = kinds(
            &[area(0x1000, 0x9000, Backing::Zeros)],
            &[area(0x3000, 0x4000, Backing::Zeros), area(0x6000, 0x7000, Backing::Zeros)],
        );
        assert_eq!(
            found,
            [
                (0x1000, 0x3000, Kind::New),
                (0x3000, 0x4000, Kind::Inherited),
                (0x4000, 0x6000, Kind::New),
                (0x6000, 0x7000, Kind::Inherited),
                (0x7000, 0x9000, Kind::New),
            ]
        );
    }

    #[test]
    fn a_file_is_inherited_only_at_the_same_place() {
        let areas = [area(0x1000, 0x3000, file(7, 0x1000))];
        assert_eq!(
            kinds(&areas, &[area(0x1000, 0x3000, file(7, 0))]),
            [(0x1000, 0x3000, Kind::NewFile)]
        );
        assert_eq!(
            kinds(&areas, &[area(0x0000, 0x2000, file(7, 0))]),
            [(0x1000, 0x2000, Kind::Inherited), (0x2000, 0x3000, Kind::NewFile)]
        );
    }

    #[test]
    fn shared_memory_is_refused_when_it_can_be_written() {
        let mut shared = area(0x1000, 0x2000, file(7, 0));
        shared.is_shared = true;
        assert!(matches!(
            layout(&[shared.clone()], &[], &[]),
            Err(Refusal::SharedMemory(name)) if name == "memory"
        ));
        shared.access = 1;
        assert_eq!(kinds(&[shared], &[]), [(0x1000, 0x2000, Kind::NewFile)]);
    }
}
