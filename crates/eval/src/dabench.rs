//! Imports DABench: its questions and labels become the tasks of a suite.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

/// A line of the questions' file.
#[derive(Debug, Deserialize)]
struct Question {
    id: u64,
    question: String,
    constraints: String,
    format: String,
    file_name: String,
}

/// A line of the labels' file.
#[derive(Debug, Deserialize)]
struct Label {
    id: u64,
    common_answers: Vec<[String; 2]>,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("line {line} of the {file} cannot be read")]
    Line { file: &'static str, line: usize, source: serde_json::Error },
    #[error("question {0} has no label")]
    NoLabel(u64),
    #[error("there is no question")]
    Empty,
}

/// Writes a suite of up to `limit` questions, evenly taken from all. `tables` is the path of their
/// folder, as the suite names it.
pub fn import(
    questions: &str,
    labels: &str,
    tables: &str,
    limit: Option<usize>,
) -> Result<String, ImportError> {
    let questions: Vec<Question> = lines("questions", questions)?;
    let labels: Vec<Label> = lines("labels", labels)?;
    let labels: BTreeMap<u64, Vec<[String; 2]>> =
        labels.into_iter().map(|label| (label.id, label.common_answers)).collect();
    let count = limit.unwrap_or(questions.len()).min(questions.len());
    if count == 0 {
        return Err(ImportError::Empty);
    }
    let mut text = HEAD.to_owned();
    for at in 0..count {
        let question = &questions[at * questions.len() / count];
        let label = labels.get(&question.id).ok_or(ImportError::NoLabel(question.id))?;
        write_task(&mut text, question, label, tables);
    }
    Ok(text)
}

const HEAD: &str = "\
# Questions of DABench (InfiAgent, Apache-2.0), made by `belljar eval import dabench`.
name = \"DABench\"

[defaults]
template = \"python-data\"
turns = 12
";

fn lines<T: for<'de> Deserialize<'de>>(
    file: &'static str,
    text: &str,
) -> Result<Vec<T>, ImportError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(at, line)| {
        serde_json::from_str(line).map_err(|source| ImportError::Line {
            file,
            line: at + 1,
            source,
        })
    });
    read.collect()
}

fn write_task(text: &mut String, question: &Question, label: &[[String; 2]], tables: &str) {
    let asked = format!(
        "{}\n\nConstraints: {}\n\nAnswer in this format: {}",
        question.question, question.constraints, question.format
    );
    let values: Vec<String> =
        label.iter().map(|[name, value]| format!("{} = {}", quoted(name), quoted(value))).collect();
    let table = format!("{tables}/{}", question.file_name);
    // Writing to a text does not fail.
    let _ = write!(
        text,
        "\n[[task]]\nid = \"dabench-{}\"\nquestion = {}\ndata = [{}]\nexpect.values = {{ {} }}\n",
        question.id,
        quoted(&asked),
        quoted(&table),
        values.join(", ")
    );
}

/// A string of JSON is one of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::suite::{Expectation, Suite};

    /// The example that is shipped is what the importer makes of the questions in the tests.
    #[test]
    fn the_shipped_example_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let questions = read("tests/eval/dabench/questions.jsonl");
        let labels = read("tests/eval/dabench/labels.jsonl");
        let tables = "../../tests/eval/dabench/tables";
        let text = import(&questions, &labels, tables, Some(60)).unwrap();
        assert!(text == read("examples/eval/dabench-60.toml"), "import it again with --limit 60");
        let suite = Suite::read(&text).unwrap();
        assert_eq!(suite.tasks.len(), 60);
        for task in &suite.tasks {
            assert!(root.join("examples/eval").join(&task.data[0]).exists(), "{task:?}");
            assert!(matches!(&task.expect, Expectation::Values(values) if !values.is_empty()));
        }
    }

    #[test]
    fn what_cannot_be_imported_is_named() {
        let question = r#"{"id": 5, "question": "q", "constraints": "c", "format": "f", "file_name": "t.csv"}"#;
        let label = r#"{"id": 5, "common_answers": [["a b", "1"]]}"#;
        let text = import(question, label, "tables", None).unwrap();
        let suite = Suite::read(&text).unwrap();
        assert_eq!((&*suite.tasks[0].id, &*suite.tasks[0].data[0]), ("dabench-5", "tables/t.csv"));
        assert!(matches!(import(question, "", "t", None), Err(ImportError::NoLabel(5))));
        assert!(matches!(import("", label, "t", None), Err(ImportError::Empty)));
        let broken = import(&format!("{question}\n{{"), label, "t", None).unwrap_err();
        assert_eq!(broken.to_string(), "line 2 of the questions cannot be read");
    }
}
