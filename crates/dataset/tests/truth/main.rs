//! Keys and relationships of made-up data whose truth is known.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stored;
mod world;

use std::collections::BTreeSet;

use belljar_dataset::{Because, Description};
use world::{World, describe};

/// Of what was said, how much is true; of what is true, how much was said.
fn rates(said: &BTreeSet<String>, truth: &BTreeSet<String>) -> (f64, f64) {
    let both = said.intersection(truth).count() as f64;
    (both / said.len().max(1) as f64, both / truth.len().max(1) as f64)
}

fn relationships(description: &Description) -> BTreeSet<String> {
    let all = description.relationships.iter();
    let said = all.map(|one| {
        let (from, to) = (&one.from, &one.to);
        format!("{}.{} -> {}.{}", from.dataset, from.path, to.dataset, to.path)
    });
    said.collect()
}

fn keys(description: &Description) -> BTreeSet<String> {
    let keys = description.datasets.iter().flat_map(|dataset| {
        let name = &dataset.name;
        dataset.keys.iter().map(move |key| format!("{name}:{}:{}", key.of, key.columns.join("+")))
    });
    keys.collect()
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are what the test is for")]
fn keys_and_relationships_are_found_and_nothing_else_is_claimed() {
    let (mut said, mut truth) = (BTreeSet::new(), BTreeSet::new());
    let (mut said_keys, mut true_keys) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..30 {
        let world = World::new(seed);
        let description = describe(&world.files);
        let tagged =
            |set: BTreeSet<String>| set.into_iter().map(move |one| format!("{seed}: {one}"));
        said.extend(tagged(relationships(&description)));
        truth.extend(tagged(world.relationships.clone()));
        said_keys.extend(tagged(keys(&description)));
        true_keys.extend(tagged(world.keys.clone()));
    }
    let (precision, recall) = rates(&said, &truth);
    let (key_precision, key_recall) = rates(&said_keys, &true_keys);
    println!("relationships: {} true, precision {precision:.3}, recall {recall:.3}", truth.len());
    println!(
        "keys: {} true, precision {key_precision:.3}, recall {key_recall:.3}",
        true_keys.len()
    );
    for (what, said, truth) in [("relationship", &said, &truth), ("key", &said_keys, &true_keys)] {
        said.difference(truth).for_each(|one| println!("wrong {what}: {one}"));
        truth.difference(said).for_each(|one| println!("missed {what}: {one}"));
    }
    for rate in [precision, recall, key_precision, key_recall] {
        assert!(rate >= 0.95, "{rate}");
    }
}

#[test]
fn columns_that_nearly_match_are_warned_of_with_the_reason() {
    let referring = |form: &dyn Fn(u32) -> String| {
        let rows: Vec<String> = (0..400).map(|n| format!("{n},{}", form(n * 7 % 300))).collect();
        format!("id,account_id\n{}\n", rows.join("\n"))
    };
    let keyed = |form: &dyn Fn(u32) -> String| {
        let rows: Vec<String> =
            (0..300).map(|n| format!("{{\"id\":{},\"n\":{n}}}", form(n))).collect();
        rows.join("\n")
    };
    let check = |accounts: String, activities: String, want: Because| {
        let files = [("accounts.jsonl", accounts), ("activities.csv", activities)];
        let description = describe(&files.map(|(name, text)| (name.to_owned(), text)));
        let [miss] = &description.near_misses[..] else {
            panic!("{want:?}: {:?}, {:?}", description.near_misses, description.relationships)
        };
        assert_eq!(miss.because, want);
        assert!(miss.matched < 0.5 && miss.mended > 0.95, "{miss:?}");
        assert!(description.relationships.is_empty());
        assert!(description.to_text(4000).contains("do not join as they are"));
    };
    let text = |n: u32| format!("\"acc_x{n:03}\"");
    check(keyed(&text), referring(&|n| format!("ACC_X{n:03}")), Because::Case);
    check(keyed(&text), referring(&|n| format!("\" acc_x{n:03}\"")), Because::Whitespace);
    check(keyed(&|n| format!("\"{n:06}\"")), referring(&|n| n.to_string()), Because::ZeroPadding);
    check(
        keyed(&|n| format!("\"{}\"", n + 1000)),
        referring(&|n| (n + 1000).to_string()),
        Because::Type,
    );
    check(keyed(&text), referring(&|n| format!("crm:account:{n}")), Because::Prefix);
}

#[test]
fn orphans_coverage_and_cardinality_are_counted() {
    let deals: Vec<String> = (0..200).map(|n| format!("{{\"id\":\"deal_{n}\"}}")).collect();
    let rows: Vec<String> = (0..1000)
        .map(|n| {
            if n % 50 == 0 {
                format!("{n},deal_{}", 900 + n)
            } else {
                format!("{n},deal_{}", n % 100)
            }
        })
        .collect();
    let files = [
        ("deals.json".to_owned(), format!("[{}]", deals.join(","))),
        ("calls.csv".to_owned(), format!("call_id,deal_id\n{}\n", rows.join("\n"))),
    ];
    let description = describe(&files);
    let [one] = &description.relationships[..] else { panic!("{:?}", description.relationships) };
    assert_eq!((one.matched, one.covered, one.mean), (0.98, 0.49, 10.0));
}
