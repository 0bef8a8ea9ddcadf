//! What is asked, as far as rules can tell.

use super::compare::{self, Comparison};
use super::lexer::tokens;
use super::measure::Measure;
use super::shape::Shape;
use super::time::Time;
use super::words::{is_filler, is_small, split};
use crate::conversation::{Block, Conversation, Role};

/// More than one screen of groups is no answer.
const MOST_GROUPS: u64 = 50;
/// Of those that are compared, the first ones are.
const MOST_NAMES: u64 = 10;

/// What follows these is what groups are made of.
pub(super) const BY: [&str; 6] = ["by", "per", "each", "every", "across", "within"];
/// The same, and the answer names some of the groups.
pub(super) const WHICH: [&str; 6] = ["which", "top", "bottom", "best", "worst", "rank"];
pub(super) const WHO: [&str; 2] = ["who", "whose"];
const ORDINALS: [(&str, u64); 8] = [
    ("second", 2),
    ("third", 3),
    ("fourth", 4),
    ("fifth", 5),
    ("2nd", 2),
    ("3rd", 3),
    ("4th", 4),
    ("5th", 5),
];

pub(super) const HIGHEST: [&str; 8] =
    ["most", "highest", "largest", "biggest", "greatest", "best", "top", "longest"];
pub(super) const LOWEST: [&str; 9] =
    ["least", "lowest", "smallest", "fewest", "worst", "bottom", "shortest", "minimum", "cheapest"];
/// These are said of how many there are, the others of one of them.
const AMOUNTS: [&str; 3] = ["most", "least", "fewest"];
pub(super) const DIFFERENT: [&str; 3] = ["different", "distinct", "unique"];
/// "Most common": what there are most rows of.
const COMMON: [&str; 2] = ["common", "frequent"];
/// What rows must not have follows these.
pub(super) const NOT: [&str; 4] = ["not", "except", "excluding", "without"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) text: String,
    /// Its words, in order.
    pub(super) words: Vec<String>,
    /// None: no word says.
    pub(super) measure: Option<Measure>,
    /// "Average and median": all of them; none unless there are several.
    pub(super) measures: Vec<Measure>,
    /// "Most", "lowest": something is compared.
    pub(super) is_superlative: bool,
    /// The smallest first.
    pub(super) is_ascending: bool,
    /// "Which deals …": the answer names some.
    pub(super) wants_names: bool,
    /// How many groups or rows to show.
    pub(super) most: u64,
    /// "The second highest": only that one is shown.
    pub(super) rank: Option<u64>,
    pub(super) comparisons: Vec<Comparison>,
    pub(super) time: Time,
}

impl Question {
    /// The first message begins with it, after what "now" is and what may be spent.
    /// What follows it in the same message, such as warnings, is no part of it.
    pub(super) fn read(conversation: &Conversation) -> Self {
        let mut messages = conversation.messages.iter();
        let first = messages.find(|message| message.role == Role::User);
        let text = first.and_then(|first| {
            first.blocks.iter().find_map(|block| match block {
                Block::Text { text } => Some(text.as_str()),
                _ => None,
            })
        });
        let whole = text.unwrap_or_default();
        let text = whole.split_once("Question:").map_or(whole, |(_, question)| question);
        Self::of(text.trim())
    }

    pub(super) fn of(text: &str) -> Self {
        let words = tokens(text);
        let comparisons = compare::read(&words);
        // "At least 3" is no superlative, and its number is no year.
        let mut plain = words.clone();
        for at in comparisons.iter().flat_map(|comparison| comparison.at.clone()) {
            plain[at].clear();
        }
        let has = |any: &[&str]| plain.iter().any(|word| any.contains(&word.as_str()));
        let most = (0..plain.len()).find(|at| is_most(&plain, *at));
        let most = most.and_then(|at| plain[at].parse().ok());
        let has_best = (0..plain.len()).any(|at| has_best(&plain, at));
        let wants_names = has(&WHICH) || has(&WHO) || is_common(&plain) || has_best;
        let usual = if wants_names && !has(&["rank"]) { MOST_NAMES } else { MOST_GROUPS };
        Self {
            measures: Measure::all(&plain),
            is_superlative: has(&HIGHEST) || has(&LOWEST),
            is_ascending: has(&LOWEST),
            wants_names,
            most: most.unwrap_or(usual).clamp(1, MOST_GROUPS),
            rank: plain.windows(2).find_map(|pair| rank(&pair[0], &pair[1])),
            time: Time::read(&plain),
            measure: Measure::of(&plain),
            text: text.to_owned(),
            comparisons,
            words,
        }
    }

    /// Whether a word is part of a comparison.
    pub(super) fn is_compared(&self, at: usize) -> bool {
        self.comparisons.iter().any(|comparison| comparison.at.contains(&at))
    }

