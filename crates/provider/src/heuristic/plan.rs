//! What to compute, decided by fixed rules, in this order.
//!
//! 1. A word of the question says the measure: "average", "how many".
//! 2. What is measured is the column of numbers that the question names; or else, if a
//!    measure or "most" needs one, the only one that its dataset has.
//! 3. Values that the question names, of columns with few of them, choose rows; so do
//!    times, of the only column of dates, and numbers that a column is compared with.
//! 4. Groups are made only if it asks for some: "by region", "which region", "by month".
//! 5. Every word of the question has to be accounted for by one of these.
//!
//! Where a rule needs something that the question does not name, or could take one of
//! several things for it, there is no plan.

mod describe;
mod groups;
mod rows;

use std::collections::BTreeSet;

use super::compare::Limit;
use super::cover;
use super::measure::Measure;
use super::names::{self, Candidate, Named};
use super::question::Question;
use super::shape::{Column, Kind, Shape};
use super::time::{Period, Unit};
use super::words::meant;

/// What to compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) dataset: String,
    pub(super) measure: Measure,
    /// More measures, if several are asked for.
    pub(super) also: Vec<Measure>,
    pub(super) number: Option<String>,
    /// Whether the number was not named, and is the only one.
    pub(super) is_assumed: bool,
    /// Another number, or the column whose values are counted.
    pub(super) second: Option<String>,
    /// Rows that have one of these values, in all of these columns.
    pub(super) filters: Vec<Filter>,
    /// Rows whose numbers are such, in all of these columns.
    pub(super) limits: Vec<Limit>,
    /// The column of dates that rows are chosen or grouped by.
    pub(super) date: Option<String>,
    pub(super) period: Option<Period>,
    /// Groups are made of these units of time.
    pub(super) unit: Option<Unit>,
    pub(super) groups: Vec<String>,
    /// The rows themselves are shown, sorted by the number.
    pub(super) has_rows: bool,
    /// Of rows or groups that are sorted, only this one is shown.
    pub(super) rank: Option<u64>,
    pub(super) join: Option<Join>,
    /// Places of words that have played their part.
    pub(super) used: BTreeSet<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) column: String,
    pub(super) values: Vec<String>,
    /// Rows that have another value.
    pub(super) is_not: bool,
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
    /// Which of these is meant.
    Doubt(Vec<String>),
    /// What to compute of this column.
    Measure(String),
    /// A time is named, and there is no column of dates.
    NoDate,
    /// Which of these months is meant.
    When(Vec<String>),
    /// What these words mean.
    Unclear(Vec<String>),
}

