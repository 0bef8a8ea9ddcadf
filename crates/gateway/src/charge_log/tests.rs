//! The log without a gateway: kills are a drop, or a log that is forgotten with its lock let go.

use std::fs::OpenOptions;
use std::io::Write as _;

use belljar_domain::SandboxId;
use belljar_domain::network::{Bytes, CallRef, Charge, Decision, Kind, Process, Reason, Subject};

use super::*;

const FIRST: &str = "00000000000000000000000000000001";
const SECOND: &str = "00000000000000000000000000000002";
const THIRD: &str = "00000000000000000000000000000003";

fn row(log: &ChargeLog) -> Row {
    let charge = Charge {
        model: "m".to_owned(),
        input: 10,
        cache_read: 0,
        cache_write: 0,
        output: 100,
        nano_dollars: 1000,
        assumed: false,
        estimated: true,
    };
    Row {
        sequence: 0,
        within: None,
        subject: Subject {
            tenant: "ann".to_owned(),
            sandbox: SandboxId::from_random([1; 16]),
            run: None,
            turn: None,
            call: None,
            process: None,
        },
        kind: Kind::Operation,
        decision: Decision::Failed,
        reason: Reason::Ended,
        host: None,
        port: None,
        address: None,
        method: None,
        path: None,
        status: None,
        operation: Some("llm".to_owned()),
        charge_id: Some(log.next_id()),
        charge: Some(charge),
        bytes: Bytes::default(),
        began: 7,
        first_byte_micros: None,
        micros: 0,
    }
}

fn open(root: &Path, epoch: &str) -> ChargeLog {
    ChargeLog::open(root, epoch.to_owned()).unwrap()
}

/// The row of a request that has ended, with what it really cost.
fn ended(mut row: Row) -> Row {
    if let Some(charge) = &mut row.charge {
        (charge.output, charge.nano_dollars, charge.estimated) = (3, 30, false);
    }
    row
}

fn ids(rows: &[Row]) -> Vec<String> {
    rows.iter().filter_map(|row| row.charge_id.clone()).collect()
}

fn costs(rows: &[Row]) -> Vec<(u64, bool)> {
    let charges = rows.iter().filter_map(|row| row.charge.as_ref());
    charges.map(|charge| (charge.nano_dollars, charge.estimated)).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_killed_process_leaves_ended_requests_and_reservations() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let (whole, cut, stored) = (row(&log), row(&log), row(&log));
    for row in [&whole, &cut, &stored] {
        log.begin(row).await.unwrap();
    }
    log.end(&ended(whole.clone()));
    log.end(&ended(stored.clone()));
    log.charged(&ids(&[stored]));
    // Another process of the same time takes nothing over.
    let other = open(root.path(), THIRD);
    assert!(other.take_over().unwrap().is_empty());
    drop(log);
    let next = open(root.path(), SECOND);
    let rows = next.take_over().unwrap();
    // A charge is not forgotten over a kill: its id is charged once.
    assert_eq!(costs(&rows), [(30, false), (1000, true), (30, false)]);
    assert_eq!(rows[..2], [ended(whole), cut]);
    let report = next.report();
    assert_eq!((report.replayed_ended, report.replayed_estimated), (2, 1));
    assert!(other.take_over().unwrap().is_empty(), "it has an owner again");
    next.charged(&ids(&rows[1..]));
    assert!(root.path().join(FIRST).exists());
    next.charged(&ids(&rows[..1]));
    assert!(!root.path().join(FIRST).exists());
    assert!(!lock_path(root.path(), FIRST).exists());
}

#[tokio::test]
async fn a_replay_that_is_interrupted_is_repeated_with_the_same_ids() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let all: Vec<_> = (0..4).map(|_| row(&log)).collect();
    for row in &all {
        log.begin(row).await.unwrap();
    }
    log.end(&ended(all[2].clone()));
    drop(log);
    let second = open(root.path(), SECOND);
    let first_time = second.take_over().unwrap();
    second.charged(&ids(&first_time[..2]));
    drop(second);
    let third = open(root.path(), THIRD);
    let again = third.take_over().unwrap();
    assert_eq!(first_time, again);
    assert!(third.take_over().unwrap().is_empty(), "once for each process");
    third.charged(&ids(&again));
    drop(third);
    let last = open(root.path(), FIRST);
    assert!(last.take_over().unwrap().is_empty());
}

