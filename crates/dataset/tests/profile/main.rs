//! What is said about small files, also about broken and hostile ones.
//!
//! Requirements: D2

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod forms;
mod hostile;
mod mutated;
mod shapes;

use std::fs::File;
use std::io::Write as _;

use belljar_dataset::{Dataset, Description, Field, Input, Options, ReadError};

fn open(name: &str, content: &[u8]) -> Input {
    let mut file: File = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    Input::new(name.to_owned(), file).unwrap()
}

fn try_describe(files: &[(&str, &[u8])], threads: usize) -> Result<Description, ReadError> {
    let inputs: Vec<Input> = files.iter().map(|(name, content)| open(name, content)).collect();
    belljar_dataset::describe(&inputs, &Options { threads, passed: &|_| {} })
}

fn describe(files: &[(&str, &[u8])]) -> Description {
    try_describe(files, 1).unwrap()
}

fn one(name: &str, content: impl AsRef<[u8]>) -> Dataset {
    describe(&[(name, content.as_ref())]).datasets.remove(0)
}

/// Where the records of a dataset are.
fn record(dataset: &Dataset) -> &Field {
    dataset.root.item.as_deref().filter(|_| dataset.root.types.array == 1).unwrap_or(&dataset.root)
}

/// The field at a path such as `contacts[].email`.
#[track_caller]
fn at<'a>(dataset: &'a Dataset, path: &str) -> &'a Field {
    let mut field = record(dataset);
    for step in path.split('.') {
        let (name, items) =
            step.split_once("[]").map_or((step, 0), |(name, rest)| (name, 1 + rest.len() / 2));
        let found = field.fields.iter().find(|field| field.name == name);
        field = found.unwrap_or_else(|| panic!("no `{name}` of `{path}`"));
        for _ in 0..items {
            field = field.item.as_deref().unwrap();
        }
    }
    field
}
