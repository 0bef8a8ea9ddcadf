//! From profiles to proven relationships.

use std::collections::HashMap;

use super::extract::Mend;
use super::propose::{self, At, Link};
use super::prove::{Columns, Probe, Prover, Set};
use super::table::{Kind, Table, Unique, tables};
use super::{Because, Cardinality, Checked, Key, NearMiss, Relationship, RepeatedId, Side, name};
use crate::read::{Job, Profile, ReadError};

/// With fewer values found, it is no relationship.
const ENOUGH: f64 = 0.9;
/// Pairs of columns that are tried in one go.
const MENDS: [(Mend, Because); 4] = [
    (Mend::Trim, Because::Whitespace),
    (Mend::Lower, Because::Case),
    (Mend::Unpad, Because::ZeroPadding),
    (Mend::Digits, Because::Prefix),
];

#[derive(Debug, Default)]
pub(crate) struct Found {
    /// By dataset.
    pub(crate) keys: Vec<Vec<Key>>,
    pub(crate) repeated_ids: Vec<Vec<RepeatedId>>,
    pub(crate) relationships: Vec<Relationship>,
    pub(crate) near_misses: Vec<NearMiss>,
}

/// `names` are what the datasets are called, without their endings.
pub(crate) fn find(
    jobs: &[Job<'_>],
    profiles: &[Profile],
    names: &[String],
) -> Result<Found, ReadError> {
    let tables: Vec<Table> = profiles
        .iter()
        .enumerate()
        .flat_map(|(dataset, profile)| tables(dataset, profile))
        .collect();
    let mut search = Search {
        jobs,
        profiles,
        names,
        tables: &tables,
        keys: HashMap::new(),
        pairs: Vec::new(),
        repeated: Vec::new(),
    };
    let (sets, mask) = search.prove_keys()?;
    let links = search.prove_links(&sets, mask)?;
    drop(sets);
    let linked: Vec<At> = links.iter().map(|(link, _)| link.from).collect();
    let near_misses = search.prove_misses(&linked, &links)?;
    let relationships =
        links.into_iter().filter(|(link, _)| link.is_same_kind).map(|(_, found)| found).collect();
    let (keys, repeated_ids) = (search.told(), search.told_repeated());
    Ok(Found { keys, repeated_ids, relationships, near_misses })
}

struct Search<'a> {
    jobs: &'a [Job<'a>],
    profiles: &'a [Profile],
    names: &'a [String],
    tables: &'a [Table],
    /// Columns that are keys.
    keys: HashMap<At, Checked>,
    pairs: Vec<(usize, [usize; 2], Checked)>,
    /// Columns that should be keys and are not, with how many values they have.
    repeated: Vec<(At, u64, Checked)>,
}

