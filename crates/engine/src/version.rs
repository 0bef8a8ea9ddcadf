//! Versions, and which holes they have.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use belljar_domain::Runtime;

/// What a runtime says that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Version {
    Release {
        release: Release,
        has_krun: bool,
    },
    /// The day it was made of, as a number: 20240729.
    Day(u32),
    Unknown,
}

/// A release. Candidates come before what they are candidates for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    major: u32,
    minor: u32,
    patch: u32,
    candidate: u32,
}

/// Not a candidate.
const FINAL: u32 = u32::MAX;

impl Release {
    const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch, candidate: FINAL }
    }

    const fn candidate(self, candidate: u32) -> Self {
        Self { candidate, ..self }
    }

    /// Reads `1.4.0-rc.3`, `1.1.5+ds1`, `1.26`. What a distribution appends does
    /// not count.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let mut numbers = numbers.trim_end_matches('.').split('.').map(|part| part.parse().ok());
        let major = numbers.next()??;
        let minor = numbers.next().flatten()?;
        let patch = numbers.next().flatten().unwrap_or(0);
        let candidate = rest.strip_prefix("-rc").or_else(|| rest.strip_prefix("~rc"));
        let candidate = candidate.map(|text| {
            let text = text.trim_start_matches('.');
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            text[..end].parse().unwrap_or(0)
        });
        Some(Self { major, minor, patch, candidate: candidate.unwrap_or(FINAL) })
    }

    fn branch(self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.candidate == FINAL { Ok(()) } else { write!(f, "-rc.{}", self.candidate) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release { release, .. } => write!(f, "{release}"),
            Self::Day(day) => write!(f, "of {day}"),
            Self::Unknown => write!(f, "of no known version"),
        }
    }
}

impl Version {
    /// From what `--version` prints.
    pub(crate) fn read(runtime: Runtime, text: &str) -> Self {
        let first = text.lines().next().unwrap_or("");
        let Some(word) = first.split_whitespace().nth(2) else { return Self::Unknown };
        if runtime == Runtime::Runsc {
            return day_in(word).map_or(Self::Unknown, Self::Day);
        }
        let has_krun = text.split_whitespace().any(|word| word == "+LIBKRUN");
        let release = Release::read(word);
        release.map_or(Self::Unknown, |release| Self::Release { release, has_krun })
    }
}

/// The first eight digits that are a day of this century.
fn day_in(text: &str) -> Option<u32> {
    let groups = text.split(|c: char| !c.is_ascii_digit());
    groups
        .filter_map(|group| group.get(..8)?.parse().ok())
        .find(|day| (20_180_101..=20_991_231).contains(day))
}

/// The day of the source that a program built by Go's own tools was made of.
/// Those tools write every module's version into it, and gVisor's is a day.
pub(crate) fn build_of(program: &Path) -> Version {
    const NEEDLE: &[u8] = b"\tgvisor.dev/gvisor\tv0.0.0-";
    let found = || -> Option<u32> {
        let mut file = File::open(program).ok()?;
        let mut window = vec![0u8; 1 << 20];
        let mut kept = 0;
        loop {
            let count = file.read(&mut window[kept..]).ok()?;
            if count == 0 {
                return None;
            }
            let filled = kept + count;
            let at = window[..filled].windows(NEEDLE.len()).position(|part| part == NEEDLE);
            if let Some(rest) = at.map(|at| &window[at + NEEDLE.len()..filled])
                && rest.len() >= 8
            {
                return day_in(std::str::from_utf8(&rest[..8]).ok()?);
            }
            // What may be the beginning of it is looked at again.
            let keep = filled.min(NEEDLE.len() + 8);
            window.copy_within(filled - keep..filled, 0);
            kept = keep;
        }
    };
    found().map_or(Version::Unknown, Version::Day)
}

/// A hole, and the releases that mend it, one for each branch that was mended.
#[derive(Debug)]
pub(crate) struct Flaw {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) mended: &'static str,
    releases: &'static [Release],
    /// Only in builds with libkrun.
    krun_only: bool,
}

const RUNC: [Flaw; 3] = [
    Flaw {
        id: "CVE-2024-21626",
        what: "a directory of the host leaks into the container",
        mended: "1.1.12",
        releases: &[Release::new(1, 1, 12)],
        krun_only: false,
    },
    Flaw {
        id: "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881",
        what: "links in the image redirect the runtime's mounts and writes to the host's files",
        mended: "1.2.8, 1.3.3 and 1.4.0-rc.3",
        releases: &[
            Release::new(1, 2, 8),
            Release::new(1, 3, 3),
            Release::new(1, 4, 0).candidate(3),
        ],
        krun_only: false,
    },
    Flaw {
        id: "CVE-2026-41579",
        what: "an image with a link as /dev",
        mended: "1.3.6, 1.4.3 and 1.5.0-rc.3",
        releases: &[
            Release::new(1, 3, 6),
            Release::new(1, 4, 3),
            Release::new(1, 5, 0).candidate(3),
        ],
        krun_only: false,
    },
];

