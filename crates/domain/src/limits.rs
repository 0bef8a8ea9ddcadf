//! Hard limits of one sandbox.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What one sandbox may use at most. Going over ends the code with a named
/// reason; it never hurts the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory of all processes and of the writable layer together.
    pub memory_bytes: u64,
    /// CPU share in thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    /// Size of the writable layer.
    pub disk_bytes: u64,
    /// Files, directories and links in the writable layer.
    pub inodes: u64,
    /// Output of one call after which the call is ended.
    pub output_bytes: u64,
    /// Wall time of one call.
    pub wall: Duration,
    /// CPU time of one call, over all its processes.
    pub cpu: Option<Duration>,
    pub open_files: u64,
}

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: GIB,
            cpu_millis: 1000,
            pids: 128,
            disk_bytes: 512 * MIB,
            inodes: 65_536,
            output_bytes: 64 * MIB,
            wall: Duration::from_secs(60),
            cpu: None,
            open_files: 1024,
        }
    }
}

/// The most that any sandbox can have of each. No host keeps more.
const MOST_BYTES: u64 = 1 << 50;
const MOST_CPU_MILLIS: u32 = 1_024_000;
const MOST_PIDS: u32 = 100_000;

/// The limits that a client chooses for its sandbox. An absent one is the template's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ChosenLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Wall time of one call, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

/// The largest limits that a client may choose: the operator's maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaxLimits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    pub disk_bytes: u64,
}

/// A limit that no sandbox could work with, or that no host could keep.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name} must be between {least} and {most}, not {asked}")]
pub struct OutOfRange {
    pub name: &'static str,
    pub asked: u64,
    pub least: u64,
    pub most: u64,
}

