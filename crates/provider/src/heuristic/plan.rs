//! What to compute, decided by fixed rules, in this order.
//!
//! 1. A word of the question says the measure: "average", "how many".
//! 2. What is measured is the column of numbers that the question names; or else, if a
//!    measure or "most" needs one, the only one that its dataset has.
//! 3. Values that the question names, of columns with few of them, choose rows; so do
//!    times, of the only column of dates.
//! 4. Groups are made only if it asks for some: "by region", "which region", "by month".
//! 5. Every word of the question has to be accounted for by one of these.
//!
//! Where a rule needs something that the question does not name, or could take one of
//! several things for it, there is no plan.

use super::cover;
use super::names::{self, Candidate, Named};
use super::question::{Measure, Question};
use super::shape::{Column, Kind, Shape};
use super::time::{Period, Unit};
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
    /// The column of dates that rows are chosen or grouped by.
    pub(super) date: Option<String>,
    pub(super) period: Option<Period>,
    /// Groups are made of these units of time.
    pub(super) unit: Option<Unit>,
    pub(super) group: Option<String>,
    /// The rows themselves are shown, sorted by the number.
    pub(super) has_rows: bool,
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
        let score = |shape: &&Shape| meant(&shape.name, &words);
        let named = shapes.iter().max_by_key(score).filter(|shape| score(shape) >= 50);
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
        let home = match (&counted, numbers.first()) {
            (Counted::Rows(Some(shape)), _) => shape,
            (Counted::Distinct(column), _) => column.shape,
            (_, Some(number)) => number.shape,
            (_, None) => names::dataset(question, shapes, &values).ok_or(Puzzle::Nothing)?,
        };
        let mut plan = Self {
            dataset: home.name.clone(),
            measure: Measure::Count,
            number: None,
            is_assumed: false,
            second: None,
            filters: Vec::new(),
            date: None,
            period: None,
            unit: None,
            group: None,
            has_rows: false,
            join: None,
        };
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
        plan.check_sum(question, home)?;
        let is_aimless = question.measure.is_none() && plan.number.is_none();
        let has_groups = plan.group.is_some() || plan.unit.is_some();
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
        let counts = question.counts(&home.name);
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

    /// Only rows with these values.
    fn choose(
        &mut self,
        question: &Question,
        values: &[Named<'_>],
        home: &Shape,
    ) -> Result<(), Puzzle> {
        for named in names::settled(question, values, home) {
            let others = names::doubtful(question, values, &named);
            if !others.is_empty() {
                let all = [named.column].into_iter().chain(others);
                return Err(Puzzle::Doubt(all.map(|column| column.0.clone()).collect()));
            }
            let Some(column) = self.reach(home, named.shape, named.column) else { continue };
            let value = named.value.to_owned();
            match self.filters.iter_mut().find(|filter| filter.column == column) {
                Some(filter) => filter.values.push(value),
                None => self.filters.push(Filter { column, values: vec![value] }),
            }
        }
        Ok(())
    }

    /// Only rows of these times, and groups of them.
    fn times(&mut self, question: &Question, home: &Shape) -> Result<(), Puzzle> {
        let mut time = question.time.clone();
        // A column that is called "month" is meant by that.
        let word = time.unit_word(&question.words);
        if word.is_some_and(|word| names::is_whole(home, &[word])) {
            time.forget_unit();
        }
        if time.is_empty() {
            return Ok(());
        }
        let dates: Vec<&Column> = home.columns.iter().filter(|it| it.1 == Kind::Date).collect();
        let is_named = |column: &&&Column| meant(&column.0, &question.words) >= 50;
        let named: Vec<&Column> = dates.iter().filter(is_named).copied().collect();
        let column = match (&named[..], &dates[..]) {
            ([one], _) | ([], [one]) => *one,
            (_, []) => return Err(Puzzle::NoDate),
            _ => return Err(Puzzle::Doubt(dates.iter().map(|it| it.0.clone()).collect())),
        };
        let (first, last) = column.range().ok_or(Puzzle::NoDate)?;
        self.date = Some(column.0.clone());
        self.unit = time.unit;
        self.period = match time.spans[..] {
            [] => None,
            [span] => Some(span.resolve(first, last).map_err(Puzzle::When)?),
            _ => return Err(Puzzle::When(vec![])),
        };
        Ok(())
    }

    fn group_by(
        &mut self,
        question: &Question,
        shapes: &[Shape],
        home: &Shape,
    ) -> Result<(), Puzzle> {
        let grouping = question.grouping();
        let Some(grouping) = grouping.filter(|words| !words.is_empty() || self.unit.is_none())
        else {
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
            // "Top 5 orders", of orders: the rows themselves, unless they are counted.
            let of_rows = [words[0].to_owned()];
            let are_rows = meant(&home.name, &of_rows) > 0 && !names::is_whole(home, words);
            if are_rows && self.number.is_some() && question.measure.is_none() {
                self.has_rows = true;
                continue;
            }
            let mut found = names::groups(question, shapes, words, fits);
            // What a dataset has itself needs no other.
            found.sort_by_key(|it| (std::cmp::Reverse(it.score), it.shape.name != home.name));
            let best = names::best(&found);
            let own = best.iter().filter(|it| it.shape.name == home.name).count();
            if own > 1 || (own == 0 && best.len() > 1) {
                let names = best.iter().map(|it| it.column.0.clone());
                return Err(Puzzle::Doubt(names.collect()));
            }
            found.extend(names::subjects(words, shapes));
            let group = found.iter().find_map(|it| self.reach(home, it.shape, it.column));
            if group.is_some() {
                self.group = self.group.take().or(group);
                continue;
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
        if self.group.is_none() && self.unit.is_none() && !self.has_rows {
            self.extreme(question);
        }
        Ok(())
    }

    /// "The highest amount", of all rows.
    fn extreme(&mut self, question: &Question) {
        let is_free = question.measure.is_none() && self.unit.is_none();
        if is_free && question.is_superlative && self.number.is_some() {
            self.measure = if question.is_ascending { Measure::Min } else { Measure::Max };
        }
    }

    /// A sum that nobody asked for must be one that means something.
    fn check_sum(&self, question: &Question, home: &Shape) -> Result<(), Puzzle> {
        let is_guessed = question.measure.is_none() && self.measure == Measure::Sum;
        let column = self.number.as_ref().and_then(|name| home.column(name));
        match column {
            Some(column) if is_guessed && !self.has_rows && !column.is_additive() => {
                Err(Puzzle::Measure(column.0.clone()))
            }
            _ => Ok(()),
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
        let columns = [&self.number, &self.second, &self.group, &self.date].into_iter().flatten();
        let join = self.join.iter().map(|join| join.name.as_str());
        let all = columns.map(String::as_str).chain(join).chain([self.dataset.as_str()]);
        all.chain(filters).collect()
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let of = match (&self.number, &self.second) {
            (Some(number), _) if self.has_rows => format!("the first rows by `{number}`"),
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
        if let (Some(date), Some(period)) = (&self.date, &self.period) {
            let word = if self.filters.is_empty() { "where" } else { "and" };
            text += &format!(" {word} `{date}` is {}", period.describe());
        }
        if let Some(group) = &self.group {
            text += &format!(" for each `{group}`");
        }
        if let (Some(date), Some(unit)) = (&self.date, self.unit) {
            text += &format!(" for each {} of `{date}`", unit.word());
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
