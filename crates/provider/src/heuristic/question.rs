//! What is asked, as far as rules can tell.

use super::time::Time;
use super::words::{is_filler, is_small, split};
use crate::conversation::{Block, Conversation, Role};

/// More than one screen of groups is no answer.
const MOST_GROUPS: u64 = 50;

/// What follows these is what groups are made of.
pub(super) const BY: [&str; 6] = ["by", "per", "each", "every", "across", "within"];
/// The same, and the answer names some of the groups.
pub(super) const WHICH: [&str; 6] = ["which", "top", "bottom", "best", "worst", "rank"];
pub(super) const WHO: [&str; 2] = ["who", "whose"];
/// What number of groups may follow.
const FIRST: [&str; 5] = ["top", "first", "best", "bottom", "worst"];

pub(super) const HIGHEST: [&str; 8] =
    ["most", "highest", "largest", "biggest", "greatest", "best", "top", "longest"];
pub(super) const LOWEST: [&str; 8] =
    ["least", "lowest", "smallest", "fewest", "worst", "bottom", "shortest", "minimum"];
const DIFFERENT: [&str; 3] = ["different", "distinct", "unique"];
/// "Most common": what there are most rows of.
const COMMON: [&str; 2] = ["common", "frequent"];
/// Rows are chosen by having a value, never by not having it.
const NOT: [&str; 7] = ["not", "no", "never", "except", "excluding", "without", "besides"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) text: String,
    /// Its words, in order.
    pub(super) words: Vec<String>,
    /// None: no word says.
    pub(super) measure: Option<Measure>,
    /// "Most", "lowest": something is compared.
    pub(super) is_superlative: bool,
    /// The smallest first.
    pub(super) is_ascending: bool,
    /// "Which deals …": the answer names some.
    pub(super) wants_names: bool,
    /// How many groups or rows to show.
    pub(super) most: u64,
    pub(super) time: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Count,
    Sum,
    Mean,
    Median,
    Min,
    Max,
    Std,
    Distinct,
    Correlation,
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
        let words = split(text);
        let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
        let most = words.windows(2).find_map(|pair| match FIRST.contains(&pair[0].as_str()) {
            true => pair[1].parse().ok(),
            false => None,
        });
        Self {
            measure: Measure::of(&words),
            is_superlative: has(&HIGHEST) || has(&LOWEST),
            is_ascending: has(&LOWEST),
            wants_names: has(&WHICH) || has(&WHO) || is_common(&words),
            most: most.unwrap_or(10).clamp(1, MOST_GROUPS),
            time: Time::read(&words),
            text: text.to_owned(),
            words,
        }
    }

    /// The words that say what groups are made of: each of "by region", and both of
    /// "which sales rep". None: there are to be no groups.
    pub(super) fn grouping(&self) -> Option<Vec<Vec<&str>>> {
        let mut found = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            let word = word.as_str();
            let is_common = COMMON.contains(&word) && at > 0 && self.words[at - 1] == "most";
            if BY.contains(&word) || WHICH.contains(&word) || is_common {
                let rest = (at + 1..self.words.len()).skip_while(|at| {
                    let word = &self.words[*at];
                    is_small(word) || is_digits(word)
                });
                let rest = rest.take_while(|at| !is_small(&self.words[*at])).take(3);
                let rest = rest.filter(|at| !self.time.used.contains(at));
                found.push(rest.map(|at| self.words[at].as_str()).collect());
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
        rest.take_while(|at| !is_small(&self.words[*at])).collect()
    }

    /// Whether rows themselves are meant: "how many records", "the most deals".
    pub(super) fn counts(&self, rows: &str) -> bool {
        let names = split(rows);
        let is_meant = |word: &String| names.contains(word);
        let follows = |pair: &[String]| {
            ["most", "fewest", "least"].contains(&pair[0].as_str()) && is_meant(&pair[1])
        };
        self.measure.is_none() && self.words.windows(2).any(follows)
    }

    /// Whether it asks how many rows there are, of whatever.
    pub(super) fn counts_rows(&self) -> bool {
        let rows = ["row", "record", "entry", "line", "observation"];
        self.measure == Some(Measure::Count)
            && self.words.iter().any(|word| rows.contains(&word.as_str()))
    }

    pub(super) fn is_negative(&self) -> bool {
        self.words.iter().any(|word| NOT.contains(&word.as_str()))
    }

    /// Whether the word at a place is how many groups are wanted.
    pub(super) fn is_most(&self, at: usize) -> bool {
        at > 0 && FIRST.contains(&self.words[at - 1].as_str()) && is_digits(&self.words[at])
    }
}

impl Measure {
    fn of(words: &[String]) -> Option<Self> {
        let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
        let pair = |first: &str, second: &str| {
            words.windows(2).any(|pair| pair[0] == first && pair[1] == second)
        };
        Some(match () {
            () if has(&["correlation", "correlate", "correlated", "pearson"]) => Self::Correlation,
            () if has(&["average", "mean", "avg", "typical"]) => Self::Mean,
            () if has(&["median"]) => Self::Median,
            () if has(&["deviation", "std", "spread"]) => Self::Std,
            () if has(&DIFFERENT) => Self::Distinct,
            () if pair("how", "many") || has(&["count", "often", "frequent", "frequency"]) => {
                Self::Count
            }
            () if pair("number", "of") || pair("most", "common") => Self::Count,
            () if has(&["total", "sum", "overall", "altogether"]) || pair("how", "much") => {
                Self::Sum
            }
            () if has(&["maximum", "max"]) => Self::Max,
            () if has(&["minimum", "min"]) => Self::Min,
            () => return None,
        })
    }

    /// Words that say it. "Total" goes with "number of", "how many" with "different".
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Count => {
                &["count", "often", "frequent", "frequency", "number", "common", "total"]
            }
            Self::Sum => &["total", "sum"],
            Self::Mean => &["average", "mean", "avg", "typical"],
            Self::Median => &["median"],
            Self::Min => &["minimum", "min"],
            Self::Max => &["maximum", "max"],
            Self::Std => &["standard", "deviation", "std", "spread"],
            Self::Distinct => &["different", "distinct", "unique", "number", "count", "total"],
            Self::Correlation => &["correlation", "correlate", "correlated", "pearson", "between"],
        }
    }

    /// As the code calls it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Min => "min",
            Self::Max => "max",
            Self::Std => "std",
            Self::Distinct => "distinct",
            Self::Correlation => "correlation",
        }
    }
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
