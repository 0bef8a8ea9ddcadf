//! Reads messages of agents strictly. A refusal says what to correct.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::message::{CodeArtifact, Diagnosis, Plan};

const MAX_TEXT_CHARS: usize = 8_000;
const MAX_CODE_BYTES: usize = 256 << 10;
const MAX_COMMAND_CHARS: usize = 4_000;
const MAX_LIST: usize = 64;
const MIN_MEMORY_BYTES: u64 = 16 << 20;
const MAX_MEMORY_BYTES: u64 = 1 << 40;
/// A shorter request may be in a plan by chance.
const MIN_REPEATED_CHARS: usize = 16;

/// Words of a comment that stands for code which is missing.
const PLACEHOLDERS: &[&str] =
    &["todo", "fixme", "rest of the", "your code here", "implementation goes here", "omitted"];

/// A message that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

fn refuse<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(why.into()))
}

fn parsed<T: DeserializeOwned>(message: &Value) -> Result<T, Refusal> {
    serde_json::from_value(message.clone())
        .map_err(|error| Refusal(format!("The message does not fit its schema: {error}.")))
}

/// Reads a plan. `request`: the sentence that the Coder must not see.
pub fn read_plan(message: &Value, request: &str) -> Result<Plan, Refusal> {
    let plan: Plan = parsed(message)?;
    check_text("task", &plan.task, MAX_TEXT_CHARS)?;
    for (name, list) in
        [("dependencies", &plan.dependencies), ("steps", &plan.steps), ("inputs", &plan.inputs)]
    {
        if list.len() > MAX_LIST {
            return refuse(format!("`{name}` has more than {MAX_LIST} entries."));
        }
        for text in list {
            check_text(name, text, MAX_TEXT_CHARS)?;
        }
    }
    if let Some(odd) = plan.dependencies.iter().find(|package| !is_package(package)) {
        return refuse(format!("`{odd}` in `dependencies` is not the name of a package."));
    }
    let request = plain_words(request);
    let repeats = |text: &String| plain_words(text).contains(&request);
    let is_repeated = repeats(&plan.task) || plan.steps.iter().chain(&plan.inputs).any(repeats);
    if request.len() >= MIN_REPEATED_CHARS && is_repeated {
        return refuse("The plan repeats the request. Specify the program in other words.");
    }
    Ok(plan)
}

pub fn read_code(message: &Value) -> Result<CodeArtifact, Refusal> {
    let artifact: CodeArtifact = parsed(message)?;
    check_code(&artifact)?;
    if let Some(line) = placeholder(&artifact) {
        return refuse(format!(
            "The code is not complete: `{}`. Write all of it, without placeholders.",
            line.trim().chars().take(120).collect::<String>()
        ));
    }
    Ok(artifact)
}

pub fn read_diagnosis(message: &Value) -> Result<Diagnosis, Refusal> {
    let diagnosis: Diagnosis = parsed(message)?;
    check_text("cause", &diagnosis.cause, MAX_TEXT_CHARS)?;
    read_code(&message["artifact"])?;
    Ok(diagnosis)
}

/// Checks the bounds of an artifact, also of one that a human made.
pub fn check_code(artifact: &CodeArtifact) -> Result<(), Refusal> {
    let name = &artifact.filename;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty()
        || name.len() > 100
        || name.starts_with(['.', '-'])
        || !name.chars().all(is_plain)
    {
        return refuse("`filename` is a plain name such as main.py, without directories.");
    }
    if artifact.code.trim().is_empty() || artifact.code.len() > MAX_CODE_BYTES {
        return refuse(format!("`code` has 1 to {MAX_CODE_BYTES} bytes."));
    }
    check_text("run_command", &artifact.run_command, MAX_COMMAND_CHARS)?;
    if let Some(install) = &artifact.install_command {
        check_text("install_command", install, MAX_COMMAND_CHARS)?;
    }
    for (name, seconds) in
        [("install_seconds", artifact.install_seconds), ("run_seconds", artifact.run_seconds)]
    {
        if seconds.is_some_and(|it| !(1..=CodeArtifact::MAX_SECONDS).contains(&it)) {
            return refuse(format!("`{name}` is from 1 to {}.", CodeArtifact::MAX_SECONDS));
        }
    }
    let range = MIN_MEMORY_BYTES..=MAX_MEMORY_BYTES;
    if artifact.memory_bytes.is_some_and(|bytes| !range.contains(&bytes)) {
        return refuse(format!("`memory_bytes` is from {MIN_MEMORY_BYTES} to {MAX_MEMORY_BYTES}."));
    }
    Ok(())
}

