//! The seeds of the fuzz targets, run through the same checks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(unreachable_pub, reason = "the fuzz targets use it as a library")]
#[path = "../fuzz/src/lib.rs"]
mod checks;

use std::fs;
use std::path::Path;

use checks::Outcome;

/// Every seed, and every beginning of it. Returns how many whole ones came out how.
fn replay(target: &str, check: fn(&[u8]) -> Outcome) -> [usize; 3] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut found = [0; 3];
    for seed in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        for end in 0..bytes.len() {
            check(&bytes[..end]);
        }
        let place = match check(&bytes) {
            Outcome::Refused => 0,
            Outcome::Ours => 1,
            Outcome::Both => 2,
        };
        found[place] += 1;
    }
    found
}

#[test]
fn requests_are_read_as_hyper_reads_them() {
    let [refused, ours, both] = replay("http1", checks::http1);
    assert!(refused > 0 && both >= 8, "{refused} refused, {ours} by hyper only, {both} read alike");
}

#[test]
fn chunks_are_read_as_hyper_reads_them() {
    let [refused, _, both] = replay("chunked", checks::chunked);
    assert!(refused > 0 && both >= 3, "{refused} refused, {both} read alike");
}

#[test]
fn greetings_are_read_as_rustls_reads_them() {
    let [refused, _, both] = replay("hello", checks::hello);
    assert!(refused > 0 && both >= 4, "{refused} refused, {both} read alike");
}

#[test]
fn socks_requests_are_read_the_same_however_they_arrive() {
    let [refused, _, both] = replay("socks5", checks::socks5);
    assert!(refused > 0 && both >= 3, "{refused} refused, {both} read");
}