fn within(name: &'static str, asked: u64, least: u64, most: u64) -> Result<(), OutOfRange> {
    if (least..=most).contains(&asked) {
        Ok(())
    } else {
        Err(OutOfRange { name, asked, least, most })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Limits {
    /// Refuses values that would make a sandbox impossible or unbounded.
    pub fn check(&self) -> Result<(), OutOfRange> {
        within("memory", self.memory_bytes, 8 * MIB, MOST_BYTES)?;
        within("cpu (thousandths of a core)", self.cpu_millis.into(), 10, MOST_CPU_MILLIS.into())?;
        within("pids", self.pids.into(), 2, MOST_PIDS.into())?;
        within("disk", self.disk_bytes, MIB, MOST_BYTES)?;
        within("inodes", self.inodes, 64, 1 << 32)?;
        within("output", self.output_bytes, 1, MOST_BYTES)?;
        within("open files", self.open_files, 16, 1 << 20)?;
        let year = 366 * 24 * 3600 * 1000;
        within("wall time (ms)", millis(self.wall), 1, year)?;
        if let Some(cpu) = self.cpu {
            within("CPU time (ms)", millis(cpu), 1, year)?;
        }
        Ok(())
    }
}

impl ChosenLimits {
    /// Nothing is chosen.
    pub const NONE: Self =
        Self { memory_bytes: None, cpu_millis: None, pids: None, disk_bytes: None, wall_ms: None };

    /// The least that a sandbox of every tier works with. A machine with less does not boot,
    /// and keeps its client waiting for minutes.
    const LEAST_MEMORY_BYTES: u64 = 64 * MIB;
    const LEAST_CPU_MILLIS: u64 = 100;
    const LEAST_PIDS: u64 = 16;
    const LEAST_DISK_BYTES: u64 = 8 * MIB;
    /// The longest call: a day.
    pub const MOST_WALL_MS: u64 = 24 * 3600 * 1000;

    /// Returns all limits of a sandbox that can be chosen, as they are in force.
    pub fn of(limits: &Limits) -> Self {
        Self {
            memory_bytes: Some(limits.memory_bytes),
            cpu_millis: Some(limits.cpu_millis.into()),
            pids: Some(limits.pids.into()),
            disk_bytes: Some(limits.disk_bytes),
            wall_ms: Some(millis(limits.wall)),
        }
    }

    /// Returns true if nothing is chosen.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Returns `defaults` with what is chosen in its place. Call [`Self::check`] first: a value
    /// that is out of range becomes the largest that fits its field.
    pub fn over(&self, defaults: Limits) -> Limits {
        let small = |chosen: Option<u64>, default: u32| {
            chosen.map_or(default, |chosen| u32::try_from(chosen).unwrap_or(u32::MAX))
        };
        Limits {
            memory_bytes: self.memory_bytes.unwrap_or(defaults.memory_bytes),
            cpu_millis: small(self.cpu_millis, defaults.cpu_millis),
            pids: small(self.pids, defaults.pids),
            disk_bytes: self.disk_bytes.unwrap_or(defaults.disk_bytes),
            wall: self.wall_ms.map_or(defaults.wall, Duration::from_millis),
            ..defaults
        }
    }

    /// Returns true if everything that is chosen is what `limits` has.
    pub fn agrees_with(&self, limits: &Limits) -> bool {
        let own = Self::of(limits);
        let agrees = |chosen: Option<u64>, own: Option<u64>| chosen.is_none() || chosen == own;
        agrees(self.memory_bytes, own.memory_bytes)
            && agrees(self.cpu_millis, own.cpu_millis)
            && agrees(self.pids, own.pids)
            && agrees(self.disk_bytes, own.disk_bytes)
            && agrees(self.wall_ms, own.wall_ms)
    }

    /// Refuses what no sandbox could work with, and what exceeds the maximum.
    pub fn check(&self, max: &MaxLimits) -> Result<(), OutOfRange> {
        let MaxLimits { memory_bytes, cpu_millis, pids, disk_bytes } = *max;
        let check = |name, chosen: Option<u64>, least, most| {
            chosen.map_or(Ok(()), |chosen| within(name, chosen, least, most))
        };
        check("memory_bytes", self.memory_bytes, Self::LEAST_MEMORY_BYTES, memory_bytes)?;
        check("cpu_millis", self.cpu_millis, Self::LEAST_CPU_MILLIS, cpu_millis.into())?;
        check("pids", self.pids, Self::LEAST_PIDS, pids.into())?;
        check("disk_bytes", self.disk_bytes, Self::LEAST_DISK_BYTES, disk_bytes)?;
        check("wall_ms", self.wall_ms, 1, Self::MOST_WALL_MS)
    }
}

impl MaxLimits {
    /// No maximum but what [`Limits::check`] allows: for the owner of the host.
    pub const UNBOUNDED: Self = Self {
        memory_bytes: MOST_BYTES,
        cpu_millis: MOST_CPU_MILLIS,
        pids: MOST_PIDS,
        disk_bytes: MOST_BYTES,
    };

    /// Refuses a maximum that leaves nothing to choose, or that no host could keep.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let Self { memory_bytes, cpu_millis, pids, disk_bytes } = *self;
        let all = ChosenLimits {
            memory_bytes: Some(memory_bytes),
            cpu_millis: Some(cpu_millis.into()),
            pids: Some(pids.into()),
            disk_bytes: Some(disk_bytes),
            wall_ms: None,
        };
        all.check(&Self::UNBOUNDED)
    }

    /// Returns the larger one of each limit.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            pids: self.pids.max(other.pids),
            disk_bytes: self.disk_bytes.max(other.disk_bytes),
        }
    }
}

