//! What the model may call.

use std::time::Duration;

use belljar_journal::event::RunCreated;
use belljar_provider::{BadArguments, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::written;

pub(crate) const PYTHON: &str = "execute_python";
pub(crate) const SHELL: &str = "shell";
pub(crate) const READ: &str = "read_file";
pub(crate) const WRITE: &str = "write_file";
pub(crate) const FINISH: &str = "finish";
/// Only in runs whose maker answers questions.
pub(crate) const QUESTION: &str = "ask_human";

/// The longest that one call may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(MOST_SECONDS);
const MOST_SECONDS: u64 = 600;

/// A call that can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Python(Python),
    Shell(Shell),
    Read(Read),
    Write(Write),
    Finish(Finish),
    Question(Question),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Python {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) fresh: bool,
    #[serde(default)]
    pub(crate) timeout_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shell {
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) timeout_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    pub(crate) path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finish {
    pub(crate) answer: String,
    #[serde(default)]
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub(crate) question: String,
}

/// Why a call is not made; told to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error(transparent)]
    Arguments(#[from] BadArguments),
    #[error(
        "There is no tool `{0}`. There are execute_python, shell, read_file, write_file and finish."
    )]
    Unknown(String),
    #[error("`{0}` must not be empty. Call the tool again.")]
    Empty(&'static str),
}

impl Asked {
    pub(crate) fn read(name: &str, input: &Value) -> Result<Self, Unfit> {
        let input = written(input);
        Ok(match name {
            PYTHON => Self::Python(filled(input.parse()?, "code", |it: &Python| &it.code)?),
            SHELL => Self::Shell(filled(input.parse()?, "command", |it: &Shell| &it.command)?),
            READ => Self::Read(filled(input.parse()?, "path", |it: &Read| &it.path)?),
            WRITE => Self::Write(filled(input.parse()?, "path", |it: &Write| &it.path)?),
            FINISH => Self::Finish(filled(input.parse()?, "answer", |it: &Finish| &it.answer)?),
            QUESTION => {
                Self::Question(filled(input.parse()?, "question", |it: &Question| &it.question)?)
            }
            other => return Err(Unfit::Unknown(other.to_owned())),
        })
    }

    /// How long it may take, if the model says so.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let seconds = match self {
            Self::Python(python) => python.timeout_seconds,
            Self::Shell(shell) => shell.timeout_seconds,
            Self::Read(_) | Self::Write(_) | Self::Finish(_) | Self::Question(_) => None,
        };
        seconds.map(|seconds| Duration::from_secs(seconds.clamp(1, MOST_SECONDS)))
    }
}

fn filled<T>(asked: T, name: &'static str, field: impl Fn(&T) -> &String) -> Result<T, Unfit> {
    if field(&asked).trim().is_empty() { Err(Unfit::Empty(name)) } else { Ok(asked) }
}

/// The answer of a call of `finish`.
pub(crate) fn answer(input: &Value) -> Option<String> {
    written(input).parse::<Finish>().ok().map(|finish| finish.answer)
}

/// The tools of a run, as the model is told of them. A run whose maker answers no questions has
/// the same ones as ever, so that prompts of such runs begin with the same bytes.
pub(crate) fn offered_to(created: Option<&RunCreated>) -> Vec<Tool> {
    let mut tools = offered();
    if created.is_some_and(RunCreated::can_ask) {
        tools.push(question());
    }
    tools
}

fn question() -> Tool {
    Tool {
        name: QUESTION.to_owned(),
        description: "Ask the human who started this run, and wait for the answer. Only for what \
                      neither the data nor the question tells, and that changes the answer."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "question": { "type": "string", "description": "The question, in one or two sentences." },
            },
            "required": ["question"],
            "additionalProperties": false,
        }),
    }
}

/// The tools that every run has, as the model is told of them.
pub(crate) fn offered() -> Vec<Tool> {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let seconds = json!({
        "type": "integer", "minimum": 1, "maximum": MOST_SECONDS,
        "description": "How long it may take.",
    });
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
    };
    vec![
        tool(
            PYTHON,
            "Run Python code. By default in one interpreter that keeps variables, imports and \
             functions from call to call, like a notebook; the value of the last expression is \
             shown. With fresh: true in a new process that knows nothing of other calls.",
            json!({
                "code": text("The code."),
                "fresh": { "type": "boolean", "description": "Run in a new process that keeps nothing." },
                "timeout_seconds": seconds,
            }),
            &["code"],
        ),
        tool(
            SHELL,
            "Run a shell command in the home directory. Each call is a new shell.",
            json!({ "command": text("The command."), "timeout_seconds": seconds }),
            &["command"],
        ),
        tool(
            READ,
            "Show a text file of the sandbox, its beginning and end if it is long.",
            json!({ "path": text("Relative to the home directory, or absolute.") }),
            &["path"],
        ),
        tool(
            WRITE,
            "Write a text file in the sandbox; what was there is replaced.",
            json!({
                "path": text("Relative to the home directory, or absolute."),
                "content": text("All of the file."),
            }),
            &["path", "content"],
        ),
        tool(
            FINISH,
            "Give the answer and end. Call it alone, when everything is computed.",
            json!({
                "answer": text("The answer, in Markdown."),
                "files": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Files of the sandbox that belong to the result.",
                },
            }),
            &["answer"],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_strictly_and_mistakes_are_told() {
        let fresh = json!({ "code": "1", "fresh": true });
        assert!(matches!(Asked::read(PYTHON, &fresh), Ok(Asked::Python(it)) if it.fresh));
        let wrong = |name: &str, input: Value| Asked::read(name, &input).unwrap_err().to_string();
        assert!(wrong("python", json!({})).contains("no tool `python`"));
        assert!(wrong(SHELL, json!({})).contains("missing field `command`"));
        assert!(wrong(SHELL, json!({ "command": " " })).contains("must not be empty"));
        assert!(wrong(READ, json!({ "path": "a", "user": "root" })).contains("unknown field"));
        assert!(wrong(FINISH, "{\"answer\": ".into()).contains("not a JSON object"));
        assert_eq!(answer(&json!({ "answer": "42" })).unwrap(), "42");
    }

    #[test]
    fn every_tool_that_is_offered_is_known() {
        for tool in offered().into_iter().chain([question()]) {
            let unknown = Asked::read(&tool.name, &json!({}));
            assert!(!matches!(unknown, Err(Unfit::Unknown(_))), "{}", tool.name);
        }
    }
}
