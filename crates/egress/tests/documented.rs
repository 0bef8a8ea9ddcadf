//! The user guide says what is true: it explains every word that a row can hold,
//! and its examples are policies.

use std::collections::BTreeSet;

use belljar_domain::network::Policy;

const GUIDE: &str = include_str!("../../../docs/network.md");
const WORDS: &str = include_str!("../../domain/src/network/row.rs");

/// The variants of an enum of the log, as they are written in a row.
fn variants(name: &str) -> BTreeSet<String> {
    let (_, rest) = WORDS.split_once(&format!("pub enum {name} {{\n")).expect("an enum");
    let (inside, _) = rest.split_once("\n}").expect("its end");
    let is_variant = |line: &&str| line.starts_with(|first: char| first.is_ascii_uppercase());
    inside
        .lines()
        .map(str::trim)
        .filter(is_variant)
        .map(|line| snake(line.trim_end_matches(',')))
        .collect()
}

fn snake(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

/// The words in the first column of the table below a heading.
fn explained(heading: &str) -> BTreeSet<String> {
    let (_, section) = GUIDE.split_once(&format!("\n## {heading}\n")).expect("a heading");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let word = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    section.lines().filter_map(word).collect()
}

#[test]
fn every_reason_is_explained_and_nothing_else_is() {
    let reasons = variants("Reason");
    // The words are what a row holds, not only what the source looks like.
    for reason in &reasons {
        let quoted = format!("\"{reason}\"");
        let read = serde_json::from_str::<belljar_domain::network::Reason>(&quoted);
        assert!(read.is_ok(), "{reason}");
    }
    assert!(reasons.len() > 20);
    assert_eq!(explained("Reasons"), reasons);
}

#[test]
fn every_kind_and_decision_is_explained() {
    let words: BTreeSet<String> = variants("Kind").union(&variants("Decision")).cloned().collect();
    assert_eq!(explained("The log"), words);
}

#[test]
fn every_example_is_a_policy() {
    let examples: Vec<&str> = GUIDE
        .split("\n```json\n")
        .skip(1)
        .map(|rest| rest.split_once("\n```").expect("an end").0)
        .collect();
    assert!(examples.len() >= 4);
    for example in examples {
        let policy = serde_json::from_str::<Policy>(example);
        assert!(policy.is_ok(), "{example}\n{policy:?}");
    }
}
