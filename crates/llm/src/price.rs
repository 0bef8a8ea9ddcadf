//! What tokens cost: a table as data, and sums in integers.
//!
//! Money is counted in billionths of a dollar, so that every published price is a
//! whole number for one token and no sum is ever rounded. A model without a price
//! has none: the caller refuses it, rather than letting it pass for free.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::request::{Caching, Size};
use crate::rewrite::Rewritten;
use crate::usage::Usage;

/// Prices of one token of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    pub input: u64,
    /// The input's price unless said.
    pub cache_read: Option<u64>,
    pub cache_write_5m: Option<u64>,
    pub cache_write_1h: Option<u64>,
    /// Also of what the model thinks.
    pub output: u64,
}

/// Prices of a model, by the length of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    rates: Rates,
    /// Above how long a prompt others hold for all of the request; ascending.
    above: Vec<(u64, Rates)>,
}

/// Prices by model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    exact: BTreeMap<String, Price>,
    /// Names up to a `*`.
    fronts: BTreeMap<String, Price>,
}

/// What is set aside before a request goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    pub nano_dollars: u64,
    /// As if all of it came to be.
    pub usage: Usage,
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidTable {
    #[error("the price table cannot be read")]
    Toml(#[source] toml::de::Error),
    #[error("`{0}` has two prices")]
    Twice(String),
    #[error("`{0}` is not a model's name, or one up to a `*`")]
    Name(String),
    #[error("prices above longer prompts do not ascend for `{0}`")]
    Descending(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    price: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    models: Vec<String>,
    input: u64,
    cache_read: Option<u64>,
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
    output: u64,
    #[serde(default)]
    above: Vec<Above>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Above {
    prompt: u64,
    input: u64,
    cache_read: Option<u64>,
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
    output: u64,
}

impl Rates {
    fn cache_read(&self) -> u64 {
        self.cache_read.unwrap_or(self.input)
    }

    fn cache_write_5m(&self) -> u64 {
        self.cache_write_5m.unwrap_or(self.input)
    }

    fn cache_write_1h(&self) -> u64 {
        self.cache_write_1h.unwrap_or(self.cache_write_5m())
    }

    fn cost(&self, usage: &Usage) -> u64 {
        let sum: u128 = [
            (usage.input, self.input),
            (usage.cache_read, self.cache_read()),
            (usage.cache_write_5m, self.cache_write_5m()),
            (usage.cache_write_1h, self.cache_write_1h()),
            (usage.output, self.output),
            (usage.reasoning, self.output),
        ]
        .into_iter()
        .map(|(tokens, price)| u128::from(tokens) * u128::from(price))
        .fold(0, u128::saturating_add);
        u64::try_from(sum).unwrap_or(u64::MAX)
    }

    fn is_below(&self, other: &Self) -> bool {
        self.input <= other.input
            && self.cache_read() <= other.cache_read()
            && self.cache_write_5m() <= other.cache_write_5m()
            && self.cache_write_1h() <= other.cache_write_1h()
            && self.output <= other.output
    }
}

impl Price {
    fn rates(&self, prompt: u64) -> &Rates {
        let above = self.above.iter().rev().find(|(longer, _)| prompt > *longer);
        above.map_or(&self.rates, |(_, rates)| rates)
    }

    pub fn cost(&self, usage: &Usage) -> u64 {
        self.rates(usage.prompt()).cost(usage)
    }

    /// The most that a request can cost: the longest prompt, all of it of the
    /// dearest kind that can occur, and all the output that is allowed.
    pub fn reserve(&self, size: &Size, output: u64) -> Reservation {
        let prompt = size.tokens.saturating_mul(size.passes.max(1));
        let output = output.saturating_mul(size.passes.max(1));
        let rates = self.rates(prompt);
        let kinds = |kind: Caching| match kind {
            Caching::None => (Usage { input: prompt, output, ..Usage::default() }, rates.input),
            Caching::FiveMinutes => (
                Usage { cache_write_5m: prompt, output, ..Usage::default() },
                rates.cache_write_5m(),
            ),
            Caching::OneHour => (
                Usage { cache_write_1h: prompt, output, ..Usage::default() },
                rates.cache_write_1h(),
            ),
        };
        let usage = [Caching::None, Caching::FiveMinutes, Caching::OneHour]
            .into_iter()
            .filter(|kind| *kind <= size.caching)
            .map(kinds)
            // Of equals, the plainest.
            .reduce(|dearest, other| if other.1 > dearest.1 { other } else { dearest })
            .map_or_else(Usage::default, |(usage, _)| usage);
        Reservation { nano_dollars: rates.cost(&usage), usage }
    }

    /// The most output that [`Self::reserve`] finds enough money for; none: there is
    /// not enough for the prompt.
    pub fn affords(&self, size: &Size, nano_dollars: u64) -> Option<u64> {
        let left = nano_dollars.checked_sub(self.reserve(size, 0).nano_dollars)?;
        let passes = size.passes.max(1);
        let each = self.rates(size.tokens.saturating_mul(passes)).output.saturating_mul(passes);
        Some(left.checked_div(each).unwrap_or(u64::MAX))
    }
}

impl Table {
    /// The table that comes with the program.
    pub fn embedded() -> Result<Self, InvalidTable> {
        Self::parse(include_str!("../prices.toml"))
    }

    pub fn parse(text: &str) -> Result<Self, InvalidTable> {
        let file: File = toml::from_str(text).map_err(InvalidTable::Toml)?;
        let mut table = Self::default();
        for entry in file.price {
            table.add(entry)?;
        }
        Ok(table)
    }

    fn add(&mut self, entry: Entry) -> Result<(), InvalidTable> {
        let Entry { input, cache_read, cache_write_5m, cache_write_1h, output, .. } = entry;
        let rates = Rates { input, cache_read, cache_write_5m, cache_write_1h, output };
        let above: Vec<_> = entry.above.into_iter().map(Above::split).collect();
        let mut last = (0, rates);
        for next in &above {
            // What is reserved holds for every shorter prompt only if it costs less.
            if next.0 <= last.0 || !last.1.is_below(&next.1) {
                return Err(InvalidTable::Descending(entry.models.join(", ")));
            }
            last = *next;
        }
        let price = Price { rates, above };
        for name in entry.models {
            let (list, key) = match name.strip_suffix('*') {
                Some(front) => (&mut self.fronts, front),
                None => (&mut self.exact, name.as_str()),
            };
            if key.is_empty() || key.contains('*') {
                return Err(InvalidTable::Name(name));
            }
            if list.insert(key.to_owned(), price.clone()).is_some() {
                return Err(InvalidTable::Twice(name));
            }
        }
        Ok(())
    }

    /// Puts another table over this one: its names win.
    #[must_use]
    pub fn with(mut self, over: Self) -> Self {
        self.exact.extend(over.exact);
        self.fronts.extend(over.fronts);
        self
    }

    /// The price of a model: by its own name, or by the longest front of it.
    pub fn price(&self, model: &str) -> Option<&Price> {
        self.exact.get(model).or_else(|| {
            let fronts = self.fronts.iter().filter(|(front, _)| model.starts_with(front.as_str()));
            fronts.max_by_key(|(front, _)| front.len()).map(|(_, price)| price)
        })
    }

    pub fn reserve(&self, request: &Rewritten) -> Option<Reservation> {
        self.price(&request.model).map(|price| price.reserve(&request.size, request.max_output))
    }
}

impl Above {
    fn split(self) -> (u64, Rates) {
        let Self { prompt, input, cache_read, cache_write_5m, cache_write_1h, output } = self;
        (prompt, Rates { input, cache_read, cache_write_5m, cache_write_1h, output })
    }
}

#[cfg(test)]
mod tests;
