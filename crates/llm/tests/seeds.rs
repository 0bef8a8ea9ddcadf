//! The seeds of the fuzz targets, run through the same checks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(unreachable_pub, reason = "the fuzz targets use it as a library")]
#[path = "../fuzz/src/lib.rs"]
mod checks;

use std::fs;
use std::path::Path;

use checks::Outcome;

/// Every seed, and every beginning of it. Returns how many whole ones were refused, and read.
fn replay(target: &str, check: fn(&[u8]) -> Outcome) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let (mut refused, mut read) = (0, 0);
    for seed in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        for end in 0..bytes.len() {
            check(&bytes[..end]);
        }
        match check(&bytes) {
            Outcome::Refused => refused += 1,
            Outcome::Read => read += 1,
        }
    }
    (refused, read)
}

#[test]
fn requests_are_read_as_serde_reads_them_and_sent_on_as_requests() {
    let (refused, read) = replay("views", checks::views);
    assert!(refused >= 5 && read >= 5, "{refused} refused, {read} sent on");
}

#[test]
fn answers_come_by_unchanged_however_they_arrive() {
    let (_, read) = replay("answers", checks::answers);
    assert!(read >= 5, "{read} with a usage");
}

#[test]
fn events_put_together_are_the_stream() {
    let (_, read) = replay("events", checks::events);
    assert!(read >= 5, "{read} with events");
}
