//! Reads `/proc/PID/maps` and `smaps`: the areas of a process's memory.

use crate::process::Files;
use crate::refusal::Refusal;

/// One mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`, as mmap(2) counts them.
    pub(crate) access: u64,
    pub(crate) is_shared: bool,
    pub(crate) backing: Backing,
    /// Made empty in a child by fork(2): secrets such as generator states.
    pub(crate) is_wiped: bool,
    pub(crate) is_stack: bool,
    pub(crate) name: String,
}

/// Where pages come from that were never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    Zeros,
    File {
        id: FileId,
        offset: u64,
    },
    /// The kernel's own, such as the vdso: the same for all, and not copied.
    Kernel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
}

/// The least address that is not the program's.
pub(crate) const USER_END: u64 = 0x7fff_ffff_f000;
/// More than a line ever has but for hostile file names.
const LINE: usize = 512;
/// What smaps says of one mapping.
const DETAILS: usize = 1024;

impl Area {
    pub(crate) fn can(&self, access: u64) -> bool {
        self.access & access == access
    }

    /// Where the page at `address`, if never written, comes from.
    pub(crate) fn backing_at(&self, address: u64) -> Backing {
        match self.backing {
            Backing::File { id, offset } => {
                Backing::File { id, offset: offset.wrapping_add(address.wrapping_sub(self.start)) }
            }
            other => other,
        }
    }

    /// Whether a page at `address` that neither process wrote is the same.
    pub(crate) fn is_like(&self, other: &Self, address: u64) -> bool {
        self.is_shared == other.is_shared && self.backing_at(address) == other.backing_at(address)
    }
}

/// The areas of a process, without what only smaps tells.
pub(crate) fn areas(files: &Files, limit: usize) -> Result<Vec<Area>, Refusal> {
    read(files, "maps", limit, LINE)
}

/// The areas of a process, and which of them fork(2) wipes. The kernel looks at
/// every page for this, which takes milliseconds.
pub(crate) fn areas_in_detail(files: &Files, limit: usize) -> Result<Vec<Area>, Refusal> {
    read(files, "smaps", limit, LINE + DETAILS)
}

fn read(files: &Files, name: &str, limit: usize, line: usize) -> Result<Vec<Area>, Refusal> {
    let text = files.read(name, limit.saturating_mul(line))?;
    let areas = text.and_then(|text| parse(&text, limit));
    match areas {
        // A process that has just been killed loses its memory first.
        Some(areas) if areas.is_empty() => Err(Refusal::Gone),
        Some(areas) => Ok(areas),
        None => Err(Refusal::TooManyMappings { limit }),
    }
}

/// `None` when there are more than `limit`.
fn parse(text: &str, limit: usize) -> Option<Vec<Area>> {
    let mut areas: Vec<Area> = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if let Some(area) = areas.last_mut() {
                area.is_wiped = flags.split(' ').any(|flag| flag == "wf");
            }
        } else if let Some(area) = header(line) {
            // Another process that shares this memory can change it between two
            // pieces of the text; what follows relies on order.
            if areas.last().is_none_or(|last| last.end <= area.start) {
                areas.push(area);
            }
            if areas.len() > limit {
                return None;
            }
        }
    }
    Some(areas)
}

/// A line such as `7f2c…-7f2d… r-xp 00026000 fe:01 1234   /usr/lib/libc.so.6`.
fn header(line: &str) -> Option<Area> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let letters = words.next()?.as_bytes();
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let major = u32::from_str_radix(major, 16).ok()?;
    let minor = u32::from_str_radix(minor, 16).ok()?;
    let inode: u64 = words.next()?.parse().ok()?;
    let name = words.next().unwrap_or("").trim_start();
    // The vsyscall page stands above all programs.
    let aligned = start.is_multiple_of(crate::PAGE) && end.is_multiple_of(crate::PAGE);
    if start >= end || end > USER_END || !aligned {
        return None;
    }
    let access = letters.iter().take(3).fold(0, |access, letter| {
        access
            | match letter {
                b'r' => 1,
                b'w' => 2,
                b'x' => 4,
                _ => 0,
            }
    });
    let backing = if inode != 0 {
        Backing::File { id: FileId { major, minor, inode }, offset }
    } else if name.starts_with('[') && !is_plain(name) {
        Backing::Kernel
    } else {
        Backing::Zeros
    };
    Some(Area {
        start,
        end,
        access,
        is_shared: letters.get(3) == Some(&b's'),
        backing,
        is_wiped: false,
        is_stack: name == "[stack]",
        name: name.chars().take(120).collect(),
    })
}

/// Programs name only their own anonymous memory, and always with `anon:`.
fn is_plain(name: &str) -> bool {
    name == "[heap]" || name == "[stack]" || name.starts_with("[anon:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_told_apart() {
        let text = "\
55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000002000 r-xp 00026000 fe:01 1234                       /usr/lib/a b.so
VmFlags: rd ex mr mw me
7f0000002000-7f0000003000 rw-p 00000000 00:00 0
Size:                  4 kB
VmFlags: rd wr mr wf ac
7f0000003000-7f0000004000 rw-s 00000000 00:01 77                         /dev/zero (deleted)
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";
        let areas = parse(text, 10).unwrap();
        assert_eq!(areas.len(), 5);
        assert_eq!(areas[0].backing, Backing::Zeros);
        assert_eq!(areas[1].name, "/usr/lib/a b.so");
        assert_eq!(areas[1].access, 5);
        assert_eq!(
            areas[1].backing_at(0x7f00_0000_1000),
            Backing::File { id: FileId { major: 0xfe, minor: 1, inode: 1234 }, offset: 0x27000 }
        );
        assert!(areas[2].is_wiped && !areas[1].is_wiped);
        assert!(areas[3].is_shared);
        assert_eq!(areas[4].backing, Backing::Kernel);
    }

    #[test]
    fn nonsense_is_passed_over() {
        let text = "\
zz-7f0000002000 r-xp 0 0:0 0
7f0000002000-7f0000001000 r-xp 0 0:0 0
7f0000000001-7f0000001000 r-xp 0 0:0 0
7f0000005000-7f0000006000 r--p 0 0:0 0
7f0000001000-7f0000006000 r--p 0 0:0 0
7f0000006000-ffff000000006000 r--p 0 0:0 0

7f";
        assert_eq!(parse(text, 10).unwrap().len(), 1);
    }

    #[test]
    fn too_many_are_refused() {
        let text: String = (1..=5)
            .map(|n| format!("{n}000-{n}800 r--p 0 0:0 0\n"))
            .collect::<String>()
            + &(1..=5).map(|n| format!("{n}000-{}000 r--p 0 0:0 0\n", n + 1)).collect::<String>();
        assert_eq!(parse(&text, 5).unwrap().len(), 5);
        assert!(parse(&text, 4).is_none());
    }
}
