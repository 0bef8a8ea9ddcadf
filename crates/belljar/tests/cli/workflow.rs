//! `belljar workflow`, on this machine.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::harness::{Place, Ran, can_jail};

const FLOW: &str = r#"
name = "count"

[inputs]
words = "file"
times = "value"

[steps.split]
kind = "call"
call = { template = "host", script = "sort words | sed 's/.*/\"&\"/' | paste -sd, | sed 's/.*/[&]/'" }
inputs = { words = "inputs.words" }

[steps.length]
kind = "call"
call = { template = "host", script = "tr -d '\\n' < word | wc -c" }
for_each = "steps.split.value"
inputs = { word = "item" }

[steps.slow]
kind = "call"
call = { template = "host", script = "sleep 6; cat times > slow.txt" }
inputs = { times = "inputs.times" }
outputs = ["slow.txt"]

[steps.never]
kind = "call"
call = { template = "host", script = "false" }
when = "inputs.times > 100"

[outputs]
lengths = "steps.length.value"
"slow.txt" = "steps.slow.files['slow.txt']"
"#;

#[test]
fn mistakes_have_lines_and_a_drawing_loads_nothing() {
    let place = Place::new();
    place.write("flow.toml", FLOW);
    let ran = place.run(&["workflow", "validate", "flow.toml"]);
    let text = String::from_utf8(ran.expect_status(0).stdout.clone()).unwrap();
    assert_eq!(text, "count: 4 steps, no mistakes\n");
    place.write("bad.toml", FLOW.replace("\"inputs.words\"", "\"inputs.word\""));
    let ran = place.run(&["workflow", "validate", "bad.toml"]);
    let words = ["bad.toml: line 11: step `split`", "did you mean `words`?", "hint: "];
    ran.expect_status(1).expect_words(&words);
    let ran = place.run(&["workflow", "graph", "flow.toml", "--out", "flow.svg"]);
    ran.expect_status(0);
    let drawn = String::from_utf8(place.read("flow.svg")).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("length"), "{drawn}");
    assert!(!drawn.contains("href") && !drawn.contains("url("), "{drawn}");
}

#[test]
fn a_killed_workflow_goes_on() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    place.write("flow.toml", FLOW);
    place.write("words", "pear\nfig\n");
    let data = place.path().join("data");
    let command = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("BELLJAR_DATA", &data).stdin(Stdio::null());
        command
    };
    let inputs = ["--input", "words=words", "--input", "times=3"];
    let mut first = command(&[&["workflow", "run", "flow.toml"][..], &inputs[..]].concat())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(first.stderr.take().unwrap()).lines();
    let mut id = None;
    for line in lines.map_while(Result::ok) {
        let word = line.split_whitespace().find(|word| word.starts_with("wf_"));
        id = id.or(word.map(str::to_owned));
        if line.contains("slow: running") {
            break;
        }
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let id = id.expect("the workflow has an id");
    let shown = Ran::from(command(&["workflow", "show", &id, "--json"]).output().unwrap());
    assert_eq!(shown.expect_status(0).json()["state"], "running");
    let resumed = command(&["workflow", "run", "--resume", &id, "--out", "results"]).output();
    let resumed = Ran::from(resumed.unwrap());
    let text = String::from_utf8(resumed.expect_status(0).stdout.clone()).unwrap();
    assert!(text.contains("lengths: [3,4]"), "{text} {}", resumed.stderr);
    assert_eq!(place.read("results/slow.txt"), b"3");
    let shown = Ran::from(command(&["workflow", "show", &id, "--json"]).output().unwrap());
    let shown = shown.expect_status(0).json();
    // Another workflow's worker does not find its runs.
    assert!(data.join("workflow/served/runs-of-workflows").join(&id).is_dir());
    let step = |name: &str| shown["steps"].as_array().unwrap().iter().find(|it| it["name"] == name);
    assert_eq!(step("never").unwrap()["state"], "skipped");
    assert_eq!(step("split").unwrap()["attempts"].as_array().unwrap().len(), 1);
}
