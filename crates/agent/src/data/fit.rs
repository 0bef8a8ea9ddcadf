//! What fits into a sandbox, decided before anything is done: docs/datasets.md.

use belljar_journal::event::Brought;

use super::Format;
use super::factors::{Factors, Memory, Shape, grown};

/// What a sandbox has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    /// How files come into it. Copies take of both; what is mounted stays outside.
    pub data: Brought,
}

/// How a dataset comes into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// All of it, by `load_data`.
    Whole,
    /// When it is first used.
    Lazy,
    /// Only by parts: it does not fit.
    Parts,
    /// Not by `load_data`.
    File,
}

/// What is known of one dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size<'n> {
    pub(super) name: &'n str,
    pub(super) format: Format,
    pub(super) shape: Option<Shape>,
    pub(super) bytes: u64,
    /// What its readers read: more than the file has, if that is compressed.
    pub(super) text_bytes: u64,
    /// Whether it consists of records, some of which could be left out.
    pub(super) has_records: bool,
}

/// Sampled more than this, next to nothing is left of anything.
const MOST_HALVINGS: u32 = 40;

impl Factors {
    /// What files may take together.
    pub(super) fn for_files(&self, room: Room) -> u64 {
        match room.data {
            Brought::Mounted => u64::MAX,
            Brought::Copied => {
                grown(room.disk_bytes, self.disk_share).min(grown(room.memory_bytes, self.share))
            }
        }
    }

    /// What datasets may take when they are loaded, beside files of so many bytes.
    pub(super) fn for_loading(&self, room: Room, files: u64) -> u64 {
        let inside = match room.data {
            Brought::Mounted => 0,
            Brought::Copied => files,
        };
        grown(room.memory_bytes.saturating_sub(inside), self.share)
    }

    fn needs(&self, size: &Size<'_>, halvings: u32) -> Memory {
        self.memory(size.format, size.shape, size.text_bytes >> halvings)
    }

    /// How often each has to be halved so that all files fit, and so that what is a
    /// sample can be loaded. The error is the dataset that is too large.
    pub(super) fn halvings(&self, sizes: &[Size<'_>], room: Room) -> Result<Vec<u32>, usize> {
        let mut halvings = vec![0; sizes.len()];
        let most = self.for_files(room);
        let left = |halvings: &[u32]| -> Vec<u64> {
            sizes.iter().zip(halvings).map(|(size, halvings)| size.bytes >> halvings).collect()
        };
        loop {
            let bytes = left(&halvings);
            if bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)) <= most {
                break;
            }
            let largest = |at: &usize| (bytes[*at], sizes[*at].name);
            let can = |at: &usize| sizes[*at].has_records && halvings[*at] < MOST_HALVINGS;
            match (0..sizes.len()).filter(can).max_by_key(largest).filter(|at| bytes[*at] > 0) {
                Some(at) => halvings[at] += 1,
                None => return Err((0..sizes.len()).max_by_key(largest).unwrap_or(0)),
            }
        }
        let files = left(&halvings).iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let budget = self.for_loading(room, files);
        for (size, halvings) in sizes.iter().zip(&mut halvings) {
            while (1..MOST_HALVINGS).contains(halvings) && self.needs(size, *halvings).peak > budget
            {
                *halvings += 1;
            }
        }
        Ok(halvings)
    }

    /// How each comes into memory, and what loading it takes at its worst moment.
    pub(super) fn strategies(&self, sizes: &[Size<'_>], budget: u64) -> Vec<(Strategy, u64)> {
        let memories: Vec<(&str, Memory)> =
            sizes.iter().map(|size| (size.name, self.needs(size, 0))).collect();
        let is_whole = whole(&memories, budget);
        let all = sizes.iter().zip(memories).zip(is_whole);
        all.map(|((size, (_, memory)), is_whole)| {
            let strategy = match size.format {
                Format::Other => Strategy::File,
                _ if is_whole => Strategy::Whole,
                _ if memory.peak <= budget => Strategy::Lazy,
                // One document has no parts that could be read alone.
                Format::Json if !size.has_records => Strategy::File,
                Format::Excel => Strategy::File,
                _ => Strategy::Parts,
            };
            (strategy, memory.peak)
        })
        .collect()
    }
}

