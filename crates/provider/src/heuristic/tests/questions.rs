//! 120 questions over 10 datasets, a third of them outside the rules, judged by SQLite.
//!
//! `questions/*.toml` hold the datasets, the questions as people type them, and the SQL of each right
//! answer; `questions/oracle.py` runs that SQL on tables that it loads by itself. The first of them were
//! written before their author had read the rules. A question whose answer gets it wrong is mended in the
//! rules, never here.
//!
//! Requirements: A9

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::{Stop, play, play_with};

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
fn oracle(folder: &str) -> Option<Vec<Dataset>> {
    let questions = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/heuristic/tests/questions");
    let mut python = Command::new("python3");
    let python = python.arg(questions.join("oracle.py")).arg(questions.join(folder));
    let output = python.output().ok()?;
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

/// Runs one piece of code after the other, because starting an interpreter takes longer.
const WORKER_PY: &str = r#"
import contextlib, io, json, os, sys, traceback

for line in sys.stdin:
    task, output, ok = json.loads(line), io.StringIO(), True
    os.environ["BELLJAR_DATA"] = task["data"]
    with contextlib.redirect_stdout(output):
        try:
            exec(task["code"], {"__name__": "__main__"})
        except BaseException:
            ok = False
            traceback.print_exc(file=output)
    print(json.dumps([ok, output.getvalue()]), flush=True)
"#;

/// An interpreter that is kept.
struct Worker {
    child: Child,
    tasks: ChildStdin,
    outputs: BufReader<ChildStdout>,
}

impl Worker {
    fn start() -> Self {
        let mut python = Command::new("python3");
        let python = python.args(["-I", "-c", WORKER_PY]).stdin(Stdio::piped());
        let mut child = python.stdout(Stdio::piped()).spawn().unwrap();
        let tasks = child.stdin.take().unwrap();
        let outputs = BufReader::new(child.stdout.take().unwrap());
        Self { child, tasks, outputs }
    }

    fn run(&mut self, code: &str, data: &Path) -> Result<String, String> {
        let task = serde_json::json!({ "code": code, "data": data });
        writeln!(self.tasks, "{task}").unwrap();
        let mut line = String::new();
        self.outputs.read_line(&mut line).unwrap();
        let (is_done, text): (bool, String) = serde_json::from_str(&line).unwrap();
        if is_done { Ok(text) } else { Err(text) }
    }

    fn end(mut self) {
        drop(self.tasks);
        assert!(self.child.wait().unwrap().success());
    }
}

fn judge(dataset: &Dataset, case: &Case, worker: &mut Worker) -> (Verdict, String) {
    let files: Vec<_> =
        dataset.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let end = play_with(&case.ask, &files, &mut |code, data| worker.run(code, data));
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

/// How many questions of one dataset, or of all, were answered rightly, refused and answered wrongly.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    right: usize,
    refused: usize,
    wrong: usize,
}

impl Counts {
    fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Right => self.right += 1,
            Verdict::Refused => self.refused += 1,
            Verdict::Wrong => self.wrong += 1,
        }
    }

    fn all(self) -> usize {
        self.right + self.refused + self.wrong
    }
}

/// The counts of each dataset, inside and outside the rules, and their sums.
fn counts(verdicts: &[(&Dataset, &Case, Verdict)]) -> Vec<(String, [Counts; 2])> {
    let mut rows: Vec<(String, [Counts; 2])> = Vec::new();
    let mut total = [Counts::default(); 2];
    for (dataset, case, verdict) in verdicts {
        let kind = usize::from(case.outside);
        total[kind].add(*verdict);
        if rows.last().is_none_or(|(name, _)| *name != dataset.name) {
            rows.push((dataset.name.clone(), [Counts::default(); 2]));
        }
        if let Some((_, counts)) = rows.last_mut() {
            counts[kind].add(*verdict);
        }
    }
    rows.push(("total".to_owned(), total));
    rows
}

