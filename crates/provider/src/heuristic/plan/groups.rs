//! What groups are made of, or whether rows are shown themselves.

use super::super::names;
use super::super::question::Question;
use super::super::shape::{Column, Kind, Shape};
use super::super::words::meant;
use super::{Measure, Plan, Puzzle, joined};

impl Plan {
    pub(super) fn group_by(
        &mut self,
        question: &Question,
        shapes: &[Shape],
        home: &Shape,
    ) -> Result<(), Puzzle> {
        let is_one = self.number.as_ref().is_some_and(|number| {
            question.compares_rows(home, number)
                // "The second highest salary".
                || (question.rank.is_some() && !question.wants_names && self.unit.is_none())
        });
        self.has_rows = is_one && question.measure.is_none();
        let grouping = question.grouping();
        let Some(grouping) = grouping.filter(|words| !words.is_empty() || self.unit.is_none())
        else {
            self.extreme(question);
            return Ok(());
        };
        let (number, filters) = (self.number.clone(), self.filters.clone());
        let is_one = |name: &String| {
            let mut chosen = filters.iter().filter(|filter| !filter.is_not);
            chosen.any(|filter| filter.column == *name && filter.values.len() == 1)
        };
        let fits = |shape: &Shape, column: &Column| {
            let is_home = shape.name == home.name;
            let is_measured = is_home && Some(&column.0) == number.as_ref();
            let name = if is_home { column.0.clone() } else { joined(shape, column) };
            let is_amount = column.is_measure() && column.is_additive();
            !is_measured && !is_amount && !is_one(&name)
        };
        let mut strange = None;
        for words in &grouping {
            if self.are_rows(question, words, home) {
                continue;
            }
            let mut found = names::groups(question, shapes, words, fits);
            // "Which customer opened": the day is not what is asked for.
            if found.iter().any(|it| it.column.1 != Kind::Date) {
                found.retain(|it| it.column.1 != Kind::Date);
            }
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
            if let Some(group) = group {
                if !self.groups.contains(&group) {
                    self.groups.push(group);
                }
                continue;
            }
            // "The top amount", "deals of the north region, by Anna".
            let word = [words[0].to_owned()];
            if !self.names().iter().any(|name| meant(name, &word) > 0) {
                strange.get_or_insert_with(|| words.join(" "));
            }
        }
        if grouping.is_empty() && !self.has_rows {
            self.who(question, shapes, home, fits)?;
        }
        if let Some(words) = strange {
            return Err(Puzzle::Group(words));
        }
        if self.groups.is_empty() && self.unit.is_none() && !self.has_rows {
            self.extreme(question);
        }
        Ok(())
    }

    /// Whether these words name the rows, and no groups of them.
    fn are_rows(&mut self, question: &Question, words: &[&str], home: &Shape) -> bool {
        if !home.is_noun(words[0]) || names::is_whole(home, words) {
            return false;
        }
        match question.measure {
            // "Top 5 orders", of orders.
            None if self.number.is_some() => {
                self.has_rows = true;
                true
            }
            // "Top 5 customers by orders", or by the number of them.
            None | Some(Measure::Count) => !self.groups.is_empty(),
            // The mean of each order is that of all of them.
            Some(Measure::Mean | Measure::Median) => words.len() == 1 && !question.wants_names,
            Some(_) => false,
        }
    }

    /// "Who": the rows themselves, if each has a name; or else any column may say.
    fn who(
        &mut self,
        question: &Question,
        shapes: &[Shape],
        home: &Shape,
        fits: impl Fn(&Shape, &Column) -> bool,
    ) -> Result<(), Puzzle> {
        let is_name = |column: &Column| column.2 == home.rows && column.1 == Kind::Word;
        let is_measured = question.measure.is_none() && self.number.is_some() && !self.is_assumed;
        // What is not added up belongs to single rows.
        let number = self.number.as_ref().and_then(|name| home.column(name));
        let is_single = question.is_superlative && number.is_some_and(|it| !it.is_additive());
        if is_measured && (is_single || home.column("name").is_some_and(is_name)) {
            self.has_rows = true;
            return Ok(());
        }
        let is_name =
            |shape: &Shape, column: &Column| column.1 == Kind::Word && fits(shape, column);
        let found = names::columns(question, shapes, is_name);
        let group = found.iter().find_map(|it| self.reach(home, it.shape, it.column));
        self.groups.extend(group);
        if self.groups.is_empty() { Err(Puzzle::Group("who".to_owned())) } else { Ok(()) }
    }

    /// "The highest amount", of all rows.
    fn extreme(&mut self, question: &Question) {
        let is_free = question.measure.is_none() && self.unit.is_none() && !self.has_rows;
        if is_free && question.is_superlative && self.number.is_some() {
            self.measure = if question.is_ascending { Measure::Min } else { Measure::Max };
        }
    }
}
