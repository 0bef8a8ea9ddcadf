//! The seeds of the fuzz target, run through the same check.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(unreachable_pub, reason = "the fuzz targets use it as a library")]
#[path = "../fuzz/src/lib.rs"]
mod checks;

use std::fs;
use std::path::Path;

use checks::Outcome;

#[test]
fn archives_are_taken_in_whole_or_not_at_all() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/import");
    let (mut refused, mut imported) = (0, 0);
    for seed in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        for end in (0..bytes.len()).step_by(50) {
            checks::import(&bytes[..end]);
        }
        match checks::import(&bytes) {
            Outcome::Refused => refused += 1,
            Outcome::Imported => imported += 1,
        }
    }
    assert!(refused >= 5 && imported >= 2, "{refused} refused, {imported} imported");
}
