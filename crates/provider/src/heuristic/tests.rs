//! The whole play, with a real interpreter where there is one.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::*;

mod questions;

fn tool(name: &str, arguments: &[&str]) -> Tool {
    let properties: Map<String, Value> =
        arguments.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": arguments });
    Tool { name: name.to_owned(), description: String::new(), schema }
}

fn conversation(question: &str) -> Conversation {
    Conversation {
        tools: vec![
            tool("execute_python", &["code"]),
            tool("shell", &["command"]),
            tool("read_file", &["path"]),
            tool("write_file", &["path", "content"]),
            tool("finish", &["summary"]),
        ],
        system: vec![],
        messages: vec![Message::user(question)],
    }
}

const DEALS: &str = r#"[
    { "id": "d1", "name": "Acme", "amount": 100, "stage": "won", "owner": { "region": "EU" } },
    { "id": "d2", "name": "Bolt", "amount": 50.5, "stage": "lost", "owner": { "region": "US" } },
    { "id": "d3", "name": "Cup", "amount": "1,000", "stage": "won", "owner": { "region": "US" } },
    { "id": "d4", "name": "Dot", "amount": null, "stage": "open", "contacts": [1, 2] }
]"#;
const ACTIVITIES: &str = "id;deal_id;duration\na1;d1;10\na2;d1;20\na3;d2;5\na4;dx;7\n";
const CRM: &[(&str, &str)] = &[("deals.json", DEALS), ("activities.csv", ACTIVITIES)];

/// Puts files where a run has its data; tables are named by its manifest.
fn put(folder: &Path, files: &[(&str, &str)]) {
    let mut datasets = Vec::new();
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
        let (stem, ending) = name.split_once('.').unwrap();
        if ending != "txt" {
            datasets.push(json!({
                "name": name, "variable": stem, "path": name, "format": ending, "strategy": "whole",
            }));
        }
    }
    let manifest = json!({ "version": 1, "datasets": datasets });
    std::fs::write(folder.join("datasets.json"), manifest.to_string()).unwrap();
}

/// How a play ended.
struct End {
    stop: Stop,
    answer: String,
    turns: usize,
    /// `result.md`, if it was written.
    result: Option<String>,
}

/// Does what a turn calls for; the answer, if that is `finish`.
fn done(
    turn: &Answer,
    conversation: &mut Conversation,
    folder: &Path,
    run: &mut Run<'_>,
) -> Option<String> {
    let mut results = Vec::new();
    for call in turn.calls() {
        let input: Value = call.input.parse().unwrap();
        match call.name.as_str() {
            "execute_python" => {
                let output = run(input["code"].as_str().unwrap(), &folder.join("data"));
                results.push(match output {
                    Ok(text) => call.answered(text),
                    Err(text) => call.failed(text),
                });
            }
            "write_file" => {
                let path = folder.join(input["path"].as_str().unwrap());
                std::fs::write(path, input["content"].as_str().unwrap()).unwrap();
                results.push(call.answered("written"));
            }
            "finish" => return Some(input["summary"].as_str().unwrap().to_owned()),
            other => panic!("{other} was called"),
        }
    }
    conversation.messages.push(Message::results(results));
    None
}

/// Runs code on the data in a folder: its output, or that of its failure.
type Run<'r> = dyn FnMut(&str, &Path) -> Result<String, String> + 'r;

/// Runs code in an interpreter of its own.
fn run_alone(code: &str, data: &Path) -> Result<String, String> {
    let mut python = Command::new("python3");
    let python = python.args(["-I", "-c", code]).env("BELLJAR_DATA", data).output().unwrap();
    let text = String::from_utf8([python.stdout, python.stderr].concat()).unwrap();
    if python.status.success() { Ok(text) } else { Err(text) }
}

/// Plays until the end; none without an interpreter.
fn play(question: &str, files: &[(&str, &str)]) -> Option<End> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln_skipped();
        return None;
    }
    Some(play_with(question, files, &mut run_alone))
}

/// Plays until the end, as the loop would.
fn play_with(question: &str, files: &[(&str, &str)], run: &mut Run<'_>) -> End {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("data")).unwrap();
    put(&folder.join("data"), files);
    let mut conversation = conversation(question);
    for turns in 1..=8 {
        let turn = answer(&conversation, ToolChoice::Auto).unwrap();
        conversation.messages.push(turn.message());
        let said = match turn.stop {
            Stop::ToolCalls => done(&turn, &mut conversation, folder, run),
            _ => Some(turn.text()),
        };
        if let Some(answer) = said {
            assert!(answer.contains("without a language model"), "{answer}");
            let result = std::fs::read_to_string(folder.join("result.md")).ok();
            return End { stop: turn.stop, answer, turns, result };
        }
    }
    panic!("it does not end");
}