impl<'a> Search<'a> {
    fn prover(&self, expected: u64) -> Prover<'a> {
        Prover::new(self.tables, self.profiles, self.jobs, expected)
    }

    fn distinct(&self, (table, place): At) -> u64 {
        self.tables[table].columns[place].distinct
    }

    /// Returns the sets of keys that something may refer to, and how sparse they
    /// are.
    fn prove_keys(&mut self) -> Result<(Vec<Set>, u64), ReadError> {
        let mut open = Vec::new();
        for (number, table) in self.tables.iter().enumerate() {
            for place in propose::keys(table) {
                match table.columns[place].unique {
                    Unique::Yes => drop(self.keys.insert((number, place), Checked::All)),
                    _ => open.push((number, place)),
                }
            }
        }
        let mut proposed: Vec<At> = self.keys.keys().copied().chain(open.iter().copied()).collect();
        proposed.sort_unstable();
        let links = propose::links(self.tables, &proposed, self.names, self.profiles);
        let suspected = self.suspected();
        let mut wanted: Vec<At> = links
            .iter()
            .map(|link| link.to)
            .chain(open.iter().copied())
            .chain(suspected.iter().copied())
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut sets: Vec<Set> = wanted
            .iter()
            .map(|&(table, place)| Set::new(table, Columns::One(place), Mend::Nothing))
            .collect();
        let mut expected: u64 = wanted.iter().map(|&at| self.distinct(at)).sum();
        for (number, table) in self.tables.iter().enumerate() {
            let has_key = proposed.iter().any(|at| at.0 == number);
            // Only records: pairs inside arrays are seldom asked for.
            if !has_key && table.path.is_empty() && table.rows > 1 {
                let pairs = propose::pairs(table);
                expected += pairs.len() as u64 * table.rows;
                sets.extend(
                    pairs
                        .into_iter()
                        .map(|pair| Set::new(number, Columns::Two(pair), Mend::Nothing)),
                );
            }
        }
        if sets.is_empty() {
            return Ok((sets, 0));
        }
        let prover = self.prover(expected);
        prover.fill(&mut sets)?;
        for set in &sets {
            let is_unique = set.repeated == 0 && set.hashes.len() > 0;
            match set.columns {
                Columns::One(place) if is_unique && open.contains(&(set.table, place)) => {
                    self.keys.insert((set.table, place), prover.checked());
                }
                Columns::Two(pair) if is_unique => {
                    self.pairs.push((set.table, pair, prover.checked()))
                }
                _ => {}
            }
        }
        let has_key = |table: usize| self.keys.keys().any(|at| at.0 == table);
        for set in sets.iter().filter(|set| set.repeated > 0 && !has_key(set.table)) {
            if let Columns::One(place) = set.columns
                && suspected.contains(&(set.table, place))
            {
                let distinct = (set.hashes.len() as u64).saturating_mul(prover.mask() + 1);
                self.repeated.push(((set.table, place), distinct, prover.checked()));
            }
        }
        // One pair is enough; the likely ones come first.
        self.pairs.dedup_by_key(|pair| pair.0);
        let keys = &self.keys;
        sets.retain(|set| keys.keys().any(|&at| set.is_of(at)));
        Ok((sets, prover.mask()))
    }

    /// Columns of records that should be keys and may not be.
    fn suspected(&self) -> Vec<At> {
        let records = self.tables.iter().enumerate().filter(|(_, table)| table.path.is_empty());
        records
            .flat_map(|(number, table)| {
                let called = propose::called(self.names, table);
                propose::repeated_ids(table, &called).into_iter().map(move |place| (number, place))
            })
            .collect()
    }

    /// Looks every proposed reference up, and keeps the best one of each column.
    fn prove_links(&self, sets: &[Set], mask: u64) -> Result<Vec<(Link, Relationship)>, ReadError> {
        let mut keys: Vec<At> = self.keys.keys().copied().collect();
        keys.sort_unstable();
        let links = propose::links(self.tables, &keys, self.names, self.profiles);
        let set_of = |link: &Link| sets.iter().position(|set| set.is_of(link.to));
        let mut probes: Vec<Probe> = links
            .into_iter()
            .filter_map(|link| Some(Probe::new(link, set_of(&link)?, sets)))
            .collect();
        if probes.is_empty() {
            return Ok(Vec::new());
        }
        let prover = self.prover(0).with_mask(mask);
        prover.probe(sets, &mut probes)?;
        let mut found: Vec<(Link, Relationship, f64)> = Vec::new();
        for probe in &probes {
            if probe.share() < ENOUGH || !self.is_believable(probe, &sets[probe.set]) {
                continue;
            }
            let relationship = self.relationship(probe, &sets[probe.set], prover.checked());
            let rank = f64::from(probe.link.affinity) + relationship.matched + relationship.covered;
            found.push((probe.link, relationship, rank));
        }
        found.sort_by(|a, b| {
            a.0.from.cmp(&b.0.from).then(b.2.total_cmp(&a.2)).then(a.0.to.cmp(&b.0.to))
        });
        found.dedup_by_key(|(link, _, _)| link.from);
        let both_ways = |link: &Link, other: &Link| link.from == other.to && link.to == other.from;
        let all: Vec<Link> = found.iter().map(|(link, _, _)| *link).collect();
        found.retain(|(link, _, _)| {
            // Two keys that refer to each other: the one that is its table's own id is referred to.
            let mirrored = all.iter().find(|other| both_ways(link, other));
            mirrored.is_none_or(|other| (link.affinity, other.from) > (other.affinity, link.from))
        });
        Ok(found.into_iter().map(|(link, found, _)| (link, found)).collect())
    }

    /// Small numbers are contained in others by chance.
    fn is_believable(&self, probe: &Probe, set: &Set) -> bool {
        let own = &self.tables[probe.link.from.0].columns[probe.link.from.1];
        let covered = probe.marks.count() as f64 / set.hashes.len().max(1) as f64;
        if own.kind == Kind::Text {
            return probe.link.affinity > 0 || own.has_strong_form();
        }
        match probe.link.affinity {
            0 => covered >= 0.5 && set.hashes.len() >= 20 && probe.share() > 0.98,
            1 => covered >= 0.1,
            _ => true,
        }
    }

    fn relationship(&self, probe: &Probe, set: &Set, checked: Checked) -> Relationship {
        let referred = probe.marks.count();
        let cardinality =
            if referred == probe.matched { Cardinality::OneToOne } else { Cardinality::ManyToOne };
        Relationship {
            from: self.side(probe.link.from),
            to: self.side(probe.link.to),
            matched: rounded(probe.share()),
            covered: rounded(referred as f64 / set.hashes.len().max(1) as f64),
            cardinality,
            mean: rounded(probe.matched as f64 / referred.max(1) as f64),
            checked,
        }
    }

    fn side(&self, (table, place): At) -> Side {
        let table = &self.tables[table];
        Side {
            dataset: self.jobs[table.dataset].name.to_owned(),
            path: table.columns[place].path.clone(),
        }
    }

    /// What would match if it were written alike.
    fn prove_misses(
        &self,
        linked: &[At],
        links: &[(Link, Relationship)],
    ) -> Result<Vec<NearMiss>, ReadError> {
        let mut near: Vec<NearMiss> = links
            .iter()
            .filter(|(link, _)| !link.is_same_kind)
            .map(|(link, found)| NearMiss {
                from: self.side(link.from),
                to: self.side(link.to),
                because: Because::Type,
                matched: 0.0,
                mended: found.matched,
            })
            .collect();
        let repeated = self.repeated.iter().map(|(at, _, _)| *at);
        let mut keys: Vec<At> = self.keys.keys().copied().chain(repeated).collect();
        keys.sort_unstable();
        let proposed = propose::misses(self.tables, &keys, self.names, linked);
        let mut targets: Vec<At> = proposed.iter().map(|link| link.to).collect();
        targets.sort_unstable();
        targets.dedup();
        if targets.is_empty() {
            return Ok(near);
        }
        let mends = [Mend::Nothing].into_iter().chain(MENDS.iter().map(|(mend, _)| *mend));
        let mut sets: Vec<Set> = mends
            .flat_map(|mend| {
                targets
                    .iter()
                    .map(move |&(table, place)| Set::new(table, Columns::One(place), mend))
            })
            .collect();
        let expected =
            targets.iter().map(|&at| self.distinct(at)).sum::<u64>() * (MENDS.len() as u64 + 1);
        let prover = self.prover(expected);
        prover.fill(&mut sets)?;
        let mut probes = Vec::new();
        for &link in &proposed {
            for set in (0..sets.len()).filter(|&set| sets[set].is_of(link.to)) {
                probes.push(Probe::new(link, set, &sets));
            }
        }
        prover.probe(&sets, &mut probes)?;
        for chunk in probes.chunk_by(|a, b| a.link == b.link) {
            let share = |mend: Mend| {
                chunk.iter().find(|probe| sets[probe.set].mend == mend).map_or(0.0, Probe::share)
            };
            let plain = share(Mend::Nothing);
            let mended = MENDS.iter().find(|(mend, _)| {
                let good = share(*mend) >= ENOUGH && share(*mend) > plain + 0.2;
                good && self.is_telling(chunk, &sets, *mend)
            });
            let Some(&(mend, because)) = mended else { continue };
            let link = chunk[0].link;
            let (from, to) = (self.side(link.from), self.side(link.to));
            let (matched, mended) = (rounded(plain), rounded(share(mend)));
            near.push(NearMiss { from, to, because, matched, mended });
        }
        near.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
        near.dedup_by(|a, b| a.from == b.from);
        Ok(near)
    }

    /// Digits alone match by chance: a table's share has to be met as well, or
    /// the names have to fit well.
    fn is_telling(&self, chunk: &[Probe], sets: &[Set], mend: Mend) -> bool {
        let Some(probe) = chunk.iter().find(|probe| sets[probe.set].mend == mend) else {
            return false;
        };
        let set = &sets[probe.set];
        if mend == Mend::Digits {
            // Mending must not make different keys the same.
            let covered = probe.marks.count() as f64 / set.hashes.len().max(1) as f64;
            return set.repeated == 0 && (probe.link.affinity >= 2 || covered > 0.5);
        }
        true
    }

    fn told_repeated(&self) -> Vec<Vec<RepeatedId>> {
        let mut told: Vec<Vec<RepeatedId>> = self.profiles.iter().map(|_| Vec::new()).collect();
        for ((table, place), distinct, checked) in &self.repeated {
            let table = &self.tables[*table];
            let (column, rows) = (table.columns[*place].name.clone(), table.rows);
            let distinct = (*distinct).min(rows - 1);
            told[table.dataset].push(RepeatedId { column, distinct, rows, checked: *checked });
        }
        told
    }

    fn told(&self) -> Vec<Vec<Key>> {
        let mut keys: Vec<Vec<Key>> = self.profiles.iter().map(|_| Vec::new()).collect();
        let mut singles: Vec<_> = self.keys.iter().map(|(at, checked)| (*at, *checked)).collect();
        singles.sort_by_key(|&((table, place), _)| {
            let is_plain = name::is_generic(&self.tables[table].columns[place].name);
            (table, !is_plain, place)
        });
        for ((table, place), checked) in singles {
            let table = &self.tables[table];
            let columns = vec![table.columns[place].name.clone()];
            keys[table.dataset].push(Key { of: table.path.clone(), columns, checked });
        }
        for (table, pair, checked) in &self.pairs {
            let table = &self.tables[*table];
            let columns = pair.iter().map(|&place| table.columns[place].name.clone()).collect();
            keys[table.dataset].push(Key { of: table.path.clone(), columns, checked: *checked });
        }
        keys
    }
}

fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}
