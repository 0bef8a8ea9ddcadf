//! Parquet files of pyarrow, DuckDB and polars, beside what these libraries read from them.
//!
//! `make.py` writes the files and `truth.json`. All that differs is listed, not only the first.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod related;
mod written;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use belljar_dataset::{Description, Input, Options, ReadError};
use serde_json::Value;

pub(crate) fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/parquet/files").join(name)
}

pub(crate) fn describe(names: &[&str]) -> Description {
    let open =
        |name: &&str| Input::new((*name).to_owned(), File::open(place(name)).unwrap()).unwrap();
    let inputs: Vec<Input> = names.iter().map(open).collect();
    belljar_dataset::describe(&inputs, &Options { threads: 1, passed: &|_| {} }).unwrap()
}

pub(crate) fn describe_bytes(name: &str, bytes: &[u8]) -> Result<Description, ReadError> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let input = Input::new(name.to_owned(), file).unwrap();
    belljar_dataset::describe(&[input], &Options { threads: 1, passed: &|_| {} })
}

/// Every path of a dataset, in the words of the truth: `a.b`, `c[]`, `m.<key>`.
fn paths(field: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    found.insert(path.to_owned(), field.clone());
    for below in field["fields"].as_array().into_iter().flatten() {
        let name = below["name"].as_str().unwrap_or_default();
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        paths(below, &path, found);
    }
    if let Some(item) = field.get("item") {
        paths(item, &format!("{path}[]"), found);
    }
}

/// The same whether a fraction has zeros at its end, and however UTC is written.
fn plain(text: &str) -> String {
    let text = text.strip_suffix("+00:00").or(text.strip_suffix('Z')).unwrap_or(text);
    match text.split_once('.') {
        Some((whole, fraction)) if whole.contains(':') => {
            format!("{whole}.{}", fraction.trim_end_matches('0')).trim_end_matches('.').to_owned()
        }
        _ => text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| number.to_string()),
    }
}

fn is_near(said: &Value, truth: &Value) -> bool {
    match (said.as_f64(), truth.as_f64()) {
        (Some(said), Some(truth)) => (said - truth).abs() <= 1e-9 * truth.abs(),
        _ => said == truth,
    }
}

/// The differences between what is said about a path and what is true.
fn differences(said: &Value, truth: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, said: &Value, truth: &Value| {
        found.push(format!("{what}: said {said}, true {truth}"));
    };
    if said["types"] != truth["types"] {
        differ("types", &said["types"], &truth["types"]);
    }
    for exact in ["stored_as", "distinct"] {
        // Of true and false, values are told, and no number of them.
        let is_told = exact == "stored_as" || truth["types"].get("bool").is_none();
        if is_told && truth.get(exact).is_some_and(|truth| said[exact] != *truth) {
            differ(exact, &said[exact], &truth[exact]);
        }
    }
    let ends = |said: &Value, [low, high]: [&str; 2]| {
        Value::from(vec![said[low].clone(), said[high].clone()])
    };
    let ranges = [
        ("numbers", ["min", "max"], "numbers"),
        ("dates", ["first", "last"], "dates"),
        ("chars", ["shortest", "longest"], "text"),
        ("lengths", ["shortest", "longest"], "lengths"),
    ];
    for (what, names, key) in ranges {
        let Some(true_range) = truth.get(what) else { continue };
        let said = ends(&said[key], names);
        if !(0..2).all(|end| is_near(&said[end], &true_range[end])) {
            differ(what, &said, true_range);
        }
    }
    if truth.get("keys").is_some_and(|keys| said["keys"]["distinct"] != *keys) {
        differ("keys", &said["keys"]["distinct"], &truth["keys"]);
    }
    if let Some(values) = truth["values"].as_object() {
        let values: BTreeMap<String, &Value> =
            values.iter().map(|(value, count)| (plain(value), count)).collect();
        let pairs = said["values"].as_array().into_iter().flatten();
        let told: BTreeMap<String, &Value> =
            pairs.map(|pair| (plain(pair[0].as_str().unwrap()), &pair[1])).collect();
        if told != values {
            differ("values", &said["values"], &truth["values"]);
        }
    }
    found
}

fn check(chosen: impl Fn(&str) -> bool) {
    let truth: BTreeMap<String, Value> =
        serde_json::from_slice(&fs::read(place("truth.json")).unwrap()).unwrap();
    let mut found = Vec::new();
    let mut compared = 0;
    for (name, truth) in truth.iter().filter(|(name, _)| chosen(name)) {
        let description = describe(&[name]);
        let dataset = serde_json::to_value(&description.datasets[0]).unwrap();
        if dataset["rows"] != truth["rows"] {
            found.push(format!("{name}: {} rows, true {}", dataset["rows"], truth["rows"]));
        }
        let mut said = BTreeMap::new();
        paths(&dataset["root"], "", &mut said);
        for (path, truth) in truth["paths"].as_object().unwrap() {
            compared += 1;
            let lines = differences(said.get(path).unwrap_or(&Value::Null), truth);
            found.extend(lines.into_iter().map(|line| format!("{name}: {path}: {line}")));
        }
        // Nothing that is in no file.
        let unknown =
            said.keys().filter(|path| !path.is_empty() && truth["paths"].get(path).is_none());
        found.extend(unknown.map(|path| format!("{name}: there is no {path}")));
    }
    assert!(compared > 0, "no file was compared");
    assert!(
        found.is_empty(),
        "{} differences in {compared} paths:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn columns_are_told_as_pyarrow_reads_them() {
    check(|name| name.starts_with("pyarrow") && !name.contains("int96"));
}

#[test]
fn timestamps_of_96_bits_are_told_as_pyarrow_reads_them() {
    check(|name| name.starts_with("pyarrow_int96"));
}

#[test]
fn columns_are_told_as_duckdb_reads_them() {
    check(|name| name.starts_with("duckdb"));
}

#[test]
fn columns_are_told_as_polars_reads_them() {
    check(|name| name.starts_with("polars"));
}
