//! The proof: whole columns compared by their hashes, in bounded memory.

use super::Checked;
use super::extract::{Mend, Wanted, extract};
use super::propose::{At, Link};
use super::set::{Hashes, Marks};
use super::table::Table;
use crate::read::{Job, Profile, ReadError};

/// How many hashes all sets together may hold. Beyond it, only every second,
/// fourth, … value is compared, chosen by its hash, the same on both sides.
const HELD: u64 = 1_500_000;

/// Values of one column, of two that stand together, or of one that is mended.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) table: usize,
    pub(crate) columns: Columns,
    pub(crate) mend: Mend,
    pub(crate) hashes: Hashes,
    pub(crate) repeated: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    One(usize),
    Two([usize; 2]),
}

/// A column that is looked up in a set.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) link: Link,
    pub(crate) set: usize,
    pub(crate) values: u64,
    pub(crate) matched: u64,
    pub(crate) marks: Marks,
}

#[derive(Debug)]
pub(crate) struct Prover<'a> {
    pub(crate) tables: &'a [Table],
    pub(crate) profiles: &'a [Profile],
    pub(crate) jobs: &'a [Job<'a>],
    mask: u64,
}

impl<'a> Prover<'a> {
    /// `expected` is how many values all sets will hold.
    pub(crate) fn new(
        tables: &'a [Table],
        profiles: &'a [Profile],
        jobs: &'a [Job<'a>],
        expected: u64,
    ) -> Self {
        let every = (expected / HELD + 1).next_power_of_two();
        Self { tables, profiles, jobs, mask: every - 1 }
    }

    /// Looks up as sparsely as the sets were filled.
    pub(crate) fn with_mask(self, mask: u64) -> Self {
        Self { mask, ..self }
    }

    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }

    pub(crate) fn checked(&self) -> Checked {
        if self.mask == 0 { Checked::All } else { Checked::OneIn(self.mask + 1) }
    }

    pub(crate) fn fill(&self, sets: &mut [Set]) -> Result<(), ReadError> {
        for dataset in 0..self.profiles.len() {
            let mut wanted = Wanted::new(&self.profiles[dataset].tree, self.mask);
            for (slot, set) in sets.iter().enumerate() {
                let table = &self.tables[set.table];
                if table.dataset != dataset {
                    continue;
                }
                let slot = u32::try_from(slot).unwrap_or(u32::MAX);
                match set.columns {
                    Columns::One(place) => wanted.add(table.columns[place].id, set.mend, slot),
                    Columns::Two(halves) => {
                        wanted.add_pair(
                            table.id,
                            halves.map(|place| table.columns[place].id),
                            slot,
                        );
                    }
                }
            }
            self.run(dataset, wanted, |slot, hash| {
                let set = &mut sets[slot];
                set.repeated += u64::from(!set.hashes.insert(hash));
            })?;
        }
        Ok(())
    }

    pub(crate) fn probe(&self, sets: &[Set], probes: &mut [Probe]) -> Result<(), ReadError> {
        for dataset in 0..self.profiles.len() {
            let mut wanted = Wanted::new(&self.profiles[dataset].tree, self.mask);
            for (slot, probe) in probes.iter().enumerate() {
                let (table, place) = probe.link.from;
                let table = &self.tables[table];
                if table.dataset == dataset {
                    let slot = u32::try_from(slot).unwrap_or(u32::MAX);
                    wanted.add(table.columns[place].id, sets[probe.set].mend, slot);
                }
            }
            self.run(dataset, wanted, |slot, hash| {
                let probe = &mut probes[slot];
                probe.values += 1;
                if let Some(place) = sets[probe.set].hashes.find(hash) {
                    probe.matched += 1;
                    probe.marks.set(place);
                }
            })?;
        }
        Ok(())
    }

    fn run(
        &self,
        dataset: usize,
        wanted: Wanted,
        mut each: impl FnMut(usize, u64),
    ) -> Result<(), ReadError> {
        if wanted.is_empty() {
            return Ok(());
        }
        extract(self.jobs[dataset], &self.profiles[dataset], wanted, |batch| {
            for (slot, hash) in batch {
                each(slot as usize, hash);
            }
        })
    }
}

impl Set {
    pub(crate) fn new(table: usize, columns: Columns, mend: Mend) -> Self {
        Self { table, columns, mend, hashes: Hashes::default(), repeated: 0 }
    }

    pub(crate) fn is_of(&self, at: At) -> bool {
        self.table == at.0 && self.columns == Columns::One(at.1)
    }
}

impl Probe {
    pub(crate) fn new(link: Link, set: usize, sets: &[Set]) -> Self {
        Self { link, set, values: 0, matched: 0, marks: Marks::new(sets[set].hashes.places()) }
    }

    /// Which share of the values was found.
    pub(crate) fn share(&self) -> f64 {
        if self.values == 0 { 0.0 } else { self.matched as f64 / self.values as f64 }
    }
}
