use super::read::MAX_NODES;
use super::*;

fn read(text: &str) -> Result<String, Malformed> {
    Reader::new().read(text.as_bytes()).map(|value| format!("{value:?}"))
}

#[test]
fn what_is_json_is_the_same_as_for_serde() {
    let texts = [
        "{}",
        "[]",
        " [ ] ",
        "0",
        "-0",
        "-1.5e+10",
        "1e5",
        "\"\"",
        "\"\\u00e9\\n\"",
        "null",
        "true",
        "{\"a\":1,\"b\":[1,2,{\"c\":null}]}",
        "[[[]]]",
        "",
        " ",
        "{",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "nul",
        "truex",
        "[1 2]",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\u{1}\"",
        "{}{}",
        "1 1",
        "]",
        "}",
        "[}",
        "{]",
        "{\"a\":1]",
        "'a'",
        "NaN",
        "Infinity",
        "\u{feff}{}",
        "//c\n{}",
        "{\"a\" : 1 }",
        "\"0123456789\\\"0123456789\"",
        "\"\u{7f}\u{80}\u{7ff}\u{10ffff}\"",
        "[1,,2]",
        "[,1]",
    ];
    for text in texts {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        assert_eq!(read(text).is_ok(), theirs, "{text:?}: {:?}", read(text));
    }
}

#[test]
fn special_bytes_are_found_at_every_place() {
    for length in 0..40 {
        for at in 0..length {
            for special in ["\\n", "\u{1}", "\""] {
                let text = format!("\"{}{special}{}\"", "é".repeat(at), "x".repeat(length - at));
                let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
                assert_eq!(read(&text).is_ok(), theirs, "{text:?}");
            }
        }
    }
}

#[test]
fn strings_read_as_serde_reads_them() {
    for text in [r#""a\"b\\c\/d""#, r#""\u0041\ud83d\ude00z""#, r#""\b\f\n\r\t é""#] {
        let mut reader = Reader::new();
        let ours = reader.read(text.as_bytes()).unwrap().str().unwrap().into_owned();
        assert_eq!(ours, serde_json::from_str::<String>(text).unwrap());
    }
    let mut reader = Reader::new();
    let half = reader.read(br#""a\ud83dz""#).unwrap().str().unwrap().into_owned();
    assert_eq!(half, "a\u{fffd}z");
}

#[test]
fn no_object_says_a_key_twice() {
    let many = |last: &str| {
        let keys: String = (0..40).map(|n| format!("\"k{n}\":0,")).collect();
        format!("{{{keys}\"{last}\":1}}")
    };
    for text in [
        r#"{"model":"a","model":"b"}"#,
        r#"{"model":"a","mod\u0065l":"b"}"#,
        r#"{"x":[{"y":{"a":1,"b":2,"a":3}}]}"#,
        &many("k17"),
    ] {
        assert!(matches!(read(text), Err(Malformed::Twice(_))), "{text}");
    }
    assert!(read(&many("k41")).is_ok());
    assert!(read(r#"[{"a":1},{"a":1,"b":{"a":1}}]"#).is_ok());
}

#[test]
fn depth_number_and_encoding_are_bounded() {
    assert_eq!(read(&format!("{}{}", "[".repeat(129), "]".repeat(129))), Err(Malformed::Deep));
    assert!(read(&format!("{}{}", "[".repeat(128), "]".repeat(128))).is_ok());
    assert!(matches!(Reader::new().read(b"\"\xff\""), Err(Malformed::Utf8)));
    let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
    assert!(Reader::new().read(list(MAX_NODES).as_bytes()).is_ok());
    assert_eq!(read(&list(MAX_NODES + 1)), Err(Malformed::Large));
    let mut trusting = Reader::trusting();
    let value = trusting.read(b"{\"a\":\"\xff\",\"a\":\"\xff\\n\"}").unwrap();
    for (_, value) in value.members() {
        assert!(value.str().is_none_or(|text| text.is_empty()));
    }
}

#[test]
fn members_are_found_by_what_their_keys_mean() {
    let mut reader = Reader::new();
    let value = reader.read(br#"{"a":{"x":[1,2]},"b\u0063":true,"Model":1}"#).unwrap();
    assert_eq!(value.get("bc").and_then(|v| v.bool()), Some(true));
    let sum: u64 = value.at(&["a", "x"]).unwrap().items().filter_map(|v| v.u64()).sum();
    assert_eq!(sum, 3);
    assert_eq!(value.spelled("model").unwrap_err(), Misspelled("model"));
    assert!(value.spelled("none").unwrap().is_none());
    assert_eq!(value.objects().count(), 2);
}

#[track_caller]
fn edited(text: &str, change: impl FnOnce(&mut ObjectEdit<'_>)) -> String {
    let mut reader = Reader::new();
    let mut object = ObjectEdit::new(reader.read(text.as_bytes()).unwrap());
    change(&mut object);
    let mut edits = Edits::default();
    object.finish(&mut edits);
    String::from_utf8(edits.apply(text.as_bytes())).unwrap()
}

#[test]
fn edits_touch_nothing_else() {
    let text = r#"{ "a" : 1.50 , "b":"\u00e9", "c" :[ ] }"#;
    assert_eq!(edited(text, |o| o.remove("a")), r#"{ "b":"\u00e9", "c" :[ ] }"#);
    assert_eq!(edited(text, |o| o.remove("b")), r#"{ "a" : 1.50, "c" :[ ] }"#);
    assert_eq!(edited(text, |o| o.set("b", "2")), r#"{ "a" : 1.50 , "b":2, "c" :[ ] }"#);
    assert_eq!(
        edited(text, |o| o.set("n\"", "2")),
        r#"{"n\"":2, "a" : 1.50 , "b":"\u00e9", "c" :[ ] }"#
    );
    assert_eq!(edited("{}", |o| o.set("n", "2")), r#"{"n":2}"#);
}

#[test]
fn any_members_can_be_removed_and_the_rest_stays_json() {
    let text = r#"{"a":1, "b":2 ,"c":3,"d":4}"#;
    for mask in 0..16 {
        for is_set in [false, true] {
            let out = edited(text, |object| {
                for (bit, key) in ["a", "b", "c", "d"].iter().enumerate() {
                    if mask >> bit & 1 == 1 {
                        object.remove(key);
                    }
                }
                if is_set {
                    object.set("e", "5");
                    object.set("f", "6");
                }
            });
            let value: serde_json::Value = serde_json::from_str(&out).unwrap();
            let kept = 4 - u32::count_ones(mask) as usize + if is_set { 2 } else { 0 };
            assert_eq!(value.as_object().unwrap().len(), kept, "{out}");
        }
    }
}