#[tokio::test]
async fn a_torn_or_changed_record_spoils_no_other() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let (first, second, third) = (row(&log), row(&log), row(&log));
    log.begin(&first).await.unwrap();
    log.begin(&second).await.unwrap();
    drop(log);
    let path = root.path().join(FIRST).join("0000000000.log");
    let whole = fs::read(&path).unwrap();
    let end = record::encode(Stage::End, &ended(third.clone())).unwrap();
    for (text, requests, unreadable) in [
        // The last write was cut.
        ([&whole[..], &end[..end.len() / 2]].concat(), 2, 1),
        // A block of zeros, as some file systems leave it after a power loss.
        ([&whole[..], &[0; 4096][..]].concat(), 2, 1),
        // A number was changed: the checksum tells.
        (String::from_utf8(whole.clone()).unwrap().replacen("1000", "9000", 1).into_bytes(), 1, 1),
        // The beginning was lost, and the end is there.
        ([&whole[..10], &b"\n"[..], &end[..]].concat(), 1, 1),
        (Vec::new(), 0, 0),
    ] {
        fs::write(&path, &text).unwrap();
        let found = replay::read(&root.path().join(FIRST), FIRST).unwrap();
        assert_eq!((found.requests.len(), found.unreadable), (requests, unreadable));
    }
    // An append after a write that failed half-way begins on a line of its own.
    fs::write(&path, b"half a record").unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"\n").unwrap();
    file.write_all(&end).unwrap();
    let found = replay::read(&root.path().join(FIRST), FIRST).unwrap();
    assert_eq!((found.requests.len(), found.unreadable), (1, 1));
}

#[tokio::test]
async fn segments_follow_each_other_and_go_when_they_are_charged() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let folder = root.path().join(FIRST);
    let mut rows = Vec::new();
    while names(&folder).len() < 3 {
        let mut row = row(&log);
        row.path = Some("p".repeat(4 << 10));
        log.begin(&row).await.unwrap();
        log.end(&ended(row.clone()));
        rows.push(row);
    }
    assert!(log.report().bytes > 2 * segments::SEGMENT_BYTES);
    let found = replay::read(&folder, FIRST).unwrap();
    assert_eq!((found.requests.len(), found.unreadable), (rows.len(), 0));
    // All but the first: its segment is the oldest, so none goes.
    log.charged(&ids(&rows[1..]));
    assert_eq!(names(&folder).len(), 3);
    log.charged(&ids(&rows[..1]));
    assert_eq!(names(&folder), ["0000000002.log"]);
    assert_eq!(log.report().bytes, 0, "the last one is emptied");
    // It goes on from there.
    let more = row(&log);
    log.begin(&more).await.unwrap();
    drop(log);
    assert_eq!(open(root.path(), SECOND).take_over().unwrap(), [more]);
}

/// A client that reads its answer slowly must not fill the log for others.
#[tokio::test]
async fn a_request_that_takes_long_holds_up_nothing() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let long = row(&log);
    log.begin(&long).await.unwrap();
    let mut written = 0;
    while written < 3 * segments::CARRY_ABOVE {
        let mut row = row(&log);
        row.path = Some("p".repeat(12 << 10));
        log.begin(&row).await.unwrap();
        log.end(&ended(row.clone()));
        log.sent(&row);
        log.charged(&ids(&[row]));
        written += 24 << 10;
    }
    assert!(log.report().bytes <= segments::CARRY_ABOVE + 2 * segments::SEGMENT_BYTES);
    assert!(!names(&root.path().join(FIRST)).contains(&"0000000000.log".to_owned()));
    drop(log);
    let rows = open(root.path(), SECOND).take_over().unwrap();
    assert_eq!(rows.iter().filter(|row| **row == long).count(), 1);
    // Of those that were charged, the last segments have some: their ids are known.
    assert!(costs(&rows).iter().all(|cost| [(30, false), (1000, true)].contains(cost)));
}

