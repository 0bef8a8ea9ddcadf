//! Whatever a file is cut into, and whoever reads the pieces: the same comes out.

use std::fmt::Write as _;
use std::io::Write as _;

use super::*;

fn said(files: &[(&str, &str)], threads: usize, cut: Cut) -> String {
    let open = |(name, content): &(&str, &str)| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        Input::new((*name).to_owned(), file).unwrap()
    };
    let inputs: Vec<Input> = files.iter().map(open).collect();
    let options = Options { threads, passed: &|_| {} };
    serde_json::to_string_pretty(&describe_cut(&inputs, &options, cut).unwrap()).unwrap()
}

#[track_caller]
fn check(files: &[(&str, &str)]) {
    let whole = said(files, 1, Cut::default());
    for window in [4096, 4999, 1 << 16] {
        for block in [1 << 10, 1 << 13, 1 << 16] {
            for threads in [1, 2, 5] {
                let cut = Cut { window, block };
                let pieces = said(files, threads, cut);
                let differs = whole.lines().zip(pieces.lines()).find(|(a, b)| a != b);
                assert_eq!(differs, None, "{cut:?}, {threads} threads");
                assert_eq!(whole.len(), pieces.len());
            }
        }
    }
}

/// A record with all that is awkward to cut: texts longer than what is kept of
/// them, escapes, characters of several bytes, long numbers, ids as keys.
fn record(n: u32) -> String {
    let mixed = n.wrapping_mul(2_654_435_761) >> 7;
    let mut text = format!(
        r#"{{"id":"r{n}","of":"r{}","kind":"{}","day":"2026-{:02}-{:02}","n":{mixed},"share":{}.{:03}"#,
        mixed % 900,
        ["call", "mail", "größer", "a \"quoted\" one"][mixed as usize % 4].replace('"', "\\\""),
        mixed % 12 + 1,
        mixed % 28 + 1,
        mixed % 50,
        mixed % 8 * 125,
    );
    let _ = write!(text, r#","by":{{"user_{}":[{n},null]}}"#, mixed % 3000);
    if n.is_multiple_of(3) {
        let _ = write!(text, r#", "note" : "{}\né\u00e9\\""#, "wörter ".repeat(n as usize % 400));
    }
    if n.is_multiple_of(7) {
        let _ = write!(text, r#","big":1{},"e":-2.5e3,"nan":NaN"#, "0".repeat(n as usize % 1500));
    }
    text + "}"
}

#[test]
fn json_lines_are_described_the_same_however_they_are_cut() {
    let mut lines = String::new();
    for n in 0..1200 {
        lines += &record(n);
        lines += match n % 100 {
            0 => "\r\n\n",
            50 => "\n{\"not\": json\n",
            _ => "\n",
        };
    }
    check(&[("records.jsonl", &lines), ("more.jsonl", &lines[..lines.len() / 2])]);
}

#[test]
fn a_json_document_and_a_table_are_described_the_same_however_they_are_cut() {
    let records: Vec<String> = (0..300).map(record).collect();
    let mut table = "id,record,what\n".to_owned();
    for n in 0..300 {
        let _ = writeln!(table, "{n},r{},\"{} \"\"{}\"\"\n é\"", n % 90, n * n, "x".repeat(n * 5));
    }
    check(&[("records.json", &format!("[{}]", records.join(" ,\n"))), ("notes.csv", &table)]);
}
