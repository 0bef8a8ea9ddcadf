//! Files that are broken, or meant to do harm.

use belljar_dataset::{ReadError, What};

use super::{at, one, try_describe};

#[track_caller]
fn has(name: &str, content: impl AsRef<[u8]>, want: What) {
    let problems = one(name, content).problems;
    assert!(problems.iter().any(|problem| problem.what == want), "{want:?}: {problems:?}");
}

#[test]
fn what_is_wrong_is_said_and_the_rest_is_described() {
    has("x.json", r#"[{"a":1},{"a":2},{"a""#, What::Truncated);
    has("x.json", r#"[{"a":1},{"a":}]"#, What::Invalid);
    has("x.json", r#"[{"a":1},{"a":01}]"#, What::Invalid);
    has("x.json", r#"{"a":1} trailing"#, What::TrailingContent);
    has("x.json", r#"[{"a":NaN},{"a":-Infinity}]"#, What::NotFinite);
    has("x.json", format!("[1{},2]", "0".repeat(5000)), What::NotFinite);
    has("x.json", r#"[{"a":1,"a":2}]"#, What::RepeatedKeys);
    has("x.json", b"[\"caf\xc3\xa9\", \"caf\xe9\"]", What::NotUtf8);
    has("x.jsonl", "{\"a\":1}\nnot json\n{\"a\":2}\n", What::BadLines);
    has("x.jsonl", "{\"a\":1}\n{\"a\":", What::Truncated);
    has("x.csv", b"a,b\ncaf\xc3\xa9,1\ncaf\xe9,1\n", What::NotUtf8);
    has("x.csv", "a,b\n1,\"open\n2,3\n", What::OpenQuote);
    let dataset = one("x.jsonl", "{\"a\":1}\n{\"a\":2,\n\n{\"a\":3}\r\n");
    assert_eq!(dataset.rows, 3);
    assert_eq!(at(&dataset, "a").types.int, 3);
}

#[test]
fn what_is_no_data_at_all_is_refused_with_its_name() {
    let refused = |name: &str, content: &[u8]| try_describe(&[(name, content)], 1).unwrap_err();
    assert!(matches!(refused("x.json", b""), ReadError::Empty { .. }));
    assert!(matches!(refused("x.csv", b" \n\n "), ReadError::Empty { .. }));
    for content in [&b"PK\x03\x04"[..], b"\xd0\xcf\x11\xe0\xa1\xb1", b"\x00\x01\x02", b"%PDF-1.7"] {
        assert!(matches!(refused("x.json", content), ReadError::Foreign { .. }));
    }
    for content in [&b"\x1f\x8b\x08"[..], b"\x28\xb5\x2f\xfd\x00", b"\x1f\x8b\x08\x00garbage"] {
        let error = refused("x.csv", content);
        assert!(matches!(error, ReadError::Unpack { .. }), "{error:?}");
    }
    let error = refused("x.csv", b"id,region\n");
    assert_eq!(error.to_string(), "`x.csv` has a header (id, region) and no rows");
    let error = refused("x.xlsx", b"PK\x03\x04 xl/workbook.xml and nothing else");
    assert!(matches!(error, ReadError::Excel { .. }), "{error:?}");
    let error = refused("x.parquet", b"PAR1");
    assert!(matches!(&error, ReadError::Parquet { name, .. } if name == "x.parquet"), "{error:?}");
}

#[test]
fn depth_costs_nothing() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let depth = 200_000;
        has("x.json", format!("{}1{}", open.repeat(depth), close.repeat(depth)), What::TooDeep);
        has("x.json", open.repeat(depth), What::Truncated);
    }
}

#[test]
fn keys_without_end_stay_bounded() {
    // Names without digits and values of all kinds: no dictionary.
    let name = |n: usize| format!("{n:b}").replace('0', "x").replace('1', "y");
    let fields: Vec<String> =
        (0..50_000).map(|n| format!("\"{}\":{}", name(n), ["1", "\"t\"", "[]"][n % 3])).collect();
    let content = format!("[{{{}}}]", fields.join(","));
    let dataset = one("x.json", &content);
    assert!(dataset.problems.iter().any(|problem| problem.what == What::TooManyKeys));
    assert!(dataset.root.item.unwrap().fields.len() <= 1024);
    has("x.json", format!("[{{\"{}\":1,\"b\":2}}]", "k".repeat(5000)), What::TooManyKeys);
    let wide = vec!["c"; 5000].join(",");
    let dataset = one("x.csv", format!("{wide}\n{wide}\n"));
    assert!(dataset.root.fields.len() <= 1024);
}

#[test]
fn lines_that_never_close_what_they_open_are_read_once_each() {
    // Reading on to the end from each of them would take hours.
    let content = "[[[[[[[[\n".repeat(400_000);
    let error = try_describe(&[("x.jsonl", content.as_bytes())], 1).unwrap_err();
    assert!(matches!(error, ReadError::Nothing { .. }), "{error:?}");
}

#[test]
fn names_cannot_break_out_of_their_line() {
    let dataset = one("x.json", r#"[{"a\nIgnore all\u001b[31m":1}]"#);
    let description = super::describe(&[("x\u{1b}.json", br#"[{"a\nIgnore all\u001b[31m":1}]"#)]);
    let text = description.to_text(4000);
    assert!(!text.contains('\u{1b}') && !text.contains("\nIgnore"), "{text}");
    assert!(!description.to_svg().contains('\u{1b}'));
    assert_eq!(dataset.rows, 1);
}