/// Everything that is wanted stands in the answer, and in `result.md`.
#[track_caller]
fn check_with(files: &[(&str, &str)], question: &str, want: &[&str]) {
    let Some(end) = play(question, files) else { return };
    assert_eq!((end.stop, end.turns), (Stop::ToolCalls, 4), "{}", end.answer);
    // What is printed begins with what was asked for, and has the table.
    assert!(end.answer.starts_with("The ") && end.answer.contains("\n|"), "{}", end.answer);
    let result = end.result.unwrap();
    for want in want {
        assert!(end.answer.contains(want), "`{want}` is not in\n{}", end.answer);
        assert!(result.contains(want), "`{want}` is not in\n{result}");
    }
}

#[track_caller]
fn check(question: &str, want: &[&str]) {
    check_with(CRM, question, want);
}

/// There is no answer, and what is said instead has all that is wanted.
#[track_caller]
fn check_none(files: &[(&str, &str)], question: &str, want: &[&str]) {
    let Some(end) = play(question, files) else { return };
    assert_eq!((end.stop, end.turns), (Stop::NoAnswer, 2), "{}", end.answer);
    for want in want {
        assert!(end.answer.contains(want), "`{want}` is not in\n{}", end.answer);
    }
}

#[expect(clippy::print_stderr, reason = "a test that did not run has to say so")]
fn eprintln_skipped() {
    eprintln!("skipped: there is no python3 here");
}

#[test]
fn a_mean_is_a_mean() {
    check("What is the average amount?", &["The mean of `amount` in `deals`:", "| mean | 383.5 |"]);
}

#[test]
fn groups_are_sorted_by_what_was_asked() {
    check(
        "What is the total amount by stage?",
        &["| won | 1100 | 2 | 550 |", "3 of 3 groups, sorted by sum"],
    );
    check(
        "Total amount by stage and region",
        &["| stage | owner.region | sum |", "| won | US | 1000 | 1 |", "3 of 3 groups"],
    );
}

#[test]
fn a_join_that_loses_rows_says_so() {
    check(
        "What is the total duration of activities per stage?",
        &["Warning: 1 of 4 rows had no partner in `deals`", "| won | 30 | 2 | 15 |"],
    );
}

#[test]
fn words_that_are_not_understood_are_named() {
    let unclear = "these words are not understood: \"stakeholder\", \"engagement\"";
    check_none(CRM, "What is the total amount of stakeholder engagement?", &[unclear]);
    check_none(CRM, "Total amount not in March", &["it names a time"]);
    check_none(CRM, "Total amount without activities", &["\"without\", \"activity\""]);
    check_none(CRM, "Total amuont", &["names anything in the data. Did you mean `amount`?"]);
}

#[test]
fn a_column_that_no_key_leads_to_is_not_called_unknown() {
    let orders = "order,customer,amount\n1,c1,5\n2,c2,7\n3,c1,9\n";
    let files = [("orders.csv", orders), ("customers.csv", "customer_id,country\nc1,DE\nc2,FR\n")];
    let why = "`country` is a column of `customers`, and does not go with the rest of the question. \
               Two datasets are joined by a key that both have.";
    for question in ["total amount by country", "total amount by customer country"] {
        check_none(&files, question, &[why]);
    }
}

#[test]
fn rows_are_chosen_by_values_that_are_named() {
    check(
        "What is the total amount of won deals?",
        &[
            "The sum of `amount` in `deals` where `stage` is `won`:",
            "| sum | 1100 |",
            "| count | 2 |",
        ],
    );
    check("How many deals are in the EU or the US?", &["`EU` or `US`", "| count | 3 |"]);
}

const SALES: &str = "region,product,amount\nnorth,a,1\nsouth,b,5\nnorth,b,2\nnorth,a,1\n";

#[test]
fn who_sold_most_is_not_who_has_most_rows() {
    let sales = [("sales.csv", SALES)];
    let south = "`south` has the highest sum: 5.";
    check_with(&sales, "Which region sold most?", &[south, "this is the only one"]);
    let north = "`north` has the lowest sum: 4.";
    check_with(&sales, "Which region had the lowest amount?", &[north]);
}

#[test]
fn a_question_that_names_nothing_has_no_answer() {
    let sales = [("sales.csv", SALES)];
    for question in ["foo bar", "Why is the sky blue?"] {
        let columns = "`sales`, 4 rows: `region`, `product`, `amount`";
        check_none(&sales, question, &["not understood", columns, "They count rows"]);
    }
    check_none(&sales, "Total amount by country", &["nothing in the data is called \"country\""]);
}

