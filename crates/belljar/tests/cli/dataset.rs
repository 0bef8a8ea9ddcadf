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
    ran.expect_status(1).expect_words(&["cannot unpack `packed.json` (gzip)", "hint: it may be"]);
    let ran = place.run(&["dataset", "describe", "."]);
    ran.expect_status(1).expect_words(&["`.` is a directory", "hint: name the files in it: ./*"]);
    place.write("header.csv", "order_id,region\n");
    let ran = place.run(&["dataset", "describe", "header.csv"]);
    let told = "`header.csv` has a header (order_id, region) and no rows";
    ran.expect_status(1).expect_words(&[told, "hint: there is nothing in it"]);
    place.write("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1");
    let ran = place.run(&["dataset", "describe", "old.xls"]);
    ran.expect_status(1).expect_words(&["an old Excel file (.xls)", "hint: save it as .xlsx"]);
    place.write("empty.csv", "");
    let ran = place.run(&["dataset", "describe", "empty.csv"]);
    ran.expect_status(1).expect_words(&["`empty.csv` is empty", "hint: "]);
}

#[test]
fn files_that_spreadsheets_write_are_described_by_the_sealed_worker() {
    let place = Place::new();
    place.write("cities.csv", b"stadt;umsatz\nK\xf6ln;1.234,50\nM\xfcnchen;7,25\n");
    let mut gzip = Command::new("gzip");
    let packed = gzip.args(["-k", "cities.csv"]).current_dir(place.path()).status();
    assert!(packed.unwrap().success());
    for name in ["cities.csv", "cities.csv.gz"] {
        let document = place.run(&["dataset", "describe", "--json", name]).expect_status(0).json();
        let dataset = &document["datasets"][0];
        assert_eq!((&dataset["rows"], &dataset["encoding"]), (&2.into(), &"latin-1".into()));
        let fields = &dataset["root"]["fields"];
        assert_eq!(fields[0]["values"][0][0], "Köln");
        assert_eq!(fields[1]["numbers"]["max"], 1234.5);
    }
}

#[test]
fn questions_without_anything_to_answer_from_are_refused_at_once() {
    let place = Place::new();
    place.write("empty.csv", "");
    for (data, told) in [
        (&[][..], "there is no data to answer from"),
        (&["--data", "empty.csv"], "`empty.csv` is empty"),
        (&["--data", "."], "`.` is a directory"),
        (&["--data", "none.csv"], "cannot open `none.csv`"),
    ] {
        let ran = place.run(&[&["ask", "How many orders?"][..], data].concat());
        ran.expect_status(125).expect_words(&[told, "hint: "]);
    }
}

#[test]
fn a_worker_that_gets_no_files_says_so_and_ends() {
    let mut command = Command::new(BELLJAR);
    let output = command.arg0("belljar-describe").stdin(Stdio::null()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("{\"failed\":"));
}
