//! The same quantity has one name and one unit in every `--json`, as in `/v1`.

use serde_json::Value;

use crate::harness::{Place, can_use};

/// Calls `check` with the name and the value of every field.
fn each(value: &Value, check: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                check(name, value);
                each(value, check);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each(item, check)),
        _ => {}
    }
}

#[track_caller]
fn check_units(from: &str, document: &Value) {
    each(document, &mut |name, _| {
        let odd = ["secs", "nanos", "seconds", "millis", "peak_bytes"];
        assert!(!name.ends_with("_micros") && !odd.contains(&name), "{from}: `{name}`\n{document}");
    });
}

#[test]
fn durations_are_milliseconds_and_sizes_bytes_in_every_document() {
    if !can_use("python-data") {
        return;
    }
    let place = Place::new();
    place.write("sales.csv", "region,revenue\nnorth,120\nsouth,300\nnorth,80\n");
    let question =
        ["ask", "Which region has the highest revenue?", "--data", "sales.csv", "--quiet"];
    place.run_with_templates(&question).expect_status(0);
    let json = |args: &[&str]| {
        let document = place.run_with_templates(args).expect_status(0).json();
        check_units(&args.join(" "), &document);
        document
    };
    let listed = json(&["runs", "list", "--json"]);
    let run = listed[0]["id"].as_str().unwrap();
    assert_eq!(listed[0]["run"], run, "the old name stays");
    let cost = json(&["runs", "cost", run, "--json"]);
    for field in ["model_ms", "call_ms", "cpu_ms", "peak_memory_bytes", "output_bytes"] {
        assert!(cost[0][field].is_u64(), "{field} in {cost}");
    }
    let shown = json(&["runs", "show", run, "--json"]);
    assert!(shown["id"] == run && shown["turns"][0]["cpu_ms"].is_u64(), "{shown}");
    assert!(json(&["runs", "stats", "--json"])["wall_ms"]["p50"].is_number());
    let code = "open('made', 'w').write('12345')";
    let ran = json(&["run", "--json", "-c", code]);
    let file = &ran["files_changed"][0];
    assert!(file["bytes"] == 5 && file["modified_at"].as_str().unwrap().ends_with('Z'), "{file}");
    let templates = json(&["template", "list", "--json"]);
    assert!(templates[0]["bytes"].is_u64() && templates[0]["made_at"].is_string());
    place.write("cell.py", "1 + 1\n");
    let lines = place.run_with_templates(&["cells", "cell.py", "--json"]);
    let text = String::from_utf8(lines.expect_status(0).stdout.clone()).unwrap();
    let end: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    check_units("cells", &end);
    assert!(end["usage"]["cpu_ms"].is_u64() && end["origin"] == end["interpreter"], "{end}");
}
