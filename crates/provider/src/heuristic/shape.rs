//! What a look at the data said about it.

use serde::Deserialize;

use super::words::split;

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
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Number,
    Date,
    Word,
}

/// What one adds up without being told to.
const ADDITIVE: [&str; 32] = [
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
        split(&self.0).iter().any(|word| ADDITIVE.contains(&word.as_str()))
    }

    fn ends_with(&self, words: &[&str]) -> bool {
        split(&self.0).last().is_some_and(|word| words.contains(&word.as_str()))
    }
}
