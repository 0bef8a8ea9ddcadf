//! The seeds of the fuzz target, run through the same check.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(unreachable_pub, reason = "the fuzz targets use it as a library")]
#[path = "../fuzz/src/lib.rs"]
mod checks;

use std::fs;
use std::path::Path;

use checks::Outcome;

#[test]
fn layers_are_unpacked_or_refused_and_nothing_beside_them_changes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/unpack");
    let (mut refused, mut unpacked) = (0, 0);
    for seed in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        for end in (0..bytes.len()).step_by(300) {
            checks::unpack(&bytes[..end]);
        }
        match checks::unpack(&bytes) {
            Outcome::Refused => refused += 1,
            Outcome::Unpacked => unpacked += 1,
        }
    }
    assert!(refused >= 4 && unpacked >= 5, "{refused} refused, {unpacked} unpacked");
}
