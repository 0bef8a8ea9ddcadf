//! A value in several forms, under the keys that clients know.

use belljar_node::Bundle;
use serde_json::{Map, Value};

const KEYS: [(&str, &str); 12] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("text/latex", "latex"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
    ("e2b/data", "data"),
    ("e2b/chart", "chart"),
];

pub(super) fn result(mut bundle: Bundle, is_main: bool) -> Map<String, Value> {
    let mut shown = Map::new();
    for (mime, key) in KEYS {
        if let Some(value) = bundle.remove(mime).filter(|value| !value.is_null()) {
            let value = if key == "text" { unquoted(value) } else { value };
            shown.insert(key.to_owned(), value);
        }
    }
    if !bundle.is_empty() {
        // Python's client reads `extra`; that of JavaScript reads whatever keys it
        // does not know. A key without a slash is no MIME type and could pass for
        // one of ours.
        for (mime, value) in bundle.iter().filter(|(mime, _)| mime.contains('/')) {
            shown.insert(mime.clone(), value.clone());
        }
        shown.insert("extra".to_owned(), bundle.into_iter().collect());
    }
    shown.insert("is_main_result".to_owned(), is_main.into());
    shown
}

/// A text without one pair of quotes around it: that of a string is the string.
fn unquoted(value: Value) -> Value {
    let Some(text) = value.as_str() else { return value };
    for quote in ['\'', '"'] {
        if text.starts_with(quote) && text.ends_with(quote) {
            return text.get(1..text.len() - 1).unwrap_or_default().into();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(bundle: Value, want: Value) {
        let bundle: Bundle = serde_json::from_value(bundle).unwrap();
        assert_eq!(Value::from(result(bundle, true)), want);
    }

    #[test]
    fn known_types_have_short_keys() {
        check(
            json!({
                "text/plain": "<Figure>", "text/html": "<b>", "text/markdown": "*",
                "image/svg+xml": "<svg>", "image/png": "iVBO", "image/jpeg": "/9j/",
                "application/pdf": "JVBE", "text/latex": "$x$", "application/json": {"a": [1]},
                "application/javascript": "alert()", "e2b/data": {"c": [1]},
                "e2b/chart": {"type": "line"},
            }),
            json!({
                "text": "<Figure>", "html": "<b>", "markdown": "*", "svg": "<svg>",
                "png": "iVBO", "jpeg": "/9j/", "pdf": "JVBE", "latex": "$x$",
                "json": {"a": [1]}, "javascript": "alert()", "data": {"c": [1]},
                "chart": {"type": "line"}, "is_main_result": true,
            }),
        );
    }

    #[test]
    fn one_pair_of_quotes_is_taken_off_text() {
        for (text, want) in [
            ("'a'", "a"),
            ("\"it's\"", "it's"),
            ("''a''", "'a'"),
            ("'a\"", "'a\""),
            ("'", ""),
            ("''", ""),
            ("", ""),
            ("[1]", "[1]"),
            ("'é'", "é"),
        ] {
            check(json!({"text/plain": text}), json!({"text": want, "is_main_result": true}));
        }
        check(json!({"text/html": "'a'"}), json!({"html": "'a'", "is_main_result": true}));
    }

    #[test]
    fn other_types_are_extra_for_both_clients() {
        check(
            json!({"application/x-mine": {"a": 1}, "png": "forged", "is_main_result": false}),
            json!({
                "application/x-mine": {"a": 1},
                "extra": {"application/x-mine": {"a": 1}, "png": "forged", "is_main_result": false},
                "is_main_result": true,
            }),
        );
    }
}
