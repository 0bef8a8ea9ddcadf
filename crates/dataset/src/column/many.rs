//! Sketches of a column with many different values.

use super::{Date, SAMPLE_BYTES, SAMPLES, Text, Value};
use crate::bottom::Bottom;
use crate::date::{self, Grain, Millis, Zone};
use crate::hll::Hll;
use crate::number::{self, COMMA_BYTES, Comma, Number};
use crate::quantile::Quantiles;

#[derive(Debug, Clone)]
pub(crate) struct Many {
    pub(crate) distinct: Option<Distinct>,
    pub(crate) texts: Option<Texts>,
    pub(crate) numbers: Option<Numbers>,
    pub(crate) dates: Option<Dates>,
    /// The first different ones.
    samples: Vec<(u64, Box<[u8]>)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Distinct {
    hll: Hll,
    pub(crate) bottom: Bottom,
}

#[derive(Debug, Clone)]
pub(crate) struct Texts {
    pub(crate) count: u64,
    pub(crate) empty: u64,
    pub(crate) shortest: u64,
    pub(crate) longest: u64,
    pub(crate) chars: u64,
    /// Those that are numbers if a comma is before their decimals.
    pub(crate) commas: Commas,
}

/// How often texts were such numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Commas {
    pub(crate) numbers: u64,
    /// Of them, those that have a comma.
    pub(crate) written: u64,
    /// Of those, the ones in which it can only be before decimals.
    pub(crate) certain: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    pub(crate) count: u64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) sum: f64,
    pub(crate) zeros: u64,
    pub(crate) negative: u64,
    pub(crate) quantiles: Option<Quantiles>,
}

#[derive(Debug, Clone)]
pub(crate) struct Dates {
    pub(crate) count: u64,
    pub(crate) iso: Option<Iso>,
    pub(crate) month_first: Slashed,
    pub(crate) day_first: Slashed,
    pub(crate) dotted: Dotted,
}

#[derive(Debug, Clone)]
pub(crate) struct Iso {
    pub(crate) min: Millis,
    pub(crate) max: Millis,
    pub(crate) grain: Grain,
    pub(crate) without_zone: u64,
    pub(crate) utc: u64,
    pub(crate) offset: u64,
}

/// Dates with points: the day is first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dotted {
    pub(crate) dates: Slashed,
    pub(crate) grain: Grain,
}

/// Dates with slashes, read in one of the two orders.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slashed {
    pub(crate) count: u64,
    pub(crate) range: Option<(Millis, Millis)>,
}

impl Many {
    pub(crate) fn new(is_sketched: bool) -> Self {
        let distinct = || Distinct { hll: Hll::new(), bottom: Bottom::default() };
        Self {
            distinct: is_sketched.then(distinct),
            texts: None,
            numbers: None,
            dates: None,
            samples: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: &Value<'_>, hash: u64, weight: u64) {
        if let Some(distinct) = &mut self.distinct {
            distinct.hll.add(hash);
            distinct.bottom.add(hash, value.shown());
        }
        if self.samples.len() < SAMPLES {
            self.sample(hash, value.shown());
        }
        match *value {
            Value::Text(text) => self.text(text, weight),
            Value::Number(number, _) => self.number(number, weight),
        }
    }

    fn text(&mut self, text: Text<'_>, weight: u64) {
        let chars = text.chars;
        let texts = self.texts.get_or_insert(Texts::NONE);
        texts.count += weight;
        texts.empty += if chars == 0 { weight } else { 0 };
        texts.shortest = texts.shortest.min(chars);
        texts.longest = texts.longest.max(chars);
        texts.chars = texts.chars.saturating_add(chars.saturating_mul(weight));
        texts.commas.add(text, weight);
        if text.is_whole
            && let Some(date) = date::read(text.head)
        {
            self.dates.get_or_insert(Dates::NONE).add(date, weight);
        }
    }

    fn number(&mut self, number: Number, weight: u64) {
        let value = number.value();
        let is_sketched = self.distinct.is_some();
        let numbers = self.numbers.get_or_insert_with(|| Numbers::new(is_sketched));
        numbers.count += weight;
        numbers.min = numbers.min.min(value);
        numbers.max = numbers.max.max(value);
        numbers.sum += value * weight as f64;
        numbers.zeros += if value == 0.0 { weight } else { 0 };
        numbers.negative += if value < 0.0 { weight } else { 0 };
        if let Some(quantiles) = &mut numbers.quantiles {
            quantiles.add(value, weight);
        }
    }

    fn sample(&mut self, hash: u64, text: &[u8]) {
        if self.samples.iter().all(|(kept, _)| *kept != hash) {
            self.samples.push((hash, text[..text.len().min(SAMPLE_BYTES)].into()));
        }
    }

    pub(crate) fn merge(&mut self, later: &Self) {
        if let (Some(mine), Some(theirs)) = (&mut self.distinct, &later.distinct) {
            mine.hll.merge(&theirs.hll);
            mine.bottom.merge(&theirs.bottom);
        } else {
            self.distinct = None;
        }
        for (hash, text) in &later.samples {
            if self.samples.len() < SAMPLES {
                self.sample(*hash, text);
            }
        }
        if let Some(theirs) = &later.texts {
            self.texts.get_or_insert(Texts::NONE).merge(theirs);
        }
        if let Some(theirs) = &later.numbers {
            let is_sketched = self.distinct.is_some();
            self.numbers.get_or_insert_with(|| Numbers::new(is_sketched)).merge(theirs);
        }
        if let Some(theirs) = &later.dates {
            self.dates.get_or_insert(Dates::NONE).merge(theirs);
        }
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = &[u8]> {
        self.samples.iter().map(|(_, text)| &**text)
    }
}

impl Distinct {
    /// Exact while the sample holds all of them.
    pub(crate) fn estimate(&self) -> u64 {
        if self.bottom.is_whole() { self.bottom.len() as u64 } else { self.hll.estimate() }
    }
}

impl Texts {
    const NONE: Self =
        Self { count: 0, empty: 0, shortest: u64::MAX, longest: 0, chars: 0, commas: Commas::NONE };

    fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.empty += later.empty;
        self.shortest = self.shortest.min(later.shortest);
        self.longest = self.longest.max(later.longest);
        self.chars = self.chars.saturating_add(later.chars);
        self.commas.numbers += later.commas.numbers;
        self.commas.written += later.commas.written;
        self.commas.certain += later.commas.certain;
    }
}

impl Commas {
    const NONE: Self = Self { numbers: 0, written: 0, certain: 0 };