#[tokio::test]
async fn the_log_is_bounded_and_refuses_what_it_cannot_have() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let mut refused = None;
    // A record has at least 300 bytes.
    for _ in 0..segments::MAX_LOG_BYTES / 300 {
        let mut row = row(&log);
        row.path = Some("p".repeat(12 << 10));
        if let Err(error) = log.begin(&row).await {
            refused = Some(error);
            break;
        }
    }
    assert!(matches!(refused, Some(ChargeLogError::Full(_))));
    assert!(log.report().bytes < segments::MAX_LOG_BYTES + (16 << 10));
}

/// Control was away, and is back: one client that does not read its answer must not keep the log
/// full.
#[tokio::test]
async fn a_full_log_has_room_again_when_its_rows_are_stored() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let long = row(&log);
    log.begin(&long).await.unwrap();
    let mut others = Vec::new();
    loop {
        let mut row = row(&log);
        row.path = Some("p".repeat(12 << 10));
        if log.begin(&row).await.is_err() {
            break;
        }
        others.push(row);
    }
    log.charged(&ids(&others));
    assert!(log.report().bytes >= segments::MAX_LOG_BYTES, "the oldest segment counts");
    let more = row(&log);
    log.begin(&more).await.unwrap();
    assert!(log.report().bytes <= segments::CARRY_ABOVE + segments::SEGMENT_BYTES);
    drop(log);
    let rows = open(root.path(), SECOND).take_over().unwrap();
    for kept in [&long, &more] {
        assert_eq!(rows.iter().filter(|row| *row == kept).count(), 1);
    }
}

/// Processes that are killed again and again fill no disk.
#[tokio::test]
async fn logs_that_were_taken_over_count_for_the_bound() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let left = row(&log);
    log.begin(&left).await.unwrap();
    drop(log);
    let path = root.path().join(FIRST).join("0000000000.log");
    // Zeros, which take no room on the disk of this test.
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(segments::MAX_LOG_BYTES).unwrap();
    let next = open(root.path(), SECOND);
    let rows = next.take_over().unwrap();
    assert_eq!(rows, [left]);
    let refused = next.begin(&row(&next)).await;
    assert!(matches!(refused, Err(ChargeLogError::Full(_))), "{refused:?}");
    next.charged(&ids(&rows));
    next.begin(&row(&next)).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_spoils_no_other() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let left = row(&log);
    log.begin(&left).await.unwrap();
    drop(log);
    // A folder in the place of a segment.
    fs::create_dir_all(root.path().join(THIRD).join("0000000000.log")).unwrap();
    assert_eq!(open(root.path(), SECOND).take_over().unwrap(), [left]);
}

#[tokio::test]
async fn a_log_with_many_requests_is_replayed_in_batches() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let all: Vec<_> = (0..MAX_RESENT + 10).map(|_| row(&log)).collect();
    for row in &all {
        log.begin(row).await.unwrap();
    }
    drop(log);
    let before = Instant::now();
    let next = open(root.path(), SECOND);
    let first = next.take_over().unwrap();
    assert_eq!(first, all[..MAX_RESENT]);
    assert!(!next.is_next_batch_due(before));
    assert!(next.overdue(before).is_empty(), "the first ones are not stored yet");
    next.charged(&ids(&first));
    assert!(next.is_next_batch_due(before));
    let rest = next.overdue(before);
    assert_eq!(rest, all[MAX_RESENT..]);
    assert!(!next.is_next_batch_due(before));
    next.charged(&ids(&rest));
    assert!(!root.path().join(FIRST).exists());
}

#[tokio::test]
async fn appends_of_many_tasks_are_all_there_and_share_syncs() {
    const TASKS: usize = 64;
    let root = tempfile::tempdir().unwrap();
    let log = std::sync::Arc::new(open(root.path(), FIRST));
    log.set_durability(Durability::PowerLoss);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let log = log.clone();
        tasks.spawn(async move {
            let row = row(&log);
            log.begin(&row).await.unwrap();
            log.end(&ended(row));
        });
    }
    tasks.join_all().await;
    let report = log.report();
    assert_eq!(report.appends, 2 * TASKS as u64);
    assert!((1..=TASKS as u64).contains(&report.syncs), "{}", report.syncs);
    let found = replay::read(&root.path().join(FIRST), FIRST).unwrap();
    assert_eq!((found.requests.len(), found.unreadable), (TASKS, 0));
}