const CRUN: [Flaw; 3] = [
    Flaw {
        id: "CVE-2019-18837",
        what: "links in the image lead outside its root",
        mended: "0.10.5",
        releases: &[Release::new(0, 10, 5)],
        krun_only: false,
    },
    Flaw {
        id: "CVE-2022-27650",
        what: "capabilities that a container inherits",
        mended: "1.4.4",
        releases: &[Release::new(1, 4, 4)],
        krun_only: false,
    },
    Flaw {
        id: "CVE-2025-24965",
        what: "its krun handler writes outside the image",
        mended: "1.20",
        releases: &[Release::new(1, 20, 0)],
        krun_only: true,
    },
];

/// The way of gVisor before its present platform and file access: what was
/// mended since is not counted one by one.
const OLDEST_RUNSC: u32 = 20_230_101;
const RUNSC: Flaw = Flaw {
    id: "too old",
    what: "made before 2023",
    mended: "every later release",
    releases: &[],
    krun_only: false,
};
const UNKNOWN: Flaw = Flaw {
    id: "unknown version",
    what: "its vulnerabilities are not known",
    mended: "any release with a version",
    releases: &[],
    krun_only: false,
};

/// Holes in devices of a machine monitor that Belljar's machines have.
const QEMU: [Flaw; 1] = [Flaw {
    id: "CVE-2024-3446",
    what: "a device's memory is freed twice through virtio-serial",
    mended: "7.2.11, 8.2.3 and 9.0",
    releases: &[Release::new(7, 2, 11), Release::new(8, 2, 3), Release::new(9, 0, 0)],
    krun_only: false,
}];

/// Refuses a machine monitor with known holes, by what its `--version` prints first:
/// `QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
pub(crate) fn check_monitor(line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "version");
    let release = words.nth(1).and_then(Release::read);
    let flaws: Vec<Flaw> = match release {
        Some(release) => {
            QEMU.into_iter().filter(|flaw| !is_mended(release, flaw.releases)).collect()
        }
        None => vec![UNKNOWN],
    };
    if flaws.is_empty() { Ok(()) } else { Err(complaint(line, &flaws)) }
}

/// Why a program is not used.
pub(crate) fn complaint(program: &str, flaws: &[Flaw]) -> String {
    let holes: Vec<String> = flaws
        .iter()
        .map(|flaw| format!("{} ({}, fixed in {})", flaw.id, flaw.what, flaw.mended))
        .collect();
    format!(
        "{program} has known vulnerabilities: {}; a distribution's package counts as the release \
         it was built from. BELLJAR_FORCE_RUNTIME=1 uses it anyway",
        holes.join(", ")
    )
}

/// The holes of such a version.
pub(crate) fn flaws(runtime: Runtime, version: &Version) -> Vec<Flaw> {
    let known = match runtime {
        Runtime::Runc => RUNC,
        Runtime::Crun => CRUN,
        Runtime::Runsc => {
            return match version {
                Version::Day(day) if *day >= OLDEST_RUNSC => Vec::new(),
                Version::Day(_) => vec![RUNSC],
                Version::Release { .. } | Version::Unknown => vec![UNKNOWN],
            };
        }
    };
    let Version::Release { release, has_krun } = *version else { return vec![UNKNOWN] };
    let has = |flaw: &Flaw| (has_krun || !flaw.krun_only) && !is_mended(release, flaw.releases);
    known.into_iter().filter(has).collect()
}

/// A branch that was mended counts from its own release on; one that began
/// after the last of these never had the hole.
fn is_mended(release: Release, mended: &[Release]) -> bool {
    let own = mended.iter().find(|mended| mended.branch() == release.branch());
    match own {
        Some(mended) => release >= *mended,
        None => mended.last().is_some_and(|last| release.branch() > last.branch()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitors_with_known_holes_are_refused() {
        for line in [
            "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)",
            "QEMU emulator version 7.2.11",
            "QEMU emulator version 8.2.3",
            "QEMU emulator version 9.0.0",
            "QEMU emulator version 10.1.2 (Debian 1:10.1.2+ds-1)",
        ] {
            assert_eq!(check_monitor(line), Ok(()));
        }
        for line in [
            "QEMU emulator version 6.2.0 (Debian 1:6.2+dfsg-2ubuntu6)",
            "QEMU emulator version 7.2.10",
            "QEMU emulator version 8.0.5",
            "QEMU emulator version 8.2.2",
            "QEMU emulator version 9.0.0-rc2",
            "QEMU emulator version",
            "something else",
            "",
        ] {
            assert!(check_monitor(line).is_err(), "{line}");
        }
    }
}