    #[inline]
    fn add(&mut self, text: Text<'_>, weight: u64) {
        if let [b'0'..=b'9' | b'-' | b' ', ..] = text.head
            && text.is_whole
            && let Some((_, comma)) = number::with_comma(text.head, &mut [0; COMMA_BYTES])
        {
            self.numbers += weight;
            self.written += if comma == Comma::Absent { 0 } else { weight };
            self.certain += if comma == Comma::Decimal { weight } else { 0 };
        }
    }
}

impl Numbers {
    fn new(is_sketched: bool) -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        let quantiles = is_sketched.then(Quantiles::new);
        Self { count: 0, min, max, sum: 0.0, zeros: 0, negative: 0, quantiles }
    }

    fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        self.sum += later.sum;
        self.zeros += later.zeros;
        self.negative += later.negative;
        match (&mut self.quantiles, &later.quantiles) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine, _) => *mine = None,
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

impl Dates {
    const NONE: Self = Self {
        count: 0,
        iso: None,
        month_first: Slashed { count: 0, range: None },
        day_first: Slashed { count: 0, range: None },
        dotted: Dotted { dates: Slashed { count: 0, range: None }, grain: Grain::Day },
    };

    fn add(&mut self, date: Date, weight: u64) {
        self.count += weight;
        match date {
            Date::Iso { at, grain, zone } => {
                let none = Iso { min: at, max: at, grain, without_zone: 0, utc: 0, offset: 0 };
                let iso = self.iso.get_or_insert(none);
                iso.min = iso.min.min(at);
                iso.max = iso.max.max(at);
                iso.grain = iso.grain.max(grain);
                match zone {
                    Zone::None => iso.without_zone += weight,
                    Zone::Utc => iso.utc += weight,
                    Zone::Offset => iso.offset += weight,
                }
            }
            Date::Slashed { month_first, day_first } => {
                self.month_first.add(month_first, weight);
                self.day_first.add(day_first, weight);
            }
            Date::Dotted { at, grain } => {
                self.dotted.dates.add(Some(at), weight);
                self.dotted.grain = self.dotted.grain.max(grain);
            }
        }
    }

    fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.month_first.merge(later.month_first);
        self.day_first.merge(later.day_first);
        self.dotted.dates.merge(later.dotted.dates);
        self.dotted.grain = self.dotted.grain.max(later.dotted.grain);
        match (&mut self.iso, &later.iso) {
            (Some(mine), Some(theirs)) => {
                mine.min = mine.min.min(theirs.min);
                mine.max = mine.max.max(theirs.max);
                mine.grain = mine.grain.max(theirs.grain);
                mine.without_zone += theirs.without_zone;
                mine.utc += theirs.utc;
                mine.offset += theirs.offset;
            }
            (mine @ None, theirs) => mine.clone_from(theirs),
            (Some(_), None) => {}
        }
    }
}

impl Slashed {
    fn add(&mut self, at: Option<Millis>, weight: u64) {
        if let Some(at) = at {
            self.merge(Self { count: weight, range: Some((at, at)) });
        }
    }

    fn merge(&mut self, later: Self) {
        self.count += later.count;
        self.range = match (self.range, later.range) {
            (Some((min, max)), Some((low, high))) => Some((min.min(low), max.max(high))),
            (mine, theirs) => mine.or(theirs),
        };
    }
}