    /// Whether the word at a place says "most", or the like.
    fn is_extreme(&self, at: usize) -> bool {
        let word = self.words[at].as_str();
        (HIGHEST.contains(&word) || LOWEST.contains(&word)) && !self.is_compared(at)
    }

    /// "The average of the top 5": first these have to be found. "By region, the top 5 first" is
    /// only an order.
    pub(super) fn second_step(&self) -> Option<&str> {
        let measure = self.words.iter().position(|word| Measure::says(word))?;
        let is_order = |at: usize| at + 1 < self.words.len() && self.is_order(at + 1);
        let mut later = (measure + 1..self.words.len()).filter(|at| self.is_extreme(*at));
        let at = later.find(|at| !is_order(*at) && !Measure::says(&self.words[*at]))?;
        let is_by = |word: &String| BY.contains(&word.as_str());
        (!self.words[measure..at].iter().any(is_by)).then(|| self.words[at].as_str())
    }

    /// "The largest deals", "second longest flight": rows themselves are compared.
    pub(super) fn compares_rows(&self, home: &Shape, number: &str) -> bool {
        let number = split(number);
        (0..self.words.len()).any(|at| {
            let is_one = self.is_extreme(at) && !AMOUNTS.contains(&self.words[at].as_str());
            let rest = self.words[at + 1..].iter().find(|word| !is_digits(word));
            // The lowest score of `scores` is a number.
            is_one && rest.is_some_and(|noun| home.is_noun(noun) && !number.contains(noun))
        })
    }

    /// The words that say what groups are made of: each of "by region", and both of
    /// "which sales rep". None: there are to be no groups.
    pub(super) fn grouping(&self) -> Option<Vec<Vec<&str>>> {
        let mut found = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            let word = word.as_str();
            if has_best(&self.words, at) && !self.is_compared(at + 1) {
                let before = self.words[..at].iter().rev().take_while(|word| !is_small(word));
                let mut before: Vec<&str> = before.take(3).map(String::as_str).collect();
                before.reverse();
                found.push(before);
            }
            let is_common = COMMON.contains(&word) && at > 0 && self.words[at - 1] == "most";
            if BY.contains(&word) || WHICH.contains(&word) || is_common {
                let rest = (at + 1..self.words.len()).skip_while(|at| {
                    let word = &self.words[*at];
                    is_small(word) || is_digits(word)
                });
                let rest = rest.take_while(|at| !is_small(&self.words[*at])).take(3);
                let rest: Vec<usize> = rest.collect();
                let is_free = |at: &usize| !self.time.used.contains(at) && !self.is_compared(*at);
                let words = rest.iter().copied().filter(is_free).map(|at| self.words[at].as_str());
                found.push(words.collect());
                // "By region and product".
                let next = rest.last().map_or(self.words.len(), |last| last + 1);
                if BY.contains(&word) && self.words.get(next).is_some_and(|word| word == "and") {
                    let more =
                        (next + 1..self.words.len()).take_while(|at| !is_small(&self.words[*at]));
                    let more = more.filter(is_free).map(|at| self.words[at].as_str());
                    found.push(more.take(3).collect());
                }
            }
        }
        found.retain(|words: &Vec<&str>| !words.is_empty());
        (self.wants_names || !found.is_empty()).then_some(found)
    }

    /// Places of the words that say what is counted: "orders" of "how many orders".
    pub(super) fn counted(&self) -> Vec<usize> {
        let word = |at: usize| self.words.get(at).map(String::as_str);
        let mut follows = (0..self.words.len()).filter(|at| match word(*at) {
            Some("many") => true,
            Some("of") => *at > 0 && ["number", "count"].contains(&self.words[*at - 1].as_str()),
            Some(word) => word == "count" || DIFFERENT.contains(&word),
            None => false,
        });
        let Some(start) = follows.next_back() else { return Vec::new() };
        let rest = (start + 1..self.words.len()).skip_while(|at| is_filler(&self.words[*at]));
        rest.take_while(|at| !is_small(&self.words[*at]) && !self.is_compared(*at)).collect()
    }

    /// Whether rows themselves are meant: "how many records", "the most deals".
    pub(super) fn counts(&self, home: &Shape) -> bool {
        let follows = |at: usize| {
            let rest = self.words[at + 1..].iter().take_while(|word| !is_small(word)).take(3);
            let is_amount = self.is_extreme(at) && AMOUNTS.contains(&self.words[at].as_str());
            is_amount && rest.into_iter().any(|word| home.is_noun(word))
        };
        self.measure.is_none() && (0..self.words.len()).any(follows)
    }

    /// Whether it asks how many rows there are, of whatever.
    pub(super) fn counts_rows(&self) -> bool {
        let rows = ["row", "record", "entry", "line", "observation"];
        self.measure == Some(Measure::Count)
            && self.words.iter().any(|word| rows.contains(&word.as_str()))
    }

    /// Whether the word at a place is how many groups are wanted.
    pub(super) fn is_most(&self, at: usize) -> bool {
        !self.is_compared(at) && is_most(&self.words, at)
    }

    /// "The highest amount", where no group is asked for that has it.
    pub(super) fn is_extreme_of(&self, number: &str) -> bool {
        let number = split(number);
        let is_extreme = |at: usize| {
            let is_amount = AMOUNTS.contains(&self.words[at].as_str());
            let next = self.words.get(at + 1);
            self.is_extreme(at) && !is_amount && next.is_some_and(|next| number.contains(next))
        };
        !self.wants_names && (0..self.words.len()).any(is_extreme)
    }

    /// Whether the word at a place only says how to sort: "highest first".
    pub(super) fn is_order(&self, at: usize) -> bool {
        self.words[at] == "first" && at > 0 && self.is_extreme(at - 1)
    }

    /// Whether the word at a place says which of those that are sorted is wanted.
    pub(super) fn is_rank(&self, at: usize) -> bool {
        self.words.get(at + 1).is_some_and(|next| rank(&self.words[at], next).is_some())
    }

    /// The place of the word before this one, other than those that change nothing.
    pub(super) fn before(&self, at: usize) -> Option<usize> {
        self.words[..at].iter().rposition(|word| !is_filler(word))
    }
}

