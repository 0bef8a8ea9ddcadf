//! What to compute, decided by fixed rules, in this order.
//!
//! 1. A word of the question says the measure: "average", "how many".
//! 2. What is measured is the column of numbers that the question names; or else, if a
//!    measure or "most" needs one, the only one that its dataset has.
//! 3. Values that the question names, of columns with few of them, choose rows.
//! 4. Groups are made only if it asks for some: "by region", "which region".
//!
//! Where a rule needs something that the question does not name, there is no plan.

use super::names::{self, Named};
use super::question::{Measure, Question};
use super::shape::{Column, Kind, Shape};
use super::words::meant;

/// What to compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) dataset: String,
    pub(super) measure: Measure,
    pub(super) number: Option<String>,
    /// Whether the number was not named, and is the only one.
    is_assumed: bool,
    /// Another number, or the column whose values are counted.
    pub(super) second: Option<String>,
    /// Rows that have one of these values, in all of these columns.
    pub(super) filters: Vec<Filter>,
    pub(super) group: Option<String>,
    pub(super) join: Option<Join>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) column: String,
    pub(super) values: Vec<String>,
}

/// Another dataset whose columns are needed; they get its name before theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Join {
    pub(super) name: String,
    pub(super) left: String,
    pub(super) right: String,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Puzzle {
    /// No word names anything in the data.
    Nothing,
    /// No word says what to compute.
    Aim,
    /// Which of these columns of numbers to measure.
    Number(Vec<String>),
    /// What these words name, by which there are to be groups.
    Group(String),
}

impl Plan {
    pub(super) fn make(question: &Question, shapes: &[Shape]) -> Result<Self, Puzzle> {
        let values = names::values(question, shapes);
        let is_number = |_: &Shape, column: &Column| column.1 == Kind::Number && !column.is_id();
        let numbers = names::columns(question, shapes, is_number);
        let wants_number = !matches!(question.measure, Some(Measure::Count | Measure::Distinct));
        let named = numbers.first().filter(|_| wants_number);
        let home = match named {
            Some(named) => named.shape,
            None => names::dataset(question, shapes, &values).ok_or(Puzzle::Nothing)?,
        };
        let mut plan = Self {
            dataset: home.name.clone(),
            measure: Measure::Count,
            number: named.map(|named| named.column.0.clone()),
            is_assumed: false,
            second: None,
            filters: Vec::new(),
            group: None,
            join: None,
        };
        plan.measure(question, home)?;
        plan.choose(&names::settled(&values, home), home);
        match plan.measure {
            Measure::Correlation => {
                let mut others = numbers.iter().filter(|other| other.shape.name == home.name);
                let second = others.nth(1).map(|other| other.column.0.clone());
                plan.second = Some(second.ok_or_else(|| Puzzle::numbers(home))?);
            }
            Measure::Distinct => {
                let all = std::slice::from_ref(home);
                let words = names::columns(question, all, |_, _| true);
                plan.second = Some(words.first().ok_or(Puzzle::Aim)?.column.0.clone());
            }
            _ => plan.group_by(question, shapes, home)?,
        }
        let is_aimless = question.measure.is_none() && plan.number.is_none();
        if is_aimless && plan.group.is_none() { Err(Puzzle::Aim) } else { Ok(plan) }
    }

    /// What is measured of which column.
    fn measure(&mut self, question: &Question, home: &Shape) -> Result<(), Puzzle> {
        let measures: Vec<&Column> = home.measures().collect();
        let is_compared = question.is_superlative && !question.counts(&home.name);
        self.measure = match question.measure {
            Some(measure) => measure,
            None if self.number.is_some() => Measure::Sum,
            None if is_compared && !measures.is_empty() => Measure::Sum,
            None => Measure::Count,
        };
        let needs_number = !matches!(self.measure, Measure::Count | Measure::Distinct);
        if needs_number && self.number.is_none() {
            let [only] = measures[..] else { return Err(Puzzle::numbers(home)) };
            self.number = Some(only.0.clone());
            self.is_assumed = true;
        }
        Ok(())
    }

