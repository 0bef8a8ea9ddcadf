//! What is loaded how, and what is made smaller before, so that all of it fits.

use belljar_dataset::{Dataset, Description, Encoding, variables};
use belljar_domain::data::{FOLDER, MOST_FILES};
use belljar_journal::BlobRef;
use belljar_journal::event::{self, Brought, Guards};

use super::depot::{DataError, Depot};
use super::factors::{Factors, shape};
use super::fit::{Room, Size, Strategy};
use super::sample::{Drawn, draw};
use super::shared::{SharedKey, shared_keys};
use super::{Format, Item, compression_of, estimate, manifest};
use crate::shorten::counted;

/// What the model is told of the inside of all datasets, at most.
const TOKENS: usize = 6_000;

/// Files of a run, and how each comes into memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    room: Room,
    /// What datasets may take of memory when they are loaded.
    pub(super) budget: u64,
    pub(super) parts: Vec<Part>,
    profile: Option<Description>,
    /// The guards that the manifest leaves on.
    pub(super) guards: Guards,
}

/// One dataset.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// As it was given.
    pub(super) origin: Item,
    /// What `load_data` puts it into.
    pub(super) variable: String,
    pub(super) profile: Option<Dataset>,
    pub(super) strategy: Strategy,
    /// At the worst moment of loading it.
    pub(super) peak: u64,
    /// One record, or one value of the key, in 2 to the power of this is kept.
    pub(super) halvings: u32,
    /// The key that the sample is drawn by; none: each record is drawn by itself.
    pub(super) key: Option<SharedKey>,
    /// Other samples with the same values of the key, by file and column.
    pub(super) together: Vec<String>,
    /// A key that the sample could not be drawn by, and how many records one of its values has, at
    /// most.
    pub(super) unsuited: Option<(String, u64)>,
    /// What the sandbox has instead.
    pub(super) drawn: Option<Drawn>,
    /// Whether it turned out to be one thing that has no records.
    is_one: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("the measured factors cannot be read")]
    Factors(#[source] serde_json::Error),
    #[error("`{name}` has {bytes} bytes, and files may take {room} in the sandbox")]
    TooLarge { name: String, bytes: u64, room: u64 },
    #[error("cannot make `{name}` fit into the sandbox")]
    Make { name: String, source: Box<DataError> },
}

impl Plan {
    /// Fits datasets into a sandbox: those that are too large are sampled, or written
    /// in another form, into the depot that they are from. A profile names datasets by
    /// their files.
    pub async fn new(
        items: Vec<Item>,
        mut room: Room,
        profile: Option<Description>,
        depot: &dyn Depot,
    ) -> Result<Self, PlanError> {
        // The manifest is one more.
        if items.len() >= MOST_FILES {
            room.data = Brought::Copied;
        }
        let factors = Factors::measured().map_err(PlanError::Factors)?;
        let names = variables(items.iter().map(|item| item.name.as_str()));
        let profile = profile.map(|profile| renamed(profile, &items, &names));
        let known = |item: &Item| {
            let all = profile.as_ref().map(|profile| profile.datasets.iter());
            all.and_then(|mut all| all.find(|dataset| dataset.name == item.name)).cloned()
        };
        let part = |(item, variable): (Item, String)| Part {
            variable,
            profile: known(&item),
            origin: item,
            strategy: Strategy::Whole,
            peak: 0,
            halvings: 0,
            key: None,
            together: Vec::new(),
            unsuited: None,
            drawn: None,
            is_one: false,
        };
        let parts = items.into_iter().zip(names).map(part).collect();
        let guards = Guards::default();
        let mut plan = Self { room, budget: 0, parts, profile, guards };
        plan.sample(&factors, depot).await?;
        plan.decide(&factors);
        plan.convert(&factors, depot).await?;
        Ok(plan)
    }

    /// Leaves on only these guards.
    #[must_use]
    pub fn guarded_by(self, guards: Guards) -> Self {
        Self { guards, ..self }
    }

    /// Leaves out records until all files fit.
    async fn sample(&mut self, factors: &Factors, depot: &dyn Depot) -> Result<(), PlanError> {
        let room = factors.for_files(self.room);
        loop {
            let sizes: Vec<Size<'_>> = self.parts.iter().map(Part::size).collect();
            let more = factors.halvings(&sizes, self.room);
            let more = more.map_err(|at| self.parts[at].too_large(room))?;
            if more.iter().all(|halvings| *halvings == 0) {
                self.name_families();
                return Ok(());
            }
            // What comes of it may be larger than its share, if records differ: then
            // there is another round.
            for (part, more) in self.parts.iter_mut().zip(more) {
                part.halvings += more;
            }
            self.draw(room, depot).await?;
        }
    }

