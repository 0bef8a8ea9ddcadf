//! Not a measurement: bounds that only something much too slow would break, in time on
//! the CPU, which a busy machine does not stretch.

use std::time::Duration;

use crate::ask::{World, get, say};

#[test]
fn ten_thousand_exchanges_are_no_burden() {
    const COUNT: usize = 10_000;
    let world = World::new();
    let begun = computed();
    let recorder = world.recorder();
    for number in 0..COUNT {
        get(&format!("https://a.org/{number}")).gets(&recorder, "text/plain", b"small");
    }
    let recorded = computed() - begun;
    let player = world.player();
    let opened = computed() - begun - recorded;
    for number in 0..COUNT {
        get(&format!("https://a.org/{number}")).found(&player);
    }
    let played = computed() - begun - recorded - opened;
    let missing = computed();
    for number in 0..20 {
        say(&format!("{number}")).missed(&player);
        get(&format!("https://a.org/x{number}")).missed(&player);
    }
    let missed = (computed() - missing) / 40;
    let line =
        format!("recorded {recorded:?}, opened {opened:?}, played {played:?}, miss {missed:?}");
    assert!(recorded < Duration::from_secs(120), "{line}");
    assert!(opened < Duration::from_secs(20), "{line}");
    assert!(played < Duration::from_secs(60), "{line}");
    assert!(missed < Duration::from_secs(2), "{line}");
    assert!(played > Duration::ZERO, "{line}: the clock stands still");
}

/// What this thread has computed so far: proc_pid_stat(5), in hundredths of a second.
fn computed() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The name before it may hold anything.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = |field: usize| -> u64 {
        fields.split(' ').nth(field - 3).and_then(|text| text.parse().ok()).unwrap()
    };
    let (user, system) = (14, 15);
    Duration::from_millis(10 * (ticks(user) + ticks(system)))
}
