//! Advice from the categories of many failures.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Failures that are too few to advise on.
const LEAST_FAILURES: u64 = 3;
/// The share, in percent, from which a category is worth a change.
const LEAST_PERCENT: u64 = 20;

/// Categories, their names in a sentence, and the remedy.
const REMEDIES: &[(&str, &str, &str)] = &[
    ("missing_module", "missing modules", "add them to the template"),
    ("install", "failed installations", "add the packages to the template, or allow `packages`"),
    ("syntax", "syntax errors", "choose a larger model for the Coder"),
    ("missing_key", "wrong columns or keys", "attach the data, so that its columns are described"),
    ("type", "wrong types", "attach the data, so that its types are described"),
    ("name", "unknown names", "choose a larger model for the Coder"),
    ("file", "missing files", "attach the data, and name files without directories"),
    ("memory", "lack of memory", "raise the memory of the sandbox"),
    ("timeout", "timeouts", "raise the time of a call, or ask for less data"),
    ("output", "too much output", "ask for summaries instead of whole tables"),
    ("disk", "full disks", "raise the disk of the sandbox"),
    ("same_code", "repeated programs", "choose a larger model for the Debugger"),
    ("arguments", "messages of a wrong shape", "choose a larger model"),
];

/// One line for each category that many of the failures have, the largest share first.
pub fn advice(failures: &BTreeMap<String, u64>) -> Vec<String> {
    let total: u64 = failures.values().sum();
    if total < LEAST_FAILURES {
        return Vec::new();
    }
    let mut found: Vec<(u64, String)> = REMEDIES
        .iter()
        .filter_map(|(category, name, remedy)| {
            let percent = failures.get(*category)?.saturating_mul(100) / total;
            let line = format!("{percent} % of failures are {name}: {remedy}");
            (percent >= LEAST_PERCENT).then_some((percent, line))
        })
        .collect();
    found.sort_by_key(|(percent, _)| Reverse(*percent));
    found.into_iter().map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::category::Category;

    fn counts(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn frequent_categories_become_advice() {
        let lines = advice(&counts(&[("missing_module", 4), ("syntax", 2), ("exit", 4)]));
        assert_eq!(
            lines,
            [
                "40 % of failures are missing modules: add them to the template",
                "20 % of failures are syntax errors: choose a larger model for the Coder",
            ]
        );
        assert!(advice(&counts(&[("missing_module", 2)])).is_empty());
        assert!(advice(&counts(&[("exit", 9), ("syntax", 1)])).is_empty());
    }

    #[test]
    fn remedies_are_of_categories() {
        let others = ["same_code", "arguments"];
        for (category, ..) in REMEDIES {
            assert!(Category::named(category).is_some() || others.contains(category), "{category}");
        }
    }
}
