//! Whether every word of a question is accounted for.
//!
//! A question that is understood in part gets no answer: "revenue in Spain" is not
//! answered with the revenue of all countries because no row says "Spain".

use super::measure::Measure;
use super::plan::Plan;
use super::question::{BY, HIGHEST, LOWEST, Question, WHICH, WHO};
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
const TRADED: [&str; 16] = [
    "gross", "net", "sale", "revenue", "amount", "unit", "quantity", "qty", "turnover", "income",
    "profit", "spend", "cost", "total", "order", "volume",
];

/// Numbers of which more is better.
const GOOD: [&str; 18] = [
    "sale",
    "revenue",
    "amount",
    "unit",
    "quantity",
    "turnover",
    "income",
    "profit",
    "margin",
    "gross",
    "net",
    "score",
    "satisfaction",
    "rating",
    "point",
    "view",
    "click",
    "download",
];

/// Words that play no part in the plan, or another one than the question gives them.
pub(super) fn unclear(question: &Question, plan: &Plan) -> Vec<String> {
    let names: Vec<String> = plan.names().into_iter().flat_map(split).collect();
    let is_name = |word: &str| names.iter().any(|name| likeness(word, name) > 0);
    let has_groups = plan.has_groups() || plan.has_rows;
    let is_extreme = matches!(plan.measure, Measure::Min | Measure::Max);
    let mut found = Vec::new();
    for (at, word) in question.words.iter().enumerate() {
        let word = word.as_str();
        let is_compared = HIGHEST.contains(&word) || LOWEST.contains(&word);
        let is_counted = question.is_most(at) || question.is_rank(at);
        let is_clear = plan.used.contains(&at)
            || is_name(word)
            || (is_filler(word) && word != "or")
            || says_measure(plan, word)
            || (is_compared && (has_groups || is_extreme) && suits(plan, word))
            || (has_groups && suits(plan, word) && (WHICH.contains(&word) || WHO.contains(&word)))
            || (is_counted && has_groups)
            || (question.is_order(at) && has_groups)
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
    // "Which region by product": of each product, or of all?
    let parts = plan.groups.len() + usize::from(plan.unit.is_some());
    let is_short = parts > 2 || (parts > 1 && question.wants_names) || (parts > 0 && plan.has_rows);
    if found.is_empty() && is_short {
        found.extend(plan.groups.iter().skip(usize::from(!plan.has_rows)).cloned());
        found.extend(plan.unit.map(|unit| unit.word().to_owned()));
    }
    found
}

fn says_measure(plan: &Plan, word: &str) -> bool {
    // Rows are shown as they are, whatever is said of their sums.
    let is_said = |measure: &Measure| measure.words().contains(&word);
    (is_said(&plan.measure) || plan.also.iter().any(is_said)) && !plan.has_rows
}

/// Whether "longest" or "best" can be said of a number that the question does not name.
fn suits(plan: &Plan, word: &str) -> bool {
    let lengths =
        ["duration", "time", "length", "distance", "minute", "hour", "second", "day", "ms"];
    let prices = ["price", "cost", "fare", "fee"];
    let number = plan.number.iter().flat_map(|number| split(number)).collect::<Vec<_>>();
    let is_one = |words: &[&str]| number.iter().any(|part| words.contains(&part.as_str()));
    match word {
        "longest" | "shortest" => !plan.is_assumed || is_one(&lengths),
        "cheapest" => is_one(&prices),
        // The best rank and the best price are low ones.
        "best" | "worst" => plan.number.is_none() || (!plan.is_assumed && is_one(&GOOD)),
        _ => true,
    }
}

fn is_traded(plan: &Plan) -> bool {
    let numbers = plan.number.iter().flat_map(|number| split(number));
    let names = numbers.chain(split(&plan.dataset));
    plan.number.is_some() && names.into_iter().any(|word| TRADED.contains(&word.as_str()))
}
