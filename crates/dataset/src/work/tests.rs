//! Whatever a file is cut into, and whoever reads the pieces: the same comes out.

use std::fmt::Write as _;
use std::io::Write as _;

use parquet::data_type::Int32Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::problem::What;

fn input(name: &str, content: &[u8]) -> Input {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    Input::new(name.to_owned(), file).unwrap()
}

fn said(files: &[(&str, &str)], threads: usize, cut: Cut) -> String {
    let inputs: Vec<Input> =
        files.iter().map(|(name, content)| input(name, content.as_bytes())).collect();
    let options = Options { threads, passed: &|_| {} };
    serde_json::to_string_pretty(&describe_cut(&inputs, &options, cut).unwrap()).unwrap()
}

#[track_caller]
fn check(files: &[(&str, &str)]) {
    let whole = said(files, 1, Cut::default());
    for window in [4096, 4999, 1 << 16] {
        for block in [1 << 10, 1 << 13, 1 << 16] {
            for threads in [1, 2, 5] {
                let cut = Cut { window, block, ..Cut::default() };
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

/// A million equal values take some hundred bytes.
#[test]
fn a_table_of_endless_equal_values_is_read_up_to_a_bound_and_told() {
    let schema =
        parse_message_type("message m { required int32 id; required int32 more; }").unwrap();
    let properties = WriterProperties::builder().set_data_page_row_count_limit(usize::MAX).build();
    let mut writer =
        SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        column.typed::<Int32Type>().write_batch(&vec![7; 1 << 20], None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    let bytes = writer.into_inner().unwrap();
    let values = (1 << 20) - 256 * bytes.len() as u64;
    let inputs = [input("endless.parquet", &bytes)];
    let options = Options { threads: 1, passed: &|_| {} };
    let cut = Cut { values, ..Cut::default() };
    let dataset = describe_cut(&inputs, &options, cut).unwrap().datasets.remove(0);
    // Half of the rows: there are two columns.
    assert_eq!(dataset.rows, 1 << 20);
    assert!(
        dataset.root.fields.iter().all(|field| field.types.int == 1 << 19),
        "{:?}",
        dataset.root
    );
    let unread = dataset.problems.iter().find(|problem| problem.what == What::UnreadRows).unwrap();
    assert_eq!(unread.count, 1 << 19);
    assert!(dataset.keys.is_empty());
    let whole = describe_cut(&inputs, &options, Cut::default()).unwrap().datasets.remove(0);
    assert!(whole.problems.is_empty() && whole.root.fields[0].types.int == 1 << 20);
}
