//! `belljar dataset describe`, through its sealed worker.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::harness::{BELLJAR, Place};

#[test]
fn files_are_described_as_text_as_json_and_as_a_drawing() {
    let place = Place::new();
    place.write(
        "deals.json",
        r#"[{"id":"d_1","won":true},{"id":"d_2","won":false},{"id":"d_3","won":true}]"#,
    );
    place.write("calls.csv", "call_id,deal_id\n1,d_1\n2,d_1\n3,d_2\n4,d_3\n");
    let ran = place.run(&["dataset", "describe", "deals.json", "calls.csv", "--svg", "out.svg"]);
    let text = String::from_utf8(ran.expect_status(0).stdout.clone()).unwrap();
    assert!(text.contains("deals (deals.json, JSON") && text.contains("3 records"), "{text}");
    assert!(text.contains("calls.deal_id → deals.id: 100 %"), "{text}");
    assert!(place.read("out.svg").starts_with(b"<svg"));
    let ran = place.run(&["dataset", "describe", "--json", "deals.json", "calls.csv"]);
    let document = ran.expect_status(0).json();
    assert_eq!(document["version"], 1);
    assert_eq!(document["datasets"][1]["rows"], 4);
    assert_eq!(document["relationships"][0]["cardinality"], "N:1");
}

#[test]
fn what_cannot_be_described_is_named_and_a_way_on_is_shown() {
    let place = Place::new();
    let ran = place.run(&["dataset", "describe", "none.json"]);
    ran.expect_status(1).expect_words(&["cannot open `none.json`", "No such file"]);
    let ran = place.run(&["dataset", "describe", "/dev/null"]);
    ran.expect_status(1).expect_words(&["not a regular file", "hint: "]);
    place.write("packed.json", b"\x1f\x8b\x08\x00");
    let ran = place.run(&["dataset", "describe", "packed.json"]);
    ran.expect_status(1).expect_words(&["compressed with gzip", "hint: gunzip"]);
    place.write("empty.csv", "");
    let ran = place.run(&["dataset", "describe", "empty.csv"]);
    ran.expect_status(1).expect_words(&["`empty.csv` is empty", "hint: "]);
}

#[test]
fn a_worker_that_gets_no_files_says_so_and_ends() {
    let mut command = Command::new(BELLJAR);
    let output = command.arg0("belljar-describe").stdin(Stdio::null()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("{\"failed\":"));
}
