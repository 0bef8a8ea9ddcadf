//! 120 questions over 10 datasets, a third of them outside the rules, judged by SQLite.
//!
//! `questions/*.toml` hold the datasets, the questions as people type them, and the SQL of each right
//! answer; `questions/oracle.py` runs that SQL on tables that it loads by itself. The first of them were
//! written before their author had read the rules. A question whose answer gets it wrong is mended in the
//! rules, never here.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Stop, play};

/// The share of the answerable questions that are answered, at least.
const MIN_ANSWERED_PERCENT: usize = 60;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    Refused,
}

/// A table that the oracle computed; its cells are numbers and texts.
type Rows = Vec<Vec<Value>>;

#[derive(serde::Deserialize)]
struct Dataset {
    name: String,
    files: Vec<(String, String)>,
    questions: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    ask: String,
    /// Right answers; none: only a refusal is right.
    answers: Vec<Rows>,
    /// The answer's first row decides; those after it are free.
    first: bool,
    /// The answer's rows are in the oracle's order.
    ordered: bool,
    /// The answer shows records of the data, which have more columns than the oracle's.
    rows: bool,
    /// The rules do not have to understand it.
    outside: bool,
}

/// Every dataset with its questions and right answers; none without an interpreter.
fn oracle() -> Option<Vec<Dataset>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/heuristic/tests/questions");
    let output = Command::new("python3").arg(folder.join("oracle.py")).arg(folder).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The rows of the Markdown table in an answer, without its header.
fn table(answer: &str) -> Vec<Vec<String>> {
    let lines = answer.lines().filter(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    lines.skip(2).map(cells).collect()
}

/// Whether a cell shows a value: the same text, or the same number but for rounding.
fn is_shown(cell: &str, value: &Value) -> bool {
    match value.as_f64() {
        Some(number) => cell.replace(',', "").parse::<f64>().is_ok_and(|shown| {
            (shown - number).abs() <= 0.000_05_f64.max(number.abs() * 0.000_001)
        }),
        None => value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(cell)),
    }
}

/// Whether a row of the answer is a row of the oracle. A group and what was asked of it come first,
/// because what else the table has about the group is not the answer.
fn is_row(case: &Case, row: &[String], want: &[Value]) -> bool {
    let cells = if case.rows { row } else { &row[..want.len().min(row.len())] };
    want.iter().all(|value| cells.iter().any(|cell| is_shown(cell, value)))
}

fn is_right(case: &Case, answer: &str, want: &Rows) -> bool {
    let table = table(answer);
    let Some(first) = table.first() else { return false };
    if let [row] = want.as_slice()
        && let [value] = row.as_slice()
    {
        // One value: the measure that heads the list, or all there is of the one row or group.
        let list = answer.contains("| measure | value |") || table.len() == 1;
        return list
            && first.get(1..).is_some_and(|cells| cells.iter().any(|it| is_shown(it, value)));
    }
    if case.first {
        return is_row(case, first, &want[0]);
    }
    let in_order = || table.iter().zip(want).all(|(row, want)| is_row(case, row, want));
    let in_any_order = || want.iter().all(|want| table.iter().any(|row| is_row(case, row, want)));
    table.len() == want.len() && if case.ordered { in_order() } else { in_any_order() }
}

fn judge(dataset: &Dataset, case: &Case) -> (Verdict, String) {
    let files: Vec<_> =
        dataset.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let end = play(&case.ask, &files).expect("an interpreter that just ran");
    let verdict = match end.stop {
        Stop::NoAnswer => Verdict::Refused,
        _ if case.answers.iter().any(|want| is_right(case, &end.answer, want)) => Verdict::Right,
        _ => Verdict::Wrong,
    };
    (verdict, end.answer)
}

/// A line of the table: what became of the question and, in short, what was said.
fn line(dataset: &Dataset, case: &Case, verdict: Verdict, answer: &str) -> String {
    let kind = if case.outside { "outside" } else { "inside" };
    let became = match verdict {
        Verdict::Right => "right",
        Verdict::Wrong => "WRONG",
        Verdict::Refused => "refused",
    };
    let said = answer.lines().next().unwrap_or_default();
    format!("{:9} {kind:7} {became:7} {:70} {said}\n", dataset.name, case.ask)
}

/// The first question that README asks is one that the rules answer, whatever numbers there are.
#[test]
fn the_question_of_the_readme_is_answered() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, rest) = readme.split_once("belljar ask '").unwrap();
    let (question, _) = rest.split_once("' --data sales.csv").unwrap();
    let sales = "day,region,units,revenue,discount\n\
                 2026-01-05,North,9,100.5,0\n2026-01-06,South,2,300,5\n2026-02-01,North,7,99.5,1\n";
    let Some(end) = play(question, &[("sales.csv", sales)]) else { return };
    assert!(end.answer.contains("`South` has the highest sum: 300."), "{}", end.answer);
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is read with --nocapture")]
fn no_question_is_answered_wrongly_and_most_are_answered() {
    let Some(datasets) = oracle() else { return super::eprintln_skipped() };
    let judged: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = datasets
            .iter()
            .map(|dataset| {
                scope.spawn(move || {
                    let cases = dataset.questions.iter();
                    cases.map(|case| (dataset, case, judge(dataset, case))).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut report = String::new();
    let mut wrong = String::new();
    for (dataset, case, (verdict, answer)) in &judged {
        report += &line(dataset, case, *verdict, answer);
        if *verdict == Verdict::Wrong {
            let _ = writeln!(wrong, "{}: {}\n{answer}{:?}\n", dataset.name, case.ask, case.answers);
        }
    }
    let count = |outside: bool, verdict: Verdict| {
        let of = |(_, case, (it, _)): &&(_, &Case, (Verdict, _))| {
            case.outside == outside && *it == verdict
        };
        judged.iter().filter(of).count()
    };
    let (inside, outside) =
        (judged.iter().filter(|(_, case, _)| !case.outside).count(), judged.len());
    let (right, outside) = (count(false, Verdict::Right), outside - inside);
    println!("{report}");
    println!("{wrong}");
    println!("inside: {right} of {inside} right, {} wrong", count(false, Verdict::Wrong));
    println!(
        "outside: {} of {outside} refused, {} wrong",
        count(true, Verdict::Refused),
        count(true, Verdict::Wrong)
    );
    assert_eq!((datasets.len(), inside, outside), (10, 80, 40));
    assert!(wrong.is_empty(), "answered wrongly:\n{wrong}");
    assert!(right * 100 >= inside * MIN_ANSWERED_PERCENT, "answered: {right} of {inside}");
}