/// Which of them are loaded at once: those that cost most are taken out until what is
/// held, and the worst moment of one of them, fit.
fn whole(memories: &[(&str, Memory)], budget: u64) -> Vec<bool> {
    let mut is_whole = vec![true; memories.len()];
    loop {
        let inside = || memories.iter().zip(&is_whole).filter(|(_, is)| **is).map(|(it, _)| it);
        let held = inside().fold(0, |sum: u64, (_, memory)| sum.saturating_add(memory.held));
        let worst = inside().map(|(_, memory)| memory.peak - memory.held).max().unwrap_or(0);
        if held.saturating_add(worst) <= budget {
            return is_whole;
        }
        let largest = (0..memories.len())
            .filter(|at| is_whole[*at])
            .max_by_key(|at| (memories[*at].1.peak, memories[*at].0));
        match largest {
            Some(at) => is_whole[at] = false,
            None => return is_whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Examples {
        factors: serde_json::Value,
        examples: Vec<Example>,
    }

    #[derive(Deserialize)]
    struct Example {
        title: String,
        memory: u64,
        disk: u64,
        #[serde(default)]
        mounted: bool,
        datasets: Vec<Given>,
        plan: std::collections::BTreeMap<String, Expected>,
    }

    #[derive(Deserialize)]
    struct Given {
        name: String,
        format: String,
        shape: Shape,
        bytes: u64,
        #[serde(default = "yes")]
        records: bool,
    }

    fn yes() -> bool {
        true
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Expected {
        strategy: String,
        #[serde(default)]
        one_of: Option<u64>,
    }

    /// The same examples as those of the rule in Python.
    #[test]
    fn every_example_comes_out_as_written() {
        let text = include_str!("../../../../runtimes/tests/memory-examples.json");
        let mut given: Examples = serde_json::from_str(text).unwrap();
        for factor in given.factors.as_array_mut().unwrap() {
            factor["language"] = "python".into();
        }
        let mut factors = Factors::measured().unwrap();
        factors.set(serde_json::from_value(given.factors).unwrap());
        for example in &given.examples {
            let data = if example.mounted { Brought::Mounted } else { Brought::Copied };
            let room = Room { memory_bytes: example.memory, disk_bytes: example.disk, data };
            let mut sizes: Vec<Size<'_>> = example
                .datasets
                .iter()
                .map(|given| Size {
                    name: &given.name,
                    format: Format::of(&format!("x.{}", given.format)),
                    shape: Some(given.shape),
                    bytes: given.bytes,
                    text_bytes: given.bytes,
                    // As `Part::size` has it: nothing is left out of Parquet files.
                    has_records: given.records && given.format != "parquet",
                })
                .collect();
            let halvings = factors.halvings(&sizes, room);
            let Ok(halvings) = halvings else {
                let name = sizes[halvings.unwrap_err()].name;
                assert_eq!(example.plan[name].strategy, "refused", "{}", example.title);
                continue;
            };
            sizes.iter_mut().zip(&halvings).for_each(|(size, by)| {
                size.bytes >>= by;
                size.text_bytes = size.bytes;
            });
            let budget = factors.for_loading(room, sizes.iter().map(|size| size.bytes).sum());
            let strategies = factors.strategies(&sizes, budget);
            for ((size, halvings), (strategy, _)) in sizes.iter().zip(halvings).zip(strategies) {
                let strategy = match strategy {
                    Strategy::Whole => "whole",
                    Strategy::Lazy => "lazy",
                    Strategy::Parts => "parts",
                    Strategy::File => "file",
                };
                let one_of = (halvings > 0).then(|| 1 << halvings);
                let found = Expected { strategy: strategy.to_owned(), one_of };
                assert_eq!(found, example.plan[size.name], "{}: {}", example.title, size.name);
            }
        }
    }
}