/// "Region with the highest revenue".
fn has_best(words: &[String], at: usize) -> bool {
    let next = words[at + 1..].iter().find(|word| *word != "the").map(String::as_str);
    let is_extreme = next.is_some_and(|next| HIGHEST.contains(&next) || LOWEST.contains(&next));
    words[at] == "with" && is_extreme
}

/// "Top 5", "5 largest".
fn is_most(words: &[String], at: usize) -> bool {
    let is_extreme = |word: &String| {
        let word = word.as_str();
        let is_amount = AMOUNTS.contains(&word);
        !is_amount && (HIGHEST.contains(&word) || LOWEST.contains(&word) || word == "first")
    };
    let is_before = at > 0 && is_extreme(&words[at - 1]);
    let is_number = is_digits(&words[at]) && !words[at].is_empty();
    is_number && (is_before || words.get(at + 1).is_some_and(is_extreme))
}

fn rank(word: &str, next: &str) -> Option<u64> {
    let is_extreme = HIGHEST.contains(&next) || LOWEST.contains(&next);
    let (_, rank) = ORDINALS.iter().find(|(ordinal, _)| *ordinal == word && is_extreme)?;
    Some(*rank)
}

fn is_common(words: &[String]) -> bool {
    words.windows(2).any(|pair| pair[0] == "most" && COMMON.contains(&pair[1].as_str()))
}

pub(super) fn is_digits(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Message;

    #[test]
    fn measures_are_told_by_their_words() {
        for (text, want) in [
            ("What is the average fare?", Some(Measure::Mean)),
            ("How many deals are won?", Some(Measure::Count)),
            ("Number of activities per deal", Some(Measure::Count)),
            ("How many different owners are there?", Some(Measure::Distinct)),
            ("Total amount by region", Some(Measure::Sum)),
            ("Is age correlated with fare?", Some(Measure::Correlation)),
            ("Which rep sold the most?", None),
        ] {
            assert_eq!(Question::of(text).measure, want, "{text}");
        }
        assert!(Question::of("the lowest price").is_ascending);
        assert_eq!(Question::of("top 3 regions").most, 3);
        assert_eq!(Question::of("top 900 regions").most, 50);
    }

    #[test]
    fn groups_are_made_of_what_follows_certain_words() {
        let grouping = |text: &str| {
            let question = Question::of(text);
            let words = question.grouping();
            words.map(|all| all.into_iter().flatten().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(grouping("Total amount by region").unwrap(), ["region"]);
        assert_eq!(
            grouping("Which of the sales reps sold most?").unwrap(),
            ["sale", "rep", "sold"]
        );
        assert_eq!(grouping("Top 3 regions by amount").unwrap(), ["region", "amount"]);
        assert_eq!(grouping("Who sold most?").unwrap(), Vec::<String>::new());
        assert_eq!(grouping("What is the total amount of won deals?"), None);
    }

    #[test]
    fn what_else_the_first_message_says_is_no_part_of_the_question() {
        let first = "Now is Friday.\n\nBudget: 2 turns.\n\nQuestion: What about Question: 7?";
        let mut message = Message::user(first);
        message.blocks.push(Block::text("You have only 2 turns remaining. Call finish NOW."));
        let conversation = Conversation { messages: vec![message], ..Conversation::default() };
        assert_eq!(Question::read(&conversation).text, "What about Question: 7?");
    }
}
