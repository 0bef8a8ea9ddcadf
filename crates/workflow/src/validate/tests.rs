use super::*;

const GOOD: &str = r#"
name = "report"
[inputs]
sales = "file"
limit = "value"
[steps.clean]
kind = "call"
call = { template = "base", argv = ["sh", "-c", "sort sales.csv > clean.csv"] }
inputs = { "sales.csv" = "inputs.sales" }
outputs = ["clean.csv"]
[steps.ask]
kind = "run"
run = { question = "Is it more than {{limit}}?", budget = { turns = 3 }, limits = { memory_bytes = 1073741824 } }
inputs = { "clean.csv" = "steps.clean.files['clean.csv']", limit = "inputs.limit" }
retry = { attempts = 3, memory = "x2" }
[steps.each]
kind = "call"
call = { script = "cat n" }
for_each = "steps.clean.value.rows"
inputs = { n = "item.n" }
when = "steps.ask.outcome == 'done'"
[outputs]
answer = "steps.ask.answer"
"#;

#[track_caller]
fn refuse(from: &str, to: &str, line: usize, says: &str) {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "`{from}` is not in the file");
    let DefinitionError(problems) = check(&text).unwrap_err();
    let found = problems.iter().any(|it| it.message.contains(says) && it.line == Some(line));
    assert!(found, "{problems:?}");
}

#[test]
fn mistakes_are_found_with_their_lines() {
    check(GOOD).unwrap();
    refuse("inputs.sales\"", "inputs.sale\"", 9, "did you mean `sales`?");
    refuse("steps.clean.files", "steps.claen.files", 14, "did you mean `clean`?");
    refuse("files['clean.csv']", "files['clear.csv']", 14, "did you mean `clean.csv`?");
    refuse("\"item.n\"", "\"steps.clean.item\"", 20, "a step has `answer`");
    refuse("for_each = \"steps.clean.value.rows\"", "parallel = 2", 20, "there is an item only");
    refuse("\"steps.clean.value.rows\"", "\"inputs.sales\"", 19, "needs a list");
    refuse("question = \"Is it more than {{limit}}?\"", "question = \"Is it?\"", 14, "{{limit}}");
    refuse("turns = 3", "turn = 3", 13, "unknown field `turn`");
    refuse("template = \"base\", argv", "argb", 8, "argb");
    refuse("retry = {", "retri = {", 15, "retri");
    refuse("\"x2\"", "\"x17\"", 11, "x17");
    refuse("kind = \"run\"", "kind = \"agent\"", 11, "agent");
    refuse("attempts = 3", "attempts = 0", 15, "retry.attempts");
    refuse("\"inputs.sales\"", "\"steps.ask.answer\"", 11, "clean");
}

#[test]
fn a_list_of_steps_is_told_what_steps_are() {
    let list = "name = \"n\"\n[[steps]]\nid = \"a\"\nkind = \"call\"\n";
    let DefinitionError(problems) = check(list).unwrap_err();
    assert!(problems[0].message.contains("[steps.NAME]"), "{problems:?}");
    assert_eq!(problems[0].line, Some(2));
}

#[test]
fn a_cycle_is_named() {
    let text = GOOD.replacen(
        "outputs = [\"clean.csv\"]",
        "outputs = [\"clean.csv\"]\nafter = [\"each\"]",
        1,
    );
    let error = check(&text).unwrap_err().to_string();
    assert!(error.contains("the steps wait for each other"), "{error}");
    assert!(error.contains("clean -> each"), "{error}");
}

#[test]
fn a_large_file_is_refused_before_its_steps_are_read() {
    let steps = |count: usize, body: &str| {
        let steps = (0..count).map(|step| format!("[steps.s{step}]\n{body}\n"));
        format!("name = \"n\"\n{}", steps.collect::<String>())
    };
    let body = |needed: &str| format!("kind = \"call\"\ncall.script = \"\"\nafter = [{needed}]");
    check(&steps(MAX_ENTRIES, &body(""))).unwrap();
    let DefinitionError(problems) = check(&steps(MAX_ENTRIES + 1, "kind = 1")).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.contains("at most 200 steps"), "{problems:?}");
    // A chain of steps as deep as the file is long.
    let chain = (0..7000).map(|step| format!("[steps.s{step}]\nafter=[\"s{}\"]\n", step + 1));
    assert!(check(&chain.collect::<String>()).is_err());
    let DefinitionError(problems) = check(&steps(MAX_ENTRIES, &body("\"x\""))).unwrap_err();
    assert_eq!(problems.len(), MAX_PROBLEMS);
    let DefinitionError(problems) = check(&steps(MAX_ENTRIES, "kind = 1")).unwrap_err();
    assert_eq!(problems.len(), MAX_PROBLEMS);
    let many: Vec<_> = (0..=MAX_ENTRIES).map(|_| "\"s0\"").collect();
    let DefinitionError(problems) = check(&steps(1, &body(&many.join(",")))).unwrap_err();
    assert!(problems[0].message.contains("`after` has at most 200"), "{problems:?}");
    let long = "x".repeat(100_000);
    let DefinitionError(problems) = check(&steps(1, &body(&format!("{long:?}")))).unwrap_err();
    assert_eq!(problems[0].message.chars().count(), MAX_MESSAGE);
}

#[test]
fn json_says_the_same() {
    let value: Value = toml::from_str(GOOD).unwrap();
    let text = serde_json::to_string_pretty(&value).unwrap();
    assert_eq!(check(&text).unwrap(), check(GOOD).unwrap());
    let bad = text.replacen("inputs.limit", "inputs.limits", 1);
    let DefinitionError(problems) = check(&bad).unwrap_err();
    assert!(problems[0].line.is_some() && problems[0].message.contains("did you mean `limit`?"));
}

/// No text makes the reader panic, and what it takes has no cycle and no unknown reference.
#[test]
fn damaged_files_are_refused_or_whole() {
    let mut state = 7u64;
    let mut random = move |most: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(state >> 33).unwrap_or_default() % most.max(1)
    };
    for _ in 0..3000 {
        let mut text: Vec<char> = GOOD.chars().collect();
        for _ in 0..=random(4) {
            let (at, from) = (random(text.len()), random(text.len()));
            match random(3) {
                0 => drop(text.remove(at)),
                1 => text[at] = text[from],
                _ => text.insert(at, text[from]),
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(definition) = check(&text) {
            for step in definition.steps.values() {
                assert!(step.needs().iter().all(|it| definition.steps.contains_key(it)), "{text}");
            }
        }
    }
}