/// The table that `just questions` prints.
fn summary(rows: &[(String, [Counts; 2])]) -> String {
    let mut text = format!("{:9}  {:^30}  {:^30}\n", "", "inside the rules", "outside the rules");
    let head = format!("{:>6} {:>7} {:>7} {:>7}", "asked", "right", "refused", "WRONG");
    let _ = writeln!(text, "{:9}  {head}  {head}", "dataset");
    for (name, kinds) in rows {
        let cells = kinds.map(|counts| {
            let Counts { right, refused, wrong } = counts;
            format!("{:>6} {right:>7} {refused:>7} {wrong:>7}", counts.all())
        });
        let _ = writeln!(text, "{name:9}  {}  {}", cells[0], cells[1]);
    }
    text
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

/// The verdicts on all questions of a folder.
struct Outcome {
    datasets: usize,
    /// By whether they are outside the rules: how many there are, and how many were answered rightly.
    inside: (usize, usize),
    outside: (usize, usize),
    /// Every wrong answer, and what would be right.
    wrong: String,
}

#[expect(clippy::print_stdout, reason = "the table is read with --nocapture")]
fn judge_all(datasets: &[Dataset]) -> Outcome {
    let judged: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = datasets
            .iter()
            .map(|dataset| {
                scope.spawn(move || {
                    let mut worker = Worker::start();
                    let cases = dataset.questions.iter();
                    let judged =
                        cases.map(|case| (dataset, case, judge(dataset, case, &mut worker)));
                    let judged: Vec<_> = judged.collect();
                    worker.end();
                    judged
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let verdicts: Vec<_> =
        judged.iter().map(|(dataset, case, (verdict, _))| (*dataset, *case, *verdict)).collect();
    let rows = counts(&verdicts);
    // The sums are the last row.
    let (_, [inside, outside]) = &rows[rows.len() - 1];
    let mut outcome = Outcome {
        datasets: datasets.len(),
        inside: (inside.all(), inside.right),
        outside: (outside.all(), outside.right),
        wrong: String::new(),
    };
    for (dataset, case, (verdict, answer)) in &judged {
        print!("{}", line(dataset, case, *verdict, answer));
        if *verdict == Verdict::Wrong {
            let right = &case.answers;
            let _ = writeln!(outcome.wrong, "{}: {}\n{answer}{right:?}\n", dataset.name, case.ask);
        }
    }
    println!("\n{}", summary(&rows));
    let (asked, right) = outcome.inside;
    let (others, wrong) = (outcome.outside.0, inside.wrong + outside.wrong);
    println!(
        "{} questions over {} datasets: {wrong} answered wrongly; of the {asked} inside the rules, \
         {right} ({} %) answered rightly; {others} outside the rules\n",
        asked + others,
        outcome.datasets,
        right * 100 / asked.max(1),
    );
    outcome
}

#[test]
fn no_question_is_answered_wrongly_and_most_are_answered() {
    let Some(datasets) = oracle("") else { return super::eprintln_skipped() };
    let outcome = judge_all(&datasets);
    let (inside, right) = outcome.inside;
    assert_eq!((outcome.datasets, inside, outcome.outside.0), (10, 80, 40));
    assert!(outcome.wrong.is_empty(), "answered wrongly:\n{}", outcome.wrong);
    assert!(right * 100 >= inside * MIN_ANSWERED_PERCENT, "answered: {right} of {inside}");
}

/// Questions that were written later, to find what the rules get wrong.
#[test]
fn no_further_question_is_answered_wrongly() {
    let Some(datasets) = oracle("further") else { return super::eprintln_skipped() };
    let outcome = judge_all(&datasets);
    let (inside, right) = outcome.inside;
    assert_eq!((outcome.datasets, inside, outcome.outside.0), (12, 105, 148));
    assert!(outcome.wrong.is_empty(), "answered wrongly:\n{}", outcome.wrong);
    assert!(right * 100 >= inside * MIN_ANSWERED_PERCENT, "answered: {right} of {inside}");
}
