//! Parquet files that a stranger made.
//!
//! The `parquet` crate may panic on damaged files, or ask for more memory than there is. In the
//! product both end the sealed worker and nothing else, so both are let pass here. Whatever our own
//! code does is a finding.
#![no_main]
#![feature(alloc_error_hook)]

use std::alloc::set_alloc_error_hook;
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};

use belljar_dataset::{Description, Input, Options, describe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        set_alloc_error_hook(|layout| panic!("cannot allocate {} bytes", layout.size()));
        panic::set_hook(Box::new(|panic| {
            let file = panic.location().map_or("", |location| location.file());
            let is_ours = file.contains("crates/dataset/");
            if is_ours && !panic.to_string().contains("cannot allocate") {
                eprintln!("{panic}");
                std::process::abort();
            }
        }));
    },
    |content: &[u8]| {
        let Ok(Some(description)) = panic::catch_unwind(AssertUnwindSafe(|| run(content))) else { return };
        let again = panic::catch_unwind(AssertUnwindSafe(|| run(content)));
        assert_eq!(again.ok().flatten().as_ref(), Some(&description));
        assert!(!description.to_text(200).is_empty());
        let json = serde_json::to_string(&description).expect("it can be written");
        assert!(serde_json::from_str::<Description>(&json).is_ok());
    }
);

fn run(content: &[u8]) -> Option<Description> {
    let mut file = tempfile::tempfile().expect("a file of our own");
    file.write_all(content).expect("space for it");
    let input = Input::new("x.parquet".to_owned(), file).expect("a regular file");
    describe(&[input], &Options { threads: 1, passed: &|_| {} }).ok()
}