    /// Draws samples, those of files that share a key by this key and at the same rate.
    async fn draw(&mut self, room: u64, depot: &dyn Depot) -> Result<(), PlanError> {
        let needed: Vec<u32> = self.parts.iter().map(|part| part.halvings).collect();
        loop {
            let keys = shared_keys(self.profile.as_ref(), &self.parts);
            level(&mut self.parts, &needed, &keys);
            let mut is_settled = true;
            for (part, key) in self.parts.iter_mut().zip(keys) {
                let drawn = part.drawn.as_ref();
                let is_drawn = drawn.is_some_and(|drawn| drawn.halvings == part.halvings);
                if !part.is_sample() || (is_drawn && part.key == key) {
                    continue;
                }
                part.key = key;
                if !part.draw(depot).await? {
                    return Err(part.too_large(room));
                }
                if let (Some(key), Some(drawn)) = (&part.key, &part.drawn)
                    && drawn.is_lopsided()
                {
                    part.unsuited = Some((key.name.clone(), drawn.most));
                    is_settled = false;
                }
            }
            if is_settled {
                return Ok(());
            }
        }
    }

    /// Writes down which samples have the same values of a key.
    fn name_families(&mut self) {
        let named = |part: &Part| {
            let key = part.key.as_ref()?;
            Some((key.seed, format!("{} (`{}`)", part.origin.name, key.name)))
        };
        let all: Vec<_> = self.parts.iter().map(named).collect();
        for (at, part) in self.parts.iter_mut().enumerate() {
            let own = part.key.as_ref().map(|key| key.seed);
            let others = all.iter().enumerate().filter(|(other, _)| *other != at);
            let others = others.filter_map(|(_, named)| named.as_ref());
            let family = others.filter(|(seed, _)| Some(*seed) == own);
            part.together = family.map(|(_, name)| name.clone()).collect();
        }
    }

    fn decide(&mut self, factors: &Factors) {
        let files = self.items().fold(0, |sum: u64, item| sum.saturating_add(item.bytes));
        self.budget = factors.for_loading(self.room, files);
        let sizes: Vec<Size<'_>> = self.parts.iter().map(Part::size).collect();
        let decided = factors.strategies(&sizes, self.budget);
        for (part, (strategy, peak)) in self.parts.iter_mut().zip(decided) {
            (part.strategy, part.peak) = (strategy, peak);
        }
    }

    /// Makes lines of a JSON document that can only be read by parts.
    async fn convert(&mut self, factors: &Factors, depot: &dyn Depot) -> Result<(), PlanError> {
        for part in &mut self.parts {
            let has_records = part.size().has_records;
            if part.strategy == Strategy::Parts && part.format() == Format::Json && has_records {
                part.draw(depot).await?;
            }
        }
        self.decide(factors);
        Ok(())
    }

    /// The files that the sandbox gets.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.parts.iter().map(Part::item)
    }

    /// As a journal names them; `description` is what [`Plan::describe`] says.
    pub fn datasets(&self, description: BlobRef) -> Vec<event::Dataset> {
        let origin = |part: &Part| {
            let Item { name, fingerprint, bytes } = part.origin.clone();
            let Drawn { records, kept, .. } = *part.drawn.as_ref()?;
            Some(event::Origin { name, fingerprint, bytes, records, kept })
        };
        let dataset = |part: &Part| {
            let Item { name, fingerprint, bytes } = part.item().clone();
            let (description, origin) = (Some(description), origin(part));
            event::Dataset { name, fingerprint, bytes, description, origin }
        };
        self.parts.iter().map(dataset).collect()
    }

    /// What `load_data` reads.
    pub fn manifest(&self) -> String {
        manifest::manifest(self).to_string()
    }

    /// For the model: what there is, how it comes into memory, and how it is made.
    pub fn describe(&self) -> String {
        let mut text = "# Datasets\n".to_owned();
        for part in &self.parts {
            let item = part.item();
            let bytes = counted(item.bytes);
            text.push_str(&format!(
                "\n- `{FOLDER}/{}`: {bytes} bytes. {}",
                item.name,
                part.sentence()
            ));
            if part.profile.is_none() && part.format() != Format::Other {
                text.push_str(" What is inside could not be described: look first.");
            }
        }
        if self.parts.iter().any(Part::is_sample) {
            text.push_str("\n\n");
            text.push_str(&estimate::figures());
        }
        if let Some(profile) = &self.profile {
            text.push_str("\n\n");
            text.push_str(profile.to_text(TOKENS).trim_end());
        }
        text
    }
}

