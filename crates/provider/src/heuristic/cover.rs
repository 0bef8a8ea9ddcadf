//! Whether every word of a question is accounted for.
//!
//! A question that is understood in part gets no answer: "revenue in Spain" is not
//! answered with the revenue of all countries because no row says "Spain".

use super::plan::Plan;
use super::question::{BY, HIGHEST, LOWEST, Measure, Question, WHICH, WHO};
use super::words::{is_filler, likeness, split};

/// What is done with goods and money, and what the numbers of it may be called.
const TRADE: [&str; 12] = [
    "sold",
    "sell",
    "selling",
    "bought",
    "buy",
    "earn",
    "earned",
    "made",
    "make",
    "spent",
    "spend",
    "generated",
];
const TRADED: [&str; 14] = [
    "sale", "revenue", "amount", "unit", "quantity", "qty", "turnover", "income", "profit",
    "spend", "cost", "total", "order", "volume",
];

/// Words that play no part in the plan, or another one than the question gives them.
pub(super) fn unclear(question: &Question, plan: &Plan) -> Vec<String> {
    let names: Vec<String> = plan.names().into_iter().flat_map(split).collect();
    let is_name = |word: &str| names.iter().any(|name| likeness(word, name) > 0);
    let has_groups = plan.group.is_some() || plan.unit.is_some() || plan.has_rows;
    let is_extreme = matches!(plan.measure, Measure::Min | Measure::Max);
    let mut found = Vec::new();
    for (at, word) in question.words.iter().enumerate() {
        let word = word.as_str();
        let is_compared = HIGHEST.contains(&word) || LOWEST.contains(&word) || word == "first";
        let is_counted = question.is_most(at);
        let is_clear = question.time.used.contains(&at)
            || is_name(word)
            || (is_filler(word) && word != "or")
            || (word == "or" && has_choice(plan))
            || says_measure(plan, word)
            || (is_compared && (has_groups || is_extreme))
            || (has_groups && (WHICH.contains(&word) || WHO.contains(&word)))
            || (is_counted && has_groups)
            || (BY.contains(&word) && (has_groups || plan.number.is_some()))
            || (word == "where" && !plan.filters.is_empty())
            || (TRADE.contains(&word) && is_traded(plan));
        let word = word.to_owned();
        if !is_clear && !found.contains(&word) {
            found.push(word);
        }
    }
    // "The highest and the lowest": only one order is shown.
    let has = |any: &[&str]| question.words.iter().any(|word| any.contains(&word.as_str()));
    if found.is_empty() && has(&HIGHEST) && has(&LOWEST) {
        found.extend(question.words.iter().filter(|word| LOWEST.contains(&word.as_str())).cloned());
    }
    // By two things at once.
    if found.is_empty() && plan.group.is_some() && plan.unit.is_some() {
        found.extend(plan.unit.map(|unit| unit.word().to_owned()));
    }
    found
}

fn says_measure(plan: &Plan, word: &str) -> bool {
    // Rows are shown as they are, whatever is said of their sums.
    plan.measure.words().contains(&word) && !plan.has_rows
}

/// "Won or lost": values of one column. Of two columns, both would be demanded.
fn has_choice(plan: &Plan) -> bool {
    plan.filters.iter().any(|filter| filter.values.len() > 1)
}

fn is_traded(plan: &Plan) -> bool {
    let numbers = plan.number.iter().flat_map(|number| split(number));
    let names = numbers.chain(split(&plan.dataset));
    plan.number.is_some() && names.into_iter().any(|word| TRADED.contains(&word.as_str()))
}
