//! Files that a stranger made: the first byte chooses the name, the rest is the
//! content. Whatever comes out has to be the same on one thread and on three,
//! and to survive its own JSON.
#![no_main]

use std::io::Write as _;

use belljar_dataset::{Description, Input, Options, describe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, content)) = bytes.split_first() else { return };
    let name = ["x.json", "x.jsonl", "x.csv", "x.parquet"][usize::from(first) % 4];
    let Some(description) = run(name, content, 1) else { return };
    assert_eq!(run(name, content, 3).as_ref(), Some(&description));
    assert!(!description.to_text(200).is_empty());
    assert!(description.to_svg().ends_with("</svg>\n"));
});

fn run(name: &str, content: &[u8], threads: usize) -> Option<Description> {
    let mut file = tempfile::tempfile().expect("a file of our own");
    file.write_all(content).expect("space for it");
    let input = Input::new(name.to_owned(), file).expect("a regular file");
    describe(&[input], &Options { threads, passed: &|_| {} }).ok()
}