impl Part {
    /// What the sandbox gets.
    pub(super) fn item(&self) -> &Item {
        self.drawn.as_ref().map_or(&self.origin, |drawn| &drawn.item)
    }

    pub(super) fn is_sample(&self) -> bool {
        self.halvings > 0
    }

    fn too_large(&self, room: u64) -> PlanError {
        let Item { name, bytes, .. } = &self.origin;
        PlanError::TooLarge { name: name.clone(), bytes: *bytes, room }
    }

    /// The format of what the sandbox gets.
    pub(super) fn format(&self) -> Format {
        match (&self.drawn, &self.profile) {
            (None, Some(profile)) => profile.format.into(),
            _ => self.item().format(),
        }
    }

    /// Returns true if records can be copied without decoding the file.
    fn can_be_copied(&self) -> bool {
        let is_copied = |profile: &Dataset| {
            let utf16 = [Encoding::Utf16Le, Encoding::Utf16Be];
            let is_utf16 = matches!(profile.encoding, Encoding::Utf16 { .. })
                || utf16.contains(&profile.encoding);
            profile.compression.is_none() && !is_utf16
        };
        self.profile.as_ref().map_or(compression_of(&self.origin.name).is_none(), is_copied)
    }

    fn size(&self) -> Size<'_> {
        let item = self.item();
        let has_records = match self.format() {
            _ if !self.can_be_copied() => false,
            Format::JsonLines | Format::Csv | Format::Tsv => true,
            Format::Json if self.is_one => false,
            // Without a profile, it will show.
            Format::Json => self.profile.as_ref().is_none_or(|known| known.root.item.is_some()),
            Format::Parquet | Format::Excel | Format::Other => false,
        };
        let shape = self.profile.as_ref().map(shape);
        let text_bytes = self.profile.as_ref().and_then(|profile| profile.text_bytes);
        Size {
            name: &self.origin.name,
            format: self.format(),
            shape,
            bytes: item.bytes,
            text_bytes: text_bytes.filter(|_| self.drawn.is_none()).unwrap_or(item.bytes),
            has_records,
        }
    }

    /// Writes what is kept of it; false: it has no records.
    async fn draw(&mut self, depot: &dyn Depot) -> Result<bool, PlanError> {
        let dialect = self.profile.as_ref().and_then(|profile| profile.dialect.as_ref());
        let name = &self.origin.name;
        let failed = |source| PlanError::Make { name: name.clone(), source: Box::new(source) };
        let drawn = draw(depot, &self.origin, dialect, self.halvings, self.key.as_ref()).await;
        let drawn = drawn.map_err(failed)?;
        self.is_one = drawn.is_none();
        self.drawn = drawn;
        Ok(!self.is_one)
    }

    /// How it was made to fit, and how it comes into memory.
    pub(super) fn sentence(&self) -> String {
        let variable = &self.variable;
        let made = self.drawn.as_ref().map(|drawn| estimate::made(self, drawn)).unwrap_or_default();
        let how = match self.strategy {
            Strategy::Whole => format!("load_data() loads all of it as `{variable}`."),
            Strategy::Lazy => format!(
                "load_data() offers it as `{variable}` and loads it when it is first used: not all \
                 datasets fit into memory at once."
            ),
            Strategy::Parts => format!(
                "It does not fit into memory. load_data() offers it as `{variable}` by parts: \
                 `{variable}.chunks()`, `{variable}.columns_only([...])`, `{variable}.query(sql)`."
            ),
            Strategy::File => {
                "load_data() does not load it: read as much of the file as fits into memory."
                    .to_owned()
            }
        };
        format!("{made}{how}")
    }
}

/// Samples with a key in common get the same rate, the lowest that one of them needs.
fn level(parts: &mut [Part], needed: &[u32], keys: &[Option<SharedKey>]) {
    let lowest = |key: &SharedKey| {
        let family = needed.iter().zip(keys).filter_map(|(needed, other)| {
            let is_same = other.as_ref()?.seed == key.seed;
            is_same.then_some(*needed)
        });
        family.max()
    };
    for ((part, needed), key) in parts.iter_mut().zip(needed).zip(keys) {
        part.halvings = key.as_ref().and_then(lowest).unwrap_or(*needed);
    }
}

/// The variables that `load_data` uses, in all that is said of the data.
fn renamed(mut profile: Description, items: &[Item], names: &[String]) -> Description {
    for dataset in &mut profile.datasets {
        let at = items.iter().position(|item| item.name == dataset.name);
        if let Some(name) = at.and_then(|at| names.get(at)) {
            dataset.variable.clone_from(name);
        }
    }
    profile
}

#[cfg(test)]
mod tests;