#[tokio::test]
async fn rows_that_were_lost_on_their_way_are_sent_again() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let (under_way, lost, stored) = (row(&log), row(&log), row(&log));
    for row in [&under_way, &lost, &stored] {
        log.begin(row).await.unwrap();
    }
    for row in [&lost, &stored] {
        log.end(&ended(row.clone()));
        log.sent(row);
    }
    log.charged(&ids(&[stored]));
    let now = Instant::now() + Duration::from_secs(1);
    assert_eq!(log.overdue(now), [ended(lost)]);
    let earlier = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    assert!(log.overdue(earlier).is_empty(), "it was sent again just now");
}

/// After an outage, many rows are overdue at once. The queue that they go to has rows of others.
#[tokio::test]
async fn many_lost_rows_are_sent_again_in_batches() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let all: Vec<_> = (0..MAX_RESENT + 10).map(|_| row(&log)).collect();
    for row in &all {
        log.begin(row).await.unwrap();
        log.sent(row);
    }
    let before = Instant::now();
    let first = log.overdue(before);
    assert_eq!(first, all[..MAX_RESENT]);
    assert!(log.overdue(before).is_empty(), "the first ones are not stored yet");
    log.charged(&ids(&first));
    assert!(log.is_next_batch_due(before));
    assert_eq!(log.overdue(before), all[MAX_RESENT..]);
}

/// Text that code inside chooses: it is bounded, and ends no line.
#[test]
fn no_field_makes_a_record_longer_than_its_bound_or_two_lines() {
    let root = tempfile::tempdir().unwrap();
    let log = open(root.path(), FIRST);
    let mut hostile = row(&log);
    let long = |length: usize| "\u{1}\n\"\\".repeat(length / 4);
    hostile.path = Some(long(8 << 10));
    hostile.method = Some(long(8 << 10));
    hostile.subject.process = Some(Process { pid: 1, name: long(8 << 10) });
    hostile.subject.call = Some(CallRef { number: 1, name: Some(long(8 << 10)), ended: false });
    if let Some(charge) = &mut hostile.charge {
        charge.model = "m\nx".repeat(60);
    }
    let line = record::encode(Stage::Begin, &hostile).unwrap();
    assert!(line.len() <= record::MAX_RECORD_BYTES);
    assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
    let (stage, read) = record::decode(&line[..line.len() - 1]).unwrap();
    assert_eq!(
        (stage, &read.charge, &read.charge_id),
        (Stage::Begin, &hostile.charge, &hostile.charge_id)
    );
    // A field that cannot be cut is refused, and no request leaves for it.
    if let Some(charge) = &mut hostile.charge {
        charge.model = long(64 << 10);
    }
    assert!(record::encode(Stage::Begin, &hostile).is_err());
}

/// Prints the cost of an append, for the design note. Run it with `--ignored --nocapture`.
#[expect(clippy::print_stdout, reason = "it is a measurement")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn the_cost_of_an_append() {
    const TASKS: u32 = 32;
    const EACH: u32 = 100;
    for durability in [Durability::Kill, Durability::PowerLoss] {
        let root = tempfile::tempdir().unwrap();
        let log = std::sync::Arc::new(open(root.path(), FIRST));
        log.set_durability(durability);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..TASKS {
            let log = log.clone();
            tasks.spawn(async move {
                for _ in 0..EACH {
                    let row = row(&log);
                    log.begin(&row).await.unwrap();
                    log.end(&ended(row));
                }
            });
        }
        tasks.join_all().await;
        let report = log.report();
        let mean = report.append_micros / report.appends;
        println!("{durability:?}: {mean} µs for each append, {} syncs", report.syncs);
    }
}
