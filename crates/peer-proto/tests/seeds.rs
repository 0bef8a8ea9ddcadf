//! The seeds of the fuzz target, run through the same check.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(unreachable_pub, reason = "the fuzz targets use it as a library")]
#[path = "../fuzz/src/lib.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn messages_are_written_as_they_were_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/messages");
    let mut read = 0;
    for seed in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        for end in 0..bytes.len() {
            checks::messages(&bytes[..end]);
        }
        read += usize::from(checks::messages(&bytes) > 0);
    }
    assert!(read >= 10, "{read}");
}
