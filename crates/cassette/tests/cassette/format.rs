//! The index is a format that is kept: what was recorded once is played by
//! every version after it.

use std::fs;
use std::time::Duration;

use belljar_cassette::Digest;

use crate::ask::{World, get, id, say};

const GOLDEN: &str = include_str!("index.jsonl");

#[test]
fn the_lines_of_an_index_are_as_they_were() {
    let world = World::new();
    let recorder = world.recorder();
    get("https://index.example.org/simple/?b=2&a=1&token=0123456789abcdef")
        .with("User-Agent", "pip/25")
        .with("Accept", "text/html")
        .with("Authorization", "Basic abc")
        .gets_with(
            &recorder,
            200,
            &[("Content-Type", "text/html"), ("Set-Cookie", "a=b; Secure")],
            b"<a>",
        );
    let begun = recorder.begin(&say(r#"{"stream": true, "model": "m"}"#).view()).unwrap();
    let mut exchange = begun.answer(200, &[("content-type", b"text/event-stream")]).unwrap();
    exchange.push_at(Duration::from_micros(1500), b"data: 1\n\n").unwrap();
    exchange.push_at(Duration::from_micros(2500), b"data: 2\n\n").unwrap();
    exchange.finish().unwrap();
    let begun = recorder.begin(&get("http://[2001:db8::1]:8080/\u{7e}x").view()).unwrap();
    let mut exchange =
        begun.answer(206, &[("content-length", b"10"), ("x-latin", b"caf\xe9")]).unwrap();
    exchange.push(b"half").unwrap();
    exchange.abort().unwrap();

    let tenant = world.folder.path().join("tapes").join(Digest::of(b"acme").to_string());
    let index =
        fs::read_to_string(tenant.join("cassettes").join(id("a").as_str()).join("index.jsonl"));
    expect_test::expect_file!["index.jsonl"].assert_eq(&index.unwrap());
}

#[test]
fn old_lines_can_be_read() {
    let lines = GOLDEN.lines().filter(|line| !line.is_empty());
    let entries: Vec<belljar_cassette::Entry> =
        lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 3);
    for (entry, line) in entries.iter().zip(GOLDEN.lines()) {
        assert_eq!(serde_json::to_string(entry).unwrap(), line);
    }
}