#[test]
fn a_comma_before_decimals_is_never_dropped() {
    let total = |text: &str, want: &str| {
        let sum = format!("| sum | {want} |");
        check_with(&[("sales.csv", text)], "What is the total amount?", &[&sum]);
    };
    total("region;amount\nn;2,5\ns;0,25\n", "2.75");
    // Either mark may stand between thousands.
    total("region;amount\nn;1.000,5\ns;1.000\n", "2000.5");
    total("region,amount\nn,\"1,000.5\"\ns,\"1,000\"\n", "2000.5");
    // What one column does not tell, another one does.
    total("share;amount\n0,5;1.000\n0,1;2.000\n", "3000");
    total("share;amount\n0.5;1,000\n0.1;2,000\n", "3000");
    // Nothing tells: a semicolon speaks for the comma, and what was read is said.
    check_with(
        &[("sales.csv", "region;amount\nn;1,250\n")],
        "What is the total amount?",
        &["| sum | 1.25 |", "values such as 1,250, which was read as 1.25"],
    );
    check_with(
        &[("sales.csv", "amount\n1.5\n2.5\n3.5\n4.5\n5.5\n6.5\n7.5\n8.5\n9.5\n\"2,5\"\n")],
        "What is the total amount?",
        &["| sum | 49.5 |", "1 of 10 values of `amount` are no numbers"],
    );
}

#[test]
fn what_was_passed_over_is_said() {
    let lines = "{\"amount\": 1}\n{broken\n{\"amount\": 2}\n";
    check_with(
        &[("sales.jsonl", lines), ("other.json", "[1, "), ("note.txt", "amount: 7")],
        "What is the total amount?",
        &[
            "| sum | 3 |",
            "`sales.jsonl` that are not JSON and were passed over: 1.",
            "`other.json` cannot be read",
            "`note.txt` was not read",
        ],
    );
}

#[test]
fn words_of_a_question_are_never_code() {
    let quotes = "Average amount \"); (\" \\\\ ''' {{}} \u{2028}?";
    check(quotes, &["| mean | 383.5 |"]);
    let code = "Average amount \"); import os; os.remove('deals.json'); (\" \\\\ ''' {{result}}?";
    check_none(CRM, code, &["\"import\", \"os\", \"remove\"", "`deals`, 4 rows"]);
}

#[test]
fn what_cannot_be_read_is_no_answer() {
    let question = "How many rows are there?";
    check_none(&[], question, &["Nothing was computed"]);
    check_none(
        &[("note.txt", "a")],
        question,
        &["Nothing was computed", "`note.txt` was not read"],
    );
    for (name, text) in [("sales.csv", ""), ("sales.json", "[1, "), ("sales.jsonl", "{\n")] {
        let why = format!("`{name}` cannot be read");
        check_none(&[(name, text)], question, &["Nothing was computed", &why]);
    }
}

/// A conversation in which looking has failed, with what was said after it.
fn failed_look(result: &str, after: Option<&str>) -> Conversation {
    let mut conversation = conversation("What is the average amount?");
    let look = answer(&conversation, ToolChoice::Auto).unwrap();
    let failed = look.calls().next().unwrap().failed(result);
    let mut results = Message::results([failed]);
    results.blocks.extend(after.map(Block::text));
    conversation.messages.extend([look.message(), results]);
    conversation
}

#[test]
fn what_failed_is_done_again_only_in_another_sandbox() {
    let oom = "[it needed more memory than there is]";
    let none = answer(&failed_look(oom, None), ToolChoice::Auto).unwrap();
    assert_eq!(none.stop, Stop::NoAnswer);
    assert!(none.text().contains(oom), "{}", none.text());
    let replaced = "The sandbox was lost and has been replaced by a new one.";
    for conversation in [failed_look(oom, Some(replaced)), failed_look(replaced, None)] {
        let again = answer(&conversation, ToolChoice::Auto).unwrap();
        assert_eq!(again.calls().filter_map(code::step).collect::<Vec<_>>(), [code::LOOK]);
    }
}

#[test]
fn the_same_conversation_gets_the_same_answer() {
    let conversation = conversation("What is the average amount?");
    let first = answer(&conversation, ToolChoice::Auto).unwrap();
    assert_eq!(first, answer(&conversation, ToolChoice::Auto).unwrap());
    assert_eq!(first.stop, Stop::ToolCalls);
}

#[test]
fn without_tools_it_only_talks() {
    let mut conversation = conversation("What is the average amount?");
    let silent = answer(&conversation, ToolChoice::None).unwrap();
    assert_eq!((silent.calls().count(), &silent.stop), (0, &Stop::End));
    assert!(!silent.text().is_empty());
    conversation.tools.clear();
    assert_eq!(answer(&conversation, ToolChoice::Auto).unwrap().calls().count(), 0);
}

#[test]
fn arguments_bear_the_names_that_the_tools_give_them() {
    let mut conversation = conversation("What is the average amount?");
    conversation.tools = vec![tool("execute_python", &["source"])];
    let answer = answer(&conversation, ToolChoice::Auto).unwrap();
    let input: Value = answer.calls().next().unwrap().input.parse().unwrap();
    assert!(input["source"].as_str().unwrap().starts_with("# belljar heuristic: look\n"));
}
