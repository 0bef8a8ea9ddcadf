//! Which rows are meant: those with a value, with a number, or of a time.

use super::super::names::{self, Named};
use super::super::question::{BY, NOT, Question, WHICH};
use super::super::shape::{Column, Kind, Shape};
use super::super::words::{likeness, meant, split};
use super::{Filter, Limit, Measure, Plan, Puzzle};

/// What happens on a day, besides what ends in "-ed".
const EVENTS: [&str; 8] = ["won", "lost", "sold", "paid", "sent", "bought", "left", "done"];

impl Plan {
    /// Only rows with these values, or without them.
    pub(super) fn choose(
        &mut self,
        question: &Question,
        values: &[Named<'_>],
        home: &Shape,
    ) -> Result<(), Puzzle> {
        let mut settled = names::settled(question, values, home);
        settled.sort_by_key(|named| named.at);
        let mut last: Option<(Named<'_>, bool)> = None;
        for named in settled {
            let others = names::doubtful(question, values, &named);
            if !others.is_empty() {
                let mut all: Vec<String> = vec![named.column.0.clone()];
                all.extend(others.iter().map(|column| column.0.clone()));
                all.dedup();
                return Err(Puzzle::Doubt(all));
            }
            let Some(column) = self.reach(home, named.shape, named.column) else { continue };
            let is_joined = last.as_ref().filter(|(last, is_not)| {
                let between =
                    question.words.get(last.at + last.words..named.at).unwrap_or_default();
                *is_not && between.iter().any(|word| word == "and" || word == "or")
            });
            let is_not = match (self.negation(question, named.at), is_joined) {
                (Some(at), _) => {
                    self.used.insert(at);
                    true
                }
                // "Not in Berlin or Vienna"; "not in Berlin or open" can mean several things.
                (None, Some((last, _))) if std::ptr::eq(last.column, named.column) => true,
                (None, Some(_)) => return Err(Puzzle::Unclear(vec!["not".to_owned()])),
                (None, None) => false,
            };
            self.used.extend(named.at..named.at + named.words);
            // "Won or lost": values of one column. Of two columns, both would be demanded.
            if let Some((last, _)) = &last
                && std::ptr::eq(last.column, named.column)
            {
                let between = last.at + last.words..named.at;
                // A way from one to the other is none of both.
                if question.words[between.clone()].iter().any(|word| word == "to") {
                    return Err(Puzzle::Unclear(vec!["to".to_owned()]));
                }
                self.used.extend(between.filter(|at| question.words[*at] == "or"));
            }
            // "By email".
            self.used.extend(question.before(named.at).filter(|at| question.words[*at] == "by"));
            let value = named.value.to_owned();
            let mut filters = self.filters.iter_mut();
            match filters.find(|filter| (&filter.column, filter.is_not) == (&column, is_not)) {
                Some(filter) => filter.values.push(value),
                None => self.filters.push(Filter { column, values: vec![value], is_not }),
            }
            last = Some((named, is_not));
        }
        self.choose_by_yes(question, home);
        Ok(())
    }

    /// "Cancelled flights", of a column `cancelled` that says yes or no.
    fn choose_by_yes(&mut self, question: &Question, home: &Shape) {
        for column in &home.columns {
            let Some((yes, no)) = column.yes_and_no() else { continue };
            let name: Vec<String> = split(&column.0).into_iter().filter(|it| it != "is").collect();
            let [name] = &name[..] else { continue };
            let Some(at) = question.words.iter().position(|word| word == name) else { continue };
            let before = question.before(at).map(|before| question.words[before].as_str());
            let is_group = before.is_some_and(|word| BY.contains(&word) || WHICH.contains(&word));
            if is_group || self.filters.iter().any(|filter| filter.column == column.0) {
                continue;
            }
            let negation = self.negation(question, at);
            self.used.extend(negation.into_iter().chain([at]));
            let value = if negation.is_some() { no } else { yes };
            let values = vec![value.to_owned()];
            self.filters.push(Filter { column: column.0.clone(), values, is_not: false });
        }
    }

    /// The place of the "not" that the word here is subject to.
    fn negation(&self, question: &Question, at: usize) -> Option<usize> {
        let before = question.before(at)?;
        let is_not = NOT.contains(&question.words[before].as_str());
        (is_not && !self.used.contains(&before)).then_some(before)
    }

    /// Only rows with numbers such as these. Whether a sum is compared, or what it is made of, the
    /// question has to leave no doubt.
    pub(super) fn compare(&mut self, question: &Question, home: &Shape) -> Result<(), Puzzle> {
        let is_list = question.wants_names || self.measure == Measure::Distinct || self.has_rows;
        let is_grouped = !self.groups.is_empty() || self.unit.is_some();
        for comparison in &question.comparisons {
            let words = || Puzzle::Unclear(question.words[comparison.at.clone()].to_vec());
            let column = comparison.column(question, home).ok_or_else(words)?;
            let is_measured = self.number.as_ref() == Some(&column.0);
            if is_measured || is_list || (is_grouped && self.number.is_some()) {
                return Err(words());
            }
            self.used.extend(comparison.at.clone());
            self.limits.push(Limit {
                column: column.0.clone(),
                operator: comparison.operator,
                numbers: comparison.numbers.clone(),
            });
        }
        Ok(())
    }

    /// Only rows of these times, and groups of them.
    pub(super) fn times(&mut self, question: &Question, home: &Shape) -> Result<(), Puzzle> {
        let dates: Vec<&Column> = home.columns.iter().filter(|it| it.1 == Kind::Date).collect();
        // All tickets were `opened`: that chooses none.
        for (at, word) in question.words.iter().enumerate() {
            let is_part =
                |column: &&&Column| split(&column.0).iter().any(|it| likeness(it, word) == 100);
            if word.ends_with("ed") && dates.iter().find(is_part).is_some_and(|date| date.4 == 0) {
                self.used.insert(at);
            }
        }
        let mut time = question.time.clone();
        // A column that is called "month" is meant by that.
        let word = time.unit_word(&question.words);
        if word.is_some_and(|word| names::is_whole(home, &[word])) {
            time.forget_unit();
        }
        if time.is_empty() {
            return Ok(());
        }
        let is_named = |column: &&&Column| meant(&column.0, &question.words) >= 50;
        let named: Vec<&Column> = dates.iter().filter(is_named).copied().collect();
        let column = match (&named[..], &dates[..]) {
            ([one], _) | ([], [one]) => *one,
            (_, []) => return Err(Puzzle::NoDate),
            _ => return Err(Puzzle::Doubt(dates.iter().map(|it| it.0.clone()).collect())),
        };
        // "Tickets closed in May", of a column `opened`: that is another day.
        let is_event = |word: &str| word.ends_with("ed") || EVENTS.contains(&word);
        let own = split(&column.0);
        let before = time.used.iter().find_map(|at| question.before(*at));
        let before = before.map_or("", |at| question.words[at].as_str());
        if is_event(before)
            && own.iter().any(|part| is_event(part))
            && !own.contains(&before.into())
        {
            return Err(Puzzle::Unclear(vec![before.to_owned()]));
        }
        let (first, last) = column.range().ok_or(Puzzle::NoDate)?;
        self.date = Some(column.0.clone());
        self.unit = time.unit;
        self.period = match time.spans[..] {
            [] => None,
            [span] => Some(span.resolve(first, last).map_err(Puzzle::When)?),
            _ => return Err(Puzzle::When(vec![])),
        };
        self.used.extend(time.used);
        Ok(())
    }
}