/// What "how many" counts.
enum Counted<'s> {
    /// Rows of this dataset, or of the one that is meant.
    Rows(Option<&'s Shape>),
    /// Different values.
    Distinct(Candidate<'s>),
    /// "How many units": the units themselves are numbers.
    Sum(Candidate<'s>),
    /// Nothing is counted.
    Nothing,
}

impl<'s> Counted<'s> {
    fn of(question: &Question, shapes: &'s [Shape], values: &[Named<'_>]) -> Result<Self, Puzzle> {
        if !matches!(question.measure, Some(Measure::Count | Measure::Distinct)) {
            return Ok(Self::Nothing);
        }
        let is_value =
            |at: &usize| values.iter().any(|named| (named.at..named.at + named.words).contains(at));
        let words = question.counted().into_iter().filter(|at| !is_value(at));
        let words: Vec<String> = words.map(|at| question.words[at].clone()).collect();
        if words.is_empty() {
            return Ok(Self::Rows(None));
        }
        let is_noun = |shape: &Shape| words.iter().any(|word| shape.is_noun(word));
        let score = |shape: &&Shape| (meant(&shape.name, &words), is_noun(shape));
        let named = shapes.iter().max_by_key(score);
        let named = named.filter(|shape| meant(&shape.name, &words) >= 50 || is_noun(shape));
        if question.measure == Some(Measure::Count)
            && let Some(shape) = named
        {
            return Ok(Self::Rows(Some(shape)));
        }
        let own = Question::of(&words.join(" "));
        let found = names::columns(&own, shapes, |_, _| true);
        match names::best(&found)[..] {
            [] => Err(Puzzle::Group(words.join(" "))),
            [one] if question.measure == Some(Measure::Count) && one.column.is_measure() => {
                Ok(Self::Sum(one))
            }
            // "Exams" are no different `exam_date`.
            [one] if !names::is_named_by(one.column, &words) => {
                Err(Puzzle::Doubt(vec![one.column.0.clone()]))
            }
            [one] => Ok(Self::Distinct(one)),
            ref several => {
                Err(Puzzle::Doubt(several.iter().map(|it| it.column.0.clone()).collect()))
            }
        }
    }
}

impl Plan {
    pub(super) fn make(question: &Question, shapes: &[Shape]) -> Result<Self, Puzzle> {
        let plan = Self::draft(question, shapes)?;
        if let Some(word) = question.second_step() {
            return Err(Puzzle::Unclear(vec![word.to_owned()]));
        }
        let unclear = cover::unclear(question, &plan);
        if unclear.is_empty() { Ok(plan) } else { Err(Puzzle::Unclear(unclear)) }
    }

    /// What the words that are understood ask for.
    fn draft(question: &Question, shapes: &[Shape]) -> Result<Self, Puzzle> {
        let values = names::values(question, shapes);
        let counted = Counted::of(question, shapes, &values)?;
        let is_number = |_: &Shape, column: &Column| column.1 == Kind::Number && !column.is_id();
        let numbers = match counted {
            Counted::Sum(column) => vec![column],
            Counted::Rows(_) | Counted::Distinct(_) => Vec::new(),
            Counted::Nothing => names::columns(question, shapes, is_number),
        };
        let is_compared = |shape: &Shape, column: &Column| {
            let columns = question.comparisons.iter().map(|it| it.column(question, shape));
            columns.flatten().any(|compared| std::ptr::eq(compared, column))
        };
        let (compared, numbers): (Vec<_>, Vec<_>) =
            numbers.into_iter().partition(|it| is_compared(it.shape, it.column));
        // "Total revenue over 100": of each row, or of all?
        if numbers.is_empty() && !compared.is_empty() {
            let places = question.comparisons.iter().flat_map(|it| it.at.clone());
            let words = places.map(|at| question.words[at].clone());
            return Err(Puzzle::Unclear(words.collect()));
        }
        let home = match (&counted, numbers.first()) {
            (Counted::Rows(Some(shape)), _) => shape,
            (Counted::Distinct(column), _) => column.shape,
            (_, Some(number)) => number.shape,
            (_, None) => names::dataset(question, shapes, &values).ok_or(Puzzle::Nothing)?,
        };
        let mut plan = Self {
            dataset: home.name.clone(),
            measure: Measure::Count,
            also: question.measures.clone(),
            number: None,
            is_assumed: false,
            second: None,
            filters: Vec::new(),
            limits: Vec::new(),
            date: None,
            period: None,
            unit: None,
            groups: Vec::new(),
            has_rows: false,
            rank: question.rank,
            join: None,
            used: BTreeSet::new(),
        };
        let nouns = question.words.iter().enumerate().filter(|(_, word)| home.is_noun(word));
        plan.used.extend(nouns.map(|(at, _)| at));
        plan.number = plan.numbers(question, &numbers)?;
        plan.measure(question, &counted, home)?;
        plan.choose(question, &values, home)?;
        plan.times(question, home)?;
        if let Counted::Distinct(column) = counted {
            plan.second = Some(column.column.0.clone());
        }
        if plan.measure != Measure::Correlation {
            plan.group_by(question, shapes, home)?;
        }
        plan.compare(question, home)?;
        plan.check_sum(question, home)?;
        let is_aimless = question.measure.is_none() && plan.number.is_none();
        let has_groups = plan.has_groups();
        if is_aimless && !has_groups { Err(Puzzle::Aim) } else { Ok(plan) }
    }

    /// The column that is measured, of those that are named; two for a correlation.
    fn numbers(
        &mut self,
        question: &Question,
        numbers: &[Candidate<'_>],
    ) -> Result<Option<String>, Puzzle> {
        let Some(first) = numbers.first() else { return Ok(None) };
        if question.measure == Some(Measure::Correlation) {
            let mut others = numbers.iter().filter(|other| other.shape.name == first.shape.name);
            let second = others.nth(1).ok_or_else(|| Puzzle::numbers(first.shape))?;
            if others.next().is_some_and(|third| third.score == second.score) {
                return Err(Puzzle::numbers(first.shape));
            }
            self.second = Some(second.column.0.clone());
            return Ok(Some(first.column.0.clone()));
        }
        match &names::best(numbers)[..] {
            [one] => Ok(Some(one.column.0.clone())),
            several => Err(Puzzle::Doubt(several.iter().map(|it| it.column.0.clone()).collect())),
        }
    }

    /// What is measured of which column.
    fn measure(
        &mut self,
        question: &Question,
        counted: &Counted<'_>,
        home: &Shape,
    ) -> Result<(), Puzzle> {
        let measures: Vec<&Column> = home.measures().collect();
        let counts = question.counts(home);
        // "The most sales" may be rows, or what was paid.
        if counts && home.name.to_lowercase().contains("sale") && !measures.is_empty() {
            return Err(Puzzle::numbers(home));
        }
        let is_compared = question.is_superlative && !counts;
        self.measure = match (counted, question.measure) {
            (Counted::Sum(_), _) => Measure::Sum,
            (Counted::Distinct(_), _) => Measure::Distinct,
            (_, Some(measure)) => measure,
            (_, None) if self.number.is_some() => Measure::Sum,
            (_, None) if is_compared && !measures.is_empty() => Measure::Sum,
            (_, None) => Measure::Count,
        };
        let needs_number = !matches!(self.measure, Measure::Count | Measure::Distinct);
        if needs_number && self.number.is_none() {
            let [only] = measures[..] else { return Err(Puzzle::numbers(home)) };
            if self.measure == Measure::Correlation {
                return Err(Puzzle::numbers(home));
            }
            self.number = Some(only.0.clone());
            self.is_assumed = true;
        }
        Ok(())
    }

    /// A sum that nobody asked for must be one that means something.
    fn check_sum(&self, question: &Question, home: &Shape) -> Result<(), Puzzle> {
        let is_guessed = question.measure.is_none() && self.measure == Measure::Sum;
        let column = self.number.as_ref().and_then(|name| home.column(name));
        match column {
            Some(column) if is_guessed && !self.has_rows && !column.is_additive() => {
                Err(Puzzle::Measure(column.0.clone()))
            }
            // "The highest amount by owner": of one row, or of all?
            Some(column)
                if is_guessed && self.has_groups() && question.is_extreme_of(&column.0) =>
            {
                Err(Puzzle::Measure(column.0.clone()))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn has_groups(&self) -> bool {
        !self.groups.is_empty() || self.unit.is_some()
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