impl Default for MaxLimits {
    fn default() -> Self {
        Self { memory_bytes: 8 * GIB, cpu_millis: 8000, pids: 1024, disk_bytes: 8 * GIB }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Limits::default().check(), Ok(()));
        assert_eq!(MaxLimits::default().check(), Ok(()));
        assert_eq!(MaxLimits::UNBOUNDED.check(), Ok(()));
        let all = ChosenLimits::of(&Limits::default());
        assert_eq!(all.check(&MaxLimits::default()), Ok(()));
    }

    /// Chooses so much of one limit, and nothing else.
    type Choose = fn(u64) -> ChosenLimits;

    /// One for each limit that can be chosen, by name.
    const EACH: [(&str, Choose); 5] = [
        ("memory_bytes", |n| ChosenLimits { memory_bytes: Some(n), ..ChosenLimits::NONE }),
        ("cpu_millis", |n| ChosenLimits { cpu_millis: Some(n), ..ChosenLimits::NONE }),
        ("pids", |n| ChosenLimits { pids: Some(n), ..ChosenLimits::NONE }),
        ("disk_bytes", |n| ChosenLimits { disk_bytes: Some(n), ..ChosenLimits::NONE }),
        ("wall_ms", |n| ChosenLimits { wall_ms: Some(n), ..ChosenLimits::NONE }),
    ];

    #[test]
    fn what_exceeds_the_maximum_is_refused_by_name_and_never_lowered() {
        let max =
            MaxLimits { memory_bytes: GIB, cpu_millis: 2000, pids: 256, disk_bytes: 512 * MIB };
        let most = [GIB, 2000, 256, 512 * MIB, ChosenLimits::MOST_WALL_MS];
        for ((name, choose), most) in EACH.into_iter().zip(most) {
            assert_eq!(choose(most).check(&max), Ok(()), "{name}");
            for asked in [0, most + 1, u64::from(u32::MAX) + 1 + most, u64::MAX] {
                let refused = choose(asked).check(&max).unwrap_err();
                assert_eq!((refused.name, refused.asked, refused.most), (name, asked, most));
                let text = refused.to_string();
                for part in [name.to_owned(), asked.to_string(), most.to_string()] {
                    assert!(text.contains(&part), "no {part} in {text}");
                }
            }
        }
        assert_eq!(ChosenLimits::NONE.check(&max), Ok(()));
    }

    #[test]
    fn what_is_chosen_takes_the_place_of_the_default_and_the_rest_stays() {
        let defaults = Limits { inodes: 77, ..Limits::default() };
        assert_eq!(ChosenLimits::NONE.over(defaults.clone()), defaults);
        assert!(ChosenLimits::NONE.is_empty() && ChosenLimits::NONE.agrees_with(&defaults));
        for (name, choose) in EACH {
            let chosen = choose(12_345);
            let limits = chosen.over(defaults.clone());
            assert_ne!(limits, defaults, "{name}");
            assert_eq!(limits.inodes, 77, "{name}");
            assert!(!chosen.is_empty() && chosen.agrees_with(&limits), "{name}");
            assert!(!chosen.agrees_with(&defaults), "{name}");
            // All the others are as they were.
            let own = ChosenLimits::of(&defaults);
            assert_eq!(own.over(limits), defaults, "{name}");
        }
    }

    #[test]
    fn a_choice_is_written_as_its_fields_alone() {
        let chosen = ChosenLimits { memory_bytes: Some(1), wall_ms: Some(2), ..ChosenLimits::NONE };
        let text = serde_json::to_string(&chosen).unwrap();
        assert_eq!(text, r#"{"memory_bytes":1,"wall_ms":2}"#);
        let read = |text: &str| serde_json::from_str::<ChosenLimits>(text).unwrap();
        assert_eq!(read(&text), chosen);
        // A choice that only a newer version knows does not make a transcript unreadable.
        assert_eq!(read(r#"{"memory_bytes":1,"wall_ms":2,"gpus":1}"#), chosen);
        assert_eq!(read("{}"), ChosenLimits::NONE);
    }

    #[test]
    fn a_maximum_that_leaves_nothing_to_choose_is_refused() {
        let max = MaxLimits { memory_bytes: MIB, ..MaxLimits::default() };
        assert_eq!(max.check().map_err(|error| error.name), Err("memory_bytes"));
        let max = MaxLimits { pids: 0, ..MaxLimits::default() };
        assert_eq!(max.check().map_err(|error| error.name), Err("pids"));
        let small = MaxLimits { memory_bytes: GIB, pids: 4096, ..MaxLimits::default() };
        let both = small.max(MaxLimits::default());
        assert_eq!((both.memory_bytes, both.pids), (8 * GIB, 4096));
    }

    #[test]
    fn absurd_limits_are_refused_by_name() {
        let limits = Limits { pids: 0, ..Limits::default() };
        assert_eq!(limits.check().map_err(|e| e.name), Err("pids"));
        let limits = Limits { wall: Duration::ZERO, ..Limits::default() };
        assert_eq!(limits.check().map_err(|e| e.name), Err("wall time (ms)"));
        let limits = Limits { memory_bytes: u64::MAX, ..Limits::default() };
        assert_eq!(limits.check().map_err(|e| e.name), Err("memory"));
    }
}