    /// Only rows with these values.
    fn choose(&mut self, values: &[Named<'_>], home: &Shape) {
        for named in values {
            let Some(column) = self.reach(home, named.shape, named.column) else { continue };
            let value = named.value.to_owned();
            match self.filters.iter_mut().find(|filter| filter.column == column) {
                Some(filter) => filter.values.push(value),
                None => self.filters.push(Filter { column, values: vec![value] }),
            }
        }
    }

    fn group_by(
        &mut self,
        question: &Question,
        shapes: &[Shape],
        home: &Shape,
    ) -> Result<(), Puzzle> {
        let Some(grouping) = question.grouping() else {
            self.extreme(question);
            return Ok(());
        };
        let (number, filters) = (self.number.clone(), self.filters.clone());
        let is_one = |name: &String| {
            filters.iter().any(|filter| filter.column == *name && filter.values.len() == 1)
        };
        let fits = |shape: &Shape, column: &Column| {
            let is_home = shape.name == home.name;
            let is_measured = is_home && Some(&column.0) == number.as_ref();
            let name = if is_home { column.0.clone() } else { joined(shape, column) };
            !is_measured && !is_one(&name)
        };
        let mut strange = None;
        for words in &grouping {
            let mut found = names::groups(question, shapes, words, fits);
            found.extend(names::subjects(words, shapes));
            self.group = found.iter().find_map(|it| self.reach(home, it.shape, it.column));
            if self.group.is_some() {
                return Ok(());
            }
            // "The top amount", "deals of the north region, by Anna".
            let word = [words[0].to_owned()];
            if !self.names().iter().any(|name| meant(name, &word) > 0) {
                strange.get_or_insert_with(|| words.join(" "));
            }
        }
        if grouping.is_empty() {
            // "Who": any column may say.
            let found = names::columns(question, shapes, fits);
            self.group = found.iter().find_map(|it| self.reach(home, it.shape, it.column));
            strange = self.group.is_none().then(|| "who".to_owned());
        }
        if let Some(words) = strange {
            return Err(Puzzle::Group(words));
        }
        if self.group.is_none() {
            self.extreme(question);
        }
        Ok(())
    }

    /// "The highest amount", of all rows.
    fn extreme(&mut self, question: &Question) {
        if question.measure.is_none() && question.is_superlative && self.number.is_some() {
            self.measure = if question.is_ascending { Measure::Min } else { Measure::Max };
        }
    }

    /// What a column is called once its dataset is joined, if it can be.
    fn reach(&mut self, home: &Shape, shape: &Shape, column: &Column) -> Option<String> {
        if shape.name == home.name {
            return Some(column.0.clone());
        }
        if self.join.as_ref().is_some_and(|join| join.name != shape.name) {
            return None;
        }
        let (left, right) = names::bridge(home, shape)?;
        self.join = Some(Join { name: shape.name.clone(), left, right });
        Some(joined(shape, column))
    }

    /// Everything in the data that it uses.
    pub(super) fn names(&self) -> Vec<&str> {
        let filters = self.filters.iter().flat_map(|filter| {
            filter.values.iter().map(String::as_str).chain([filter.column.as_str()])
        });
        let columns = [&self.number, &self.second, &self.group].into_iter().flatten();
        let join = self.join.iter().map(|join| join.name.as_str());
        let all = columns.map(String::as_str).chain(join).chain([self.dataset.as_str()]);
        all.chain(filters).collect()
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let of = match (&self.number, &self.second) {
            (Some(number), Some(second)) if self.measure == Measure::Correlation => {
                format!("the correlation of `{number}` and `{second}`")
            }
            (Some(number), _) => format!("the {} of `{number}`", self.measure.word()),
            (None, Some(column)) => format!("how many different `{column}` there are"),
            (None, None) => "the number of rows".to_owned(),
        };
        let mut text = format!("{of} in `{}`", self.dataset);
        for (index, Filter { column, values }) in self.filters.iter().enumerate() {
            let word = if index == 0 { "where" } else { "and" };
            text += &format!(" {word} `{column}` is `{}`", values.join("` or `"));
        }
        if let Some(group) = &self.group {
            text += &format!(" for each `{group}`");
        }
        if let Some(Join { name, left, right }) = &self.join {
            text += &format!(", joined with `{name}` where `{left}` = `{name}.{right}`");
        }
        if self.is_assumed {
            text += " (no column of numbers is named, and this is the only one)";
        }
        text
    }
}

impl Puzzle {
    fn numbers(shape: &Shape) -> Self {
        Self::Number(shape.measures().map(|column| column.0.clone()).collect())
    }
}

fn joined(shape: &Shape, column: &Column) -> String {
    format!("{}.{}", shape.name, column.0)
}

#[cfg(test)]
mod tests;
