//! Not a measurement: bounds that only something much too slow would break.

use std::time::{Duration, Instant};

use crate::ask::{World, get, say};

#[test]
fn ten_thousand_exchanges_are_no_burden() {
    const COUNT: usize = 10_000;
    let world = World::new();
    let begun = Instant::now();
    let recorder = world.recorder();
    for number in 0..COUNT {
        get(&format!("https://a.org/{number}")).gets(&recorder, "text/plain", b"small");
    }
    let recorded = begun.elapsed();
    let player = world.player();
    let opened = begun.elapsed() - recorded;
    for number in 0..COUNT {
        get(&format!("https://a.org/{number}")).found(&player);
    }
    let played = begun.elapsed() - recorded - opened;
    let missing = Instant::now();
    for number in 0..20 {
        say(&format!("{number}")).missed(&player);
        get(&format!("https://a.org/x{number}")).missed(&player);
    }
    let missed = missing.elapsed() / 40;
    let line =
        format!("recorded {recorded:?}, opened {opened:?}, played {played:?}, miss {missed:?}");
    assert!(recorded < Duration::from_secs(120), "{line}");
    assert!(opened < Duration::from_secs(20), "{line}");
    assert!(played < Duration::from_secs(60), "{line}");
    assert!(missed < Duration::from_secs(2), "{line}");
}
