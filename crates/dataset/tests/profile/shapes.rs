//! Files as they should be.

use belljar_dataset::{DateZone, Format, Meaning, What};
use expect_test::expect;

use super::{at, describe, one, record, try_describe};

fn deals() -> String {
    let deals: Vec<String> = (0..40)
        .map(|n| {
            let stage = ["open", "won", "lost"][n % 3];
            let contacts: Vec<String> =
                (0..n % 3).map(|k| format!(r#"{{"name":"Contact {k}","email":"c{n}_{k}@example.com"}}"#)).collect();
            let note = if n % 4 == 0 { r#","note":"call back""# } else { "" };
            format!(
                r#"{{"id":"deal_{n:03}","stage":"{stage}","amount":{}.5,"closed":"2026-03-{:02}","contacts":[{}],"transcript":"{}"{note}}}"#,
                1000 + 37 * n,
                n % 28 + 1,
                contacts.join(","),
                "word ".repeat(200 + n)
            )
        })
        .collect();
    format!("[{}]", deals.join(",\n"))
}

fn activities() -> String {
    let mut text = "id;deal_id;at;minutes\n".to_owned();
    for n in 0..100 {
        text +=
            &format!("{n};deal_{:03};2026-03-{:02}T10:00:00Z;{}\n", n % 30, n % 28 + 1, n % 7 * 5);
    }
    text
}

#[test]
fn the_text_says_what_a_model_needs_to_start_with() {
    let (deals, activities) = (deals(), activities());
    let files = [("deals.json", deals.as_bytes()), ("activities.csv", activities.as_bytes())];
    let text = describe(&files).to_text(4000);
    expect![[r#"
        Data as of 2026-03-28 (the latest date in it; not today).

        deals (deals.json, JSON, 48.8 KiB, about 71.2 KiB in pandas): 40 records. Structure of each record: object {7 keys:
          id: string like deal_\d{3} (40 distinct; "deal_000", "deal_001", "deal_002")
          stage: string (one of "open" ×14, "lost" ×13, "won" ×13)
          amount: float (1000.5..2443.5, mean 1722, 5/50/95 %: 1036/1700/2376; 40 distinct)
          closed: date as string (2026-03-01..2026-03-28)
          contacts: array of 0–2 (mean 0.975) x object {2 keys:
            name: string (one of "Contact 0" ×26, "Contact 1" ×13)
            email: email (39 distinct; "c1_0@example.com", "c2_0@example.com", "c2_1@example.com")
          }
          transcript: string (long text, 1098 chars on average: do not print; 40 distinct; "word word word word word word word word word wor…")
          note (optional, in 25 %): string (always "call back")
        }
          key: id
          key of contacts[]: email

        activities (activities.csv, CSV, 3.4 KiB, about 16.6 KiB in pandas): 100 records. Structure of each record: object {4 keys:
          id: int (0..99, mean 49.5, 5/50/95 %: 4/49/94; 100 distinct)
          deal_id: string like deal_\d{3} (30 distinct; "deal_000", "deal_001", "deal_002")
          at: date-time as string (2026-03-01T10:00:00..2026-03-28T10:00:00, UTC)
          minutes: int (one of 0 ×15, 5 ×15, 10 ×14, 15 ×14, 20 ×14, 25 ×14, 30 ×14)
        }
          key: id

        Relationships (proven on the data):
          activities.deal_id → deals.id: 100 % of its values are there, 75 % of deals referred to; N:1, 3.33 each on average
    "#]].assert_eq(&text);
}

#[test]
fn less_room_means_less_detail_and_what_is_left_out_is_counted() {
    let wide: Vec<String> = (0..60)
        .map(|n| {
            let optional: Vec<String> = (0..40)
                .filter(|k| (n + k) % 5 == 0)
                .map(|k| format!(r#""extra_{}":"{n} and {k}""#, letters(k)))
                .collect();
            format!(
                r#"{{"id":"rec_{n}","at":"2026-01-0{}","more":{{"a":1,{}}}}}"#,
                n % 9 + 1,
                optional.join(",")
            )
        })
        .collect();
    let content = wide.join("\n");
    let description = describe(&[("wide.jsonl", content.as_bytes())]);
    let texts: Vec<String> =
        [4000, 600, 120].iter().map(|&tokens| description.to_text(tokens)).collect();
    let lengths: Vec<usize> = texts.iter().map(String::len).collect();
    assert!(lengths.is_sorted_by(|a, b| a > b), "{lengths:?}: {}", texts[1]);
    assert!(texts[1].chars().count() <= 1800 && texts[2].chars().count() <= 360, "{}", texts[2]);
    assert!(texts[1].contains("more optional fields"), "{}", texts[1]);
    for text in &texts {
        assert!(text.contains("key: id") && text.contains("2026-01-09"), "{text}");
    }
}

fn letters(n: usize) -> String {
    [n / 26, n % 26]
        .iter()
        .filter_map(|n| char::from_u32(97 + u32::try_from(*n).unwrap()))
        .collect()
}

#[test]
fn paths_have_presence_types_ranges_and_meanings() {
    let dataset = one(
        "x.json",
        r#"[{"a":1,"b":"2026-03-20T10:00:00+02:00","c":[1,2,3],"m":1700000000000,"u":"https://x/1"},
            {"a":2.5,"b":"2026-03-21T10:00:00Z","c":[],"m":1700000001000,"u":"https://x/2","p":"10%"},
            {"a":null,"b":"2026-03-22T10:00:00Z","c":[4],"m":1700000002000,"u":"https://x/3"},
            {"b":"2026-03-23T10:00:00Z","c":null,"m":1700000003000,"u":"https://x/4","p":"12 %"}]"#,
    );
    assert_eq!((dataset.rows, dataset.format), (4, Format::Json));
    let a = at(&dataset, "a");
    assert_eq!((a.presence, a.types.int, a.types.float, a.types.null), (0.75, 1, 1, 1));
    let b = at(&dataset, "b");
    assert_eq!(b.meaning, Some(Meaning::DateTime));
    let dates = b.dates.as_ref().unwrap();
    assert_eq!((dates.first.as_str(), dates.zone), ("2026-03-20T08:00:00", DateZone::Mixed));
    let c = at(&dataset, "c");
    assert_eq!(c.lengths.map(|l| (l.shortest, l.longest)), Some((0, 3)));
    assert_eq!(at(&dataset, "c[]").numbers.unwrap().max, 4.0);
    assert_eq!(at(&dataset, "m").meaning, Some(Meaning::EpochMillis));
    assert_eq!(at(&dataset, "u").meaning, Some(Meaning::Url));
    assert_eq!(at(&dataset, "p").meaning, Some(Meaning::Percent));
    assert_eq!(dataset.as_of.as_deref(), Some("2026-03-23"));
}

#[test]
fn a_dictionary_keyed_by_ids_is_one_path() {
    let users: Vec<String> =
        (0..300).map(|n| format!(r#""user_{n}":{{"age":{},"city":"x"}}"#, n % 80)).collect();
    let dataset = one("users.json", format!("{{{}}}", users.join(",")));
    assert_eq!(dataset.root.fields.len(), 1);
    assert_eq!(dataset.root.fields[0].name, "<key>");
    assert_eq!(dataset.root.fields[0].fields.len(), 2);
    assert_eq!(dataset.root.fields[0].types.object, 300);
}

#[test]
fn the_same_bytes_come_out_however_many_threads_there_are() {
    let line = |n: u32| {
        let mixed = n.wrapping_mul(2_654_435_761);
        format!(
            "{{\"id\":\"r{n}\",\"v\":{}.{},\"k\":\"{}\",\"t\":\"{}\"}}\n",
            mixed % 9973,
            mixed % 97,
            mixed % 700,
            "x".repeat(400)
        )
    };
    let content: String = (0..45_000).map(line).collect();
    assert!(content.len() > 2 * (8 << 20));
    let files = [("big.jsonl", content.as_bytes())];
    let [single, several] = [1, 3].map(|threads| try_describe(&files, threads).unwrap());
    let text = |description| serde_json::to_string(description).unwrap();
    assert_eq!(text(&single), text(&several));
    assert_eq!(single.datasets[0].rows, 45_000);
    let whole = blake3::hash(content.as_bytes()).to_hex().to_string();
    assert_eq!(single.datasets[0].content_hash, Some(whole));
}

#[test]
fn the_schema_hash_depends_on_names_and_types_only() {
    let hash = |content: &str| one("x.json", content).schema_hash;
    let same = hash(r#"[{"a":1,"b":"x"}]"#);
    assert_eq!(same, hash(r#"[{"a":7,"b":"y"},{"a":8,"b":"z"}]"#));
    assert_ne!(same, hash(r#"[{"a":1,"c":"x"}]"#));
    assert_ne!(same, hash(r#"[{"a":"1","b":"x"}]"#));
}

#[test]
fn tables_are_read_by_their_own_rules() {
    let content = "\u{feff}name\tzip\tamount\tok\twhen\r\n\
                   \"Ann \"\"A\"\"\"\t01234\t1.5\tTRUE\t03/20/2026\r\n\
                   \"two\nlines\"\t00501\tNA\tfalse\t12/01/2026\r\n\
                   Çelik\t98765\t-3\t\t04/13/2026\r\n";
    let dataset = one("x.tsv", content);
    let dialect = dataset.dialect.unwrap();
    assert_eq!((dialect.delimiter, dialect.has_header, dataset.rows), (b'\t', true, 3));
    assert_eq!(at(&dataset, "name").values[0].0, "Ann \"A\"");
    assert_eq!(at(&dataset, "zip").meaning, Some(Meaning::ZeroPadded));
    let amount = at(&dataset, "amount");
    assert_eq!((amount.types.null, amount.types.int, amount.types.float), (1, 1, 1));
    assert_eq!((at(&dataset, "ok").types.bool, at(&dataset, "ok").types.null), (2, 1));
    assert_eq!(at(&dataset, "when").meaning, Some(Meaning::DateMonthFirst));
    assert!(dataset.problems.is_empty(), "{:?}", dataset.problems);
}

#[test]
fn a_title_above_a_table_is_its_header_as_pandas_takes_it() {
    let text = "LEAGUE,,\nWins,Name,School\n5,Ada,North\n,Ben,South\n3,Cem,North\n";
    let dataset = one("x.csv", text);
    assert!(dataset.dialect.unwrap().has_header);
    assert_eq!(dataset.rows, 4);
    assert_eq!(at(&dataset, "LEAGUE").types.null, 1);
}

#[test]
fn a_table_without_a_header_gets_numbered_columns() {
    let dataset = one("x.csv", "1,red,2.5\n2,blue,3.5\n3,red,4.5\n");
    let names: Vec<&str> =
        record(&dataset).fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["column_1", "column_2", "column_3"]);
    assert_eq!(dataset.rows, 3);
}

#[test]
fn rows_of_other_lengths_are_told() {
    let dataset = one("x.csv", "a,b,c\n1,2,3\n4,5\n6,7,8,9\n");
    assert_eq!(dataset.rows, 3);
    assert_eq!(at(&dataset, "c").types.null, 1);
    let problem = &dataset.problems[0];
    assert_eq!((problem.what, problem.count, problem.first_at), (What::RaggedRows, 2, Some(12)));
}

#[test]
fn texts_of_every_length_are_counted_in_characters_wherever_the_window_ends() {
    // Around the sizes of the window and of what is kept of a text.
    for length in [0, 1, 1023, 1024, 1025, 262_100, 262_143, 262_144, 262_145, 700_000] {
        for unit in ["x", "é", "\\n", "\\u00e9"] {
            let content = format!("[\"{}\", {{\"after\": 7}}]", unit.repeat(length));
            let dataset = one("x.json", &content);
            let item = dataset.root.item.as_ref().unwrap();
            assert_eq!(item.text.unwrap().longest, length as u64, "{length} × {unit}");
            assert_eq!(item.fields[0].numbers.unwrap().max, 7.0);
            assert!(dataset.problems.is_empty(), "{length} × {unit}: {:?}", dataset.problems);
        }
    }
}
