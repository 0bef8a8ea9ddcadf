//! What a look at the data said about it.

use serde::Deserialize;

use super::words::{likeness, split};

/// One dataset.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) rows: u64,
    pub(super) columns: Vec<Column>,
}

/// A column: its name, what it holds, how many different values, and of few, those
/// that the question may name; of dates, the first and the last.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Column(
    pub(super) String,
    pub(super) Kind,
    pub(super) u64,
    #[serde(default)] pub(super) Vec<String>,
    /// Of how many rows it has no value.
    #[serde(default)]
    pub(super) u64,
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Number,
    Date,
    Word,
}

/// What one adds up without being told to.
const ADDITIVE: [&str; 36] = [
    "gross",
    "net",
    "byte",
    "debit",
    "amount",
    "revenue",
    "sale",
    "unit",
    "quantity",
    "qty",
    "cost",
    "profit",
    "total",
    "volume",
    "spend",
    "spending",
    "budget",
    "income",
    "tax",
    "fee",
    "payment",
    "turnover",
    "duration",
    "minute",
    "hour",
    "distance",
    "click",
    "view",
    "visit",
    "order",
    "expense",
    "earning",
    "paid",
    "donation",
    "population",
    "download",
];

/// What is a share of something, or a number for one of it, is not added up.
const RATES: [&str; 13] = [
    "price",
    "rate",
    "avg",
    "average",
    "mean",
    "median",
    "per",
    "percent",
    "percentage",
    "pct",
    "ratio",
    "share",
    "margin",
];

/// Datasets whose rows are people.
const PEOPLE: [&str; 12] = [
    "employee",
    "people",
    "person",
    "staff",
    "student",
    "customer",
    "user",
    "member",
    "patient",
    "passenger",
    "contact",
    "participant",
];

impl Shape {
    /// Finds shapes in what the code printed, whatever stands around them. A line
    /// that was cut in the middle is left out.
    pub(super) fn read(output: &str) -> Vec<Self> {
        let lines = output.lines().filter_map(|line| line.trim().strip_prefix("SHAPE "));
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.0 == name)
    }

    /// Whether a word says what its rows are: "orders" of `orders`, or of `sales` by `order_id`.
    pub(super) fn is_noun(&self, word: &str) -> bool {
        let own = split(&self.name);
        let is_own = |noun: &str| own.iter().any(|own| likeness(own, noun) > 0);
        let is_key = |column: &&Column| self.is_key(column) && column.is_id();
        let keys = self.columns.iter().filter(is_key).map(|column| split(&column.0));
        let is_keyed = keys.into_iter().any(|key| key.len() == 2 && key[0] == word);
        let is_person = ["people", "person", "headcount"].contains(&word);
        is_own(word) || is_keyed || (is_person && PEOPLE.into_iter().any(is_own))
    }

    /// Columns that one would add up, if none is named.
    pub(super) fn measures(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_measure())
    }

    /// Whether a column tells rows apart. Amounts may happen to.
    pub(super) fn is_key(&self, column: &Column) -> bool {
        self.rows > 1
            && column.2 == self.rows
            && (column.1 == Kind::Word || (column.1 == Kind::Number && column.is_id()))
    }
}

impl Column {
    /// Whether it only refers to something: such numbers are not added up.
    pub(super) fn is_id(&self) -> bool {
        self.ends_with(&["id", "key", "uuid"])
    }

    /// Numbers that are amounts of something, and not its date, or its place in a list.
    pub(super) fn is_measure(&self) -> bool {
        let labels = ["count", "year", "quarter", "month", "week", "day", "zip", "code", "number"];
        self.1 == Kind::Number && !self.is_id() && !self.ends_with(&labels)
    }

    /// The first and the last of its dates.
    pub(super) fn range(&self) -> Option<(&str, &str)> {
        let [first, last] = &self.3[..] else { return None };
        (self.1 == Kind::Date).then_some((first, last))
    }

    /// Whether sums of it mean something; of prices and ages they do not.
    pub(super) fn is_additive(&self) -> bool {
        let words = split(&self.0);
        let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
        // The cost of a unit is none of all units.
        let is_single = words.len() > 1 && words[0] == "unit";
        has(&ADDITIVE) && !has(&RATES) && !is_single
    }

    /// Its value for "yes", and the one for "no", if it has no others.
    pub(super) fn yes_and_no(&self) -> Option<(&str, &str)> {
        let [first, second] = &self.3[..] else { return None };
        let is = |value: &str, any: &[&str]| any.contains(&value.to_lowercase().as_str());
        let (yes, no) = (["yes", "true", "y"], ["no", "false", "n"]);
        let is_complete = self.1 == Kind::Word && self.2 == 2;
        match () {
            () if is_complete && is(first, &yes) && is(second, &no) => Some((first, second)),
            () if is_complete && is(first, &no) && is(second, &yes) => Some((second, first)),
            () => None,
        }
    }

    fn ends_with(&self, words: &[&str]) -> bool {
        split(&self.0).last().is_some_and(|word| words.contains(&word.as_str()))
    }
}