fn check_text(name: &str, text: &str, most: usize) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return refuse(format!("`{name}` must not be empty."));
    }
    if text.contains('\0') || text.chars().nth(most).is_some() {
        return refuse(format!("`{name}` has at most {most} characters, none of them NUL."));
    }
    Ok(())
}

fn is_package(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-[]=<>~!,@/".contains(c);
    let is_begun = |c: char| c.is_ascii_alphanumeric() || c == '@';
    name.len() <= 100 && name.starts_with(is_begun) && name.chars().all(is_plain)
}

/// The words in small letters, with single blanks and without punctuation.
pub(crate) fn plain_words(text: &str) -> String {
    let text = text.to_lowercase();
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The first line with a comment that stands for code.
fn placeholder(artifact: &CodeArtifact) -> Option<&str> {
    let mark = if artifact.filename.ends_with(".py") { "#" } else { "//" };
    artifact.code.lines().find(|line| {
        let Some(comment) = line.trim().strip_prefix(mark) else { return false };
        let comment = comment.trim().to_lowercase();
        comment == "..."
            || PLACEHOLDERS.iter().any(|words| {
                comment.starts_with(words) || comment.starts_with(&format!("... {words}"))
            })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REQUEST: &str = "Compute the mean of the revenue";

    fn plan() -> Value {
        json!({"language": "python", "task": "mean of a column", "output": "text"})
    }

    fn code() -> Value {
        json!({"filename": "main.py", "code": "print(1)", "run_command": "python main.py"})
    }

    fn with(mut message: Value, name: &str, value: Value) -> Value {
        message[name] = value;
        message
    }

    #[test]
    fn a_plan_never_has_the_sentence_in_it() {
        read_plan(&plan(), REQUEST).unwrap();
        for (name, value) in [
            ("task", json!("Please compute  the MEAN of the revenue.")),
            ("steps", json!(["read", "compute the mean of the revenue"])),
            ("inputs", json!([REQUEST])),
        ] {
            let refused = read_plan(&with(plan(), name, value), REQUEST).unwrap_err().to_string();
            assert!(refused.contains("repeats the request"), "{refused}");
        }
        // The end of a sentence hides nothing.
        let request = "Compute the mean, of the revenue!";
        let repeated = with(plan(), "task", json!("Compute the mean of the revenue and print it."));
        assert!(read_plan(&repeated, request).is_err());
    }

    #[test]
    fn odd_plans_are_refused() {
        for (name, value) in [
            ("task", json!(" ")),
            ("language", json!("cobol")),
            ("dependencies", json!(["--index-url=x"])),
            ("dependencies", json!(["a; rm -rf /"])),
            ("dependencies", json!(vec!["a"; 65])),
            ("sudo", json!(true)),
        ] {
            assert!(
                read_plan(&with(plan(), name, value.clone()), REQUEST).is_err(),
                "{name} {value}"
            );
        }
    }

    #[test]
    fn odd_code_is_refused() {
        read_code(&code()).unwrap();
        for (name, value) in [
            ("filename", json!("../main.py")),
            ("filename", json!(".profile")),
            ("filename", json!("-c")),
            ("code", json!("")),
            ("run_command", json!(" ")),
            ("install_command", json!("")),
            ("run_seconds", json!(0)),
            ("run_seconds", json!(601)),
            ("memory_bytes", json!(1)),
            ("code", json!("a = 1\n    # TODO: implement this\n")),
            ("code", json!("a = 1\n# ... rest of the implementation\n")),
        ] {
            let refused = read_code(&with(code(), name, value.clone()));
            assert!(refused.is_err(), "{name} {value}");
        }
        // A word in a string or in a sentence is no placeholder.
        let fine = "print('# TODO')\n# Prints the todo list.\n";
        read_code(&with(code(), "code", json!(fine))).unwrap();
    }

    #[test]
    fn a_diagnosis_has_code_that_could_be_handed_in() {
        let whole = json!({"category": "syntax", "cause": "a colon", "artifact": code()});
        read_diagnosis(&whole).unwrap();
        let incomplete = with(code(), "code", json!("# todo"));
        assert!(read_diagnosis(&with(whole.clone(), "artifact", incomplete)).is_err());
        assert!(read_diagnosis(&with(whole, "category", json!("bad luck"))).is_err());
    }
}
