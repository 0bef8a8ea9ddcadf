//! What operators read must be what there is: the documentation's table, and
//! whatever the dashboards ask for (O4).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use belljar_telemetry::Metrics;
use serde_json::Value;

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap()
}

type Row = (String, Vec<String>);

/// Names with their type and labels.
fn existing() -> BTreeMap<String, Row> {
    let all = Metrics::described().into_iter().map(|metric| {
        let labels = metric.labels.iter().map(|&label| label.to_owned()).collect();
        (metric.full_name(), (metric.kind.to_owned(), labels))
    });
    all.collect()
}

/// Every name that a query may use.
fn queryable() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, (kind, _)) in existing() {
        if kind == "histogram" {
            names.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")));
        } else {
            names.insert(name);
        }
    }
    names
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let text = file("docs/observability.md");
    let (_, table) = text.split_once("<!-- metrics:begin -->").unwrap();
    let (table, _) = table.split_once("<!-- metrics:end -->").unwrap();
    let mut documented = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = words(cells[1]).next().unwrap().to_owned();
        let labels = words(cells[3]).map(str::to_owned).collect();
        assert!(!cells[4].is_empty(), "{name} is not explained");
        let before = documented.insert(name.clone(), (cells[2].to_owned(), labels));
        assert_eq!(before, None, "{name} is there twice");
    }
    assert!(documented.len() > 20, "the table was not found");
    assert_eq!(documented, existing());
}

/// All metrics that a text names.
fn named(text: &str) -> Vec<String> {
    let part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words = text.split(|char| !part(char));
    words.filter(|word| word.starts_with("belljar_")).map(str::to_owned).collect()
}

/// Every dashboard, with the least number of metrics that it asks for.
const DASHBOARDS: [(&str, usize); 2] = [("belljar.json", 20), ("belljar-runs.json", 20)];

fn dashboard(name: &str) -> Value {
    serde_json::from_str(&file(&format!("packaging/grafana/{name}"))).unwrap()
}

#[test]
fn every_dashboard_is_checked() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<_> = names.map(|name| name.into_string().unwrap()).collect();
    let known: BTreeSet<_> = DASHBOARDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, known);
}

#[test]
fn dashboards_ask_only_for_what_there_is() {
    for (file, least) in DASHBOARDS {
        let dashboard = dashboard(file);
        let mut asked = 0;
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            let targets = panel["targets"].as_array().into_iter().flatten();
            let expressions: Vec<_> = targets.map(|one| one["expr"].as_str().unwrap()).collect();
            assert_eq!(expressions.is_empty(), panel["type"] == "row", "{file}: {title}");
            for expression in expressions {
                let names = named(expression);
                assert!(!names.is_empty(), "{file}: {title}: {expression}");
                for name in names {
                    assert!(queryable().contains(&name), "{file}: {title}: there is no {name}");
                    asked += 1;
                }
            }
        }
        assert!(asked >= least, "{file}: only {asked}");
        for variable in dashboard["templating"]["list"].as_array().unwrap() {
            for name in named(variable["query"].as_str().unwrap()) {
                assert!(queryable().contains(&name), "{file}: there is no {name}");
            }
        }
    }
}

/// A metric of runs that no panel shows is one that no operator sees.
#[test]
fn the_dashboard_of_runs_shows_every_metric_of_runs() {
    let text = file("packaging/grafana/belljar-runs.json");
    let shown = named(&text);
    for name in existing().into_keys().filter(|name| name.starts_with("belljar_run")) {
        assert!(shown.iter().any(|shown| shown.starts_with(&name)), "{name} is not shown");
    }
}

/// Labels of a metric in a query, by its braces and by what it is summed by.
#[test]
fn dashboards_know_the_labels() {
    let labels: BTreeMap<String, BTreeSet<String>> = existing()
        .into_iter()
        .map(|(name, (_, labels))| {
            let own = labels.into_iter().chain(["role".to_owned(), "le".to_owned()]);
            (name, own.collect())
        })
        .collect();
    for (file, least) in DASHBOARDS {
        let dashboard = dashboard(file);
        let targets = dashboard["panels"].as_array().unwrap().iter();
        let targets = targets.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        let mut checked = 0;
        for expression in targets.map(|target| target["expr"].as_str().unwrap()) {
            let name = named(expression)[0].clone();
            let bare =
                ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let known = labels.get(&name).or_else(|| labels.get(bare.unwrap_or(&name))).unwrap();
            for by in expression.split(" by (").skip(1) {
                for label in by.split(')').next().unwrap().split(',') {
                    assert!(known.contains(label.trim()), "{name} has no {label}: {expression}");
                    checked += 1;
                }
            }
            for matcher in expression.split('{').skip(1) {
                for pair in matcher.split('}').next().unwrap().split(',') {
                    let label = pair.split(['=', '!']).next().unwrap();
                    assert!(known.contains(label), "{name} has no {label}: {expression}");
                    checked += 1;
                }
            }
        }
        assert!(checked >= least, "{file}: only {checked}");
    }
}

#[test]
fn other_documents_name_only_what_there_is() {
    for path in ["docs/observability.md", "docs/operations.md"] {
        let names: BTreeSet<_> = existing().into_keys().chain(queryable()).collect();
        for name in named(&file(path)) {
            let prefix = name.ends_with('_');
            assert!(prefix || names.contains(&name), "{path}: there is no {name}");
        }
    }
}
