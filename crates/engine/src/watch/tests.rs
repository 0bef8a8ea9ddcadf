use super::*;

fn process(pid: u32, own_ticks: u64, children_ticks: u64) -> Process {
    Process {
        pid,
        started: 1,
        is_dead: false,
        threads: 1,
        own_ticks,
        children_ticks,
        resident_pages: 10,
        faults: 10,
    }
}

#[test]
fn growth_since_a_measurement_is_never_missed() {
    let parts = |process: &Process| (process.started, process.resident_pages, process.faults);
    let before = [process(1, 0, 0), process(2, 0, 0)];
    let seen = before.iter().map(|process| (process.pid, parts(process))).collect();
    let measured = Measurement { bytes: 1000, file_bytes: 100, seen };
    assert_eq!(measured.most_now(&before, 100, 1), 1000);
    // A shared page was written to, and so copied: as much is resident as before.
    let copied = Process { faults: 17, ..before[1] };
    assert_eq!(measured.most_now(&[before[0], copied], 100, 1), 1007);
    let grown = Process { resident_pages: 15, ..before[1] };
    assert_eq!(measured.most_now(&[before[0], grown], 130, 1), 1035);
    // One that is new, or has the pid of another, counts with all that it has.
    let other = Process { started: 9, ..before[1] };
    assert_eq!(measured.most_now(&[before[0], other], 100, 1), 1020);
    assert_eq!(measured.most_now(&before[..1], 90, 1), 1000);
}

#[test]
fn time_of_children_that_were_waited_for_counts_once() {
    let mut tally = Tally::default();
    tally.count(&[process(1, 900, 0), process(2, 10, 0), process(3, 70, 0)], 1, 2);
    assert_eq!(tally.ticks, 80);
    tally.count(&[process(1, 900, 0), process(2, 10, 75)], 1, 1);
    assert_eq!(tally.ticks, 85);
    // Reaped by the guest in the end, which knows the whole sum.
    tally.count(&[process(1, 900, 90)], 1, 0);
    assert_eq!(tally.ticks, 90);
}

#[test]
fn time_of_children_that_nobody_waited_for_counts_as_it_was_seen() {
    let mut tally = Tally::default();
    for child in 3..8 {
        tally.count(&[process(1, 0, 0), process(2, 1, 0), process(child, 30, 0)], 1, 2);
    }
    tally.count(&[process(1, 0, 0), process(2, 1, 0)], 1, 1);
    assert_eq!(tally.ticks, 151);
}

#[test]
fn less_that_is_left_is_looked_at_sooner() {
    let quick = Duration::from_micros(50);
    assert_eq!(pause(1 << 30, 1, quick), LONGEST_PAUSE);
    assert_eq!(pause(64 << 20, 1, quick), Duration::from_millis(15));
    assert_eq!(pause(64 << 20, 2, quick), Duration::from_millis(7));
    assert_eq!(pause(0, 1, quick), SHORTEST_PAUSE);
    // A look that takes long comes seldom, but it comes.
    assert_eq!(pause(0, 1, Duration::from_millis(4)), Duration::from_millis(80));
    assert_eq!(pause(0, 1, Duration::from_secs(9)), MAX_PAUSE);
}

#[test]
fn sandbox_over_its_memory_loses_all_but_the_guest() {
    let hungry = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 60";
    let mut guest = std::process::Command::new("sh")
        .args(["-c", &format!("sh -c \"{hungry}\" & wait; exec sleep 60")])
        .spawn()
        .unwrap();
    let limits = Limits { memory_bytes: 20 << 20, ..Limits::default() };
    let watch = Watch::new(Tier::Process, guest.id(), None, &limits).unwrap();
    let is_over = || {
        watch.look();
        Ok((watch.oom_kills() > 0).then_some(()))
    };
    crate::wait::until(Duration::from_secs(30), is_over).unwrap();
    assert_eq!((watch.oom_kills(), watch.refused_processes()), (1, 0));
    assert!(guest.try_wait().unwrap().is_none(), "the guest lives on");
    guest.kill().unwrap();
    guest.wait().unwrap();
}
