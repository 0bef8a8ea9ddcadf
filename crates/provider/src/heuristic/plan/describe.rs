//! What a plan says of itself.

use super::{Filter, Join, Measure, Plan};

impl Plan {
    /// Everything in the data that it uses.
    pub(in super::super) fn names(&self) -> Vec<&str> {
        let filters = self.filters.iter().flat_map(|filter| {
            filter.values.iter().map(String::as_str).chain([filter.column.as_str()])
        });
        let limits = self.limits.iter().map(|limit| limit.column.as_str());
        let columns = [&self.number, &self.second, &self.date].into_iter().flatten();
        let columns = columns.chain(&self.groups).map(String::as_str);
        let join = self.join.iter().map(|join| join.name.as_str());
        let all = columns.chain(join).chain([self.dataset.as_str()]);
        all.chain(filters).chain(limits).collect()
    }

    /// For people.
    pub(in super::super) fn describe(&self) -> String {
        let of = match (&self.number, &self.second) {
            (Some(number), _) if self.has_rows => {
                let place = self.rank.map_or("first rows".to_owned(), |rank| format!("row {rank}"));
                format!("the {place} by `{number}`")
            }
            (Some(number), Some(second)) if self.measure == Measure::Correlation => {
                format!("the correlation of `{number}` and `{second}`")
            }
            (Some(number), _) => format!("the {} of `{number}`", self.measures().join(", ")),
            (None, Some(column)) => format!("how many different `{column}` there are"),
            (None, None) => "the number of rows".to_owned(),
        };
        let mut conditions = Vec::new();
        for Filter { column, values, is_not } in &self.filters {
            let is = if *is_not { "is not" } else { "is" };
            conditions.push(format!("`{column}` {is} `{}`", values.join("` or `")));
        }
        conditions.extend(self.limits.iter().map(super::Limit::describe));
        if let (Some(date), Some(period)) = (&self.date, &self.period) {
            conditions.push(format!("`{date}` is {}", period.describe()));
        }
        let mut text = format!("{of} in `{}`", self.dataset);
        if !conditions.is_empty() {
            text += &format!(" where {}", conditions.join(" and "));
        }
        if !self.groups.is_empty() {
            text += &format!(" for each `{}`", self.groups.join("` and `"));
        }
        if let (Some(date), Some(unit)) = (&self.date, self.unit) {
            let and = if self.groups.is_empty() { "for each" } else { "and" };
            text += &format!(" {and} {} of `{date}`", unit.word());
        }
        if let Some(Join { name, left, right }) = &self.join {
            text += &format!(", joined with `{name}` where `{left}` = `{name}.{right}`");
        }
        if self.is_assumed {
            text += " (no column of numbers is named, and this is the only one)";
        }
        text
    }

    /// The measures that are asked for, as the code calls them.
    pub(in super::super) fn measures(&self) -> Vec<&'static str> {
        let also = self.also.iter().filter(|measure| **measure != self.measure);
        [&self.measure].into_iter().chain(also).map(|measure| measure.word()).collect()
    }
}
