//! Arguments of tool calls. Models write them freehand, so they may be anything.

use belljar_llm::json::{self, Kind, Reader};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What is deeper would not fit, with the body around it, into what gateways read.
const DEEPEST: usize = 64;

/// What a model wrote as the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// An object in JSON, exactly as it was written.
    Object(String),
    /// Something else.
    Invalid { text: String, problem: String },
}

/// Why arguments cannot be used. To be told to the model, which can do better.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadArguments {
    #[error("The arguments are not a JSON object: {0}. Call the tool again with valid JSON.")]
    NotAnObject(String),
    #[error("The arguments do not fit the tool's schema: {0}. Call the tool again.")]
    Schema(String),
}

impl Input {
    /// Judges what a model wrote. Nothing at all counts as no arguments.
    pub fn read(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Object("{}".to_owned());
        }
        match problem(text) {
            None => Self::Object(text.to_owned()),
            Some(problem) => Self::Invalid { text: text.to_owned(), problem },
        }
    }

    /// Makes arguments of our own.
    pub fn of(value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => Self::read(&text),
            Err(error) => Self::Invalid { text: String::new(), problem: error.to_string() },
        }
    }

    /// As a tool wants them.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, BadArguments> {
        match self {
            Self::Object(text) => {
                serde_json::from_str(text).map_err(|error| BadArguments::Schema(error.to_string()))
            }
            Self::Invalid { problem, .. } => Err(BadArguments::NotAnObject(problem.clone())),
        }
    }

    /// What the model wrote, valid or not.
    pub fn text(&self) -> &str {
        match self {
            Self::Object(text) | Self::Invalid { text, .. } => text,
        }
    }
}

fn problem(text: &str) -> Option<String> {
    match Reader::new().read(text.as_bytes()) {
        Err(json::Malformed::Short) => Some("the text ends too early".to_owned()),
        Err(json::Malformed::Syntax(at)) => Some(format!("unexpected character at byte {at}")),
        Err(json::Malformed::Twice(at)) => {
            Some(format!("a key stands twice in one object, at byte {at}"))
        }
        Err(json::Malformed::Deep) => Some(format!("it is nested more than {DEEPEST} deep")),
        Err(json::Malformed::Utf8 | json::Malformed::Large) => Some("it is too large".to_owned()),
        Ok(value) if value.kind() != Kind::Object => Some(format!("it is {}", name(value.kind()))),
        Ok(_) if depth(text) > DEEPEST => Some(format!("it is nested more than {DEEPEST} deep")),
        Ok(_) => None,
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::True | Kind::False => "a boolean",
        Kind::Number => "a number",
        Kind::String => "a string",
        Kind::Array => "an array",
        Kind::Object => "an object",
    }
}

/// How deep valid JSON is nested.
fn depth(text: &str) -> usize {
    let (mut now, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                now += 1;
                deepest = deepest.max(now);
            }
            b'}' | b']' if !in_string => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Code {
        code: String,
    }

    fn complaint(text: &str) -> String {
        Input::read(text).parse::<Code>().unwrap_err().to_string()
    }

    #[test]
    fn an_object_is_kept_as_it_was_written() {
        let text = "{ \"z\": 1,\n \"code\": \"p\\u0072int\" }";
        let input = Input::read(text);
        assert_eq!(input, Input::Object(text.to_owned()));
        assert_eq!(input.parse::<Code>().unwrap().code, "print");
        assert_eq!(Input::read(" \n"), Input::Object("{}".to_owned()));
    }

    #[test]
    fn what_is_wrong_can_be_told_to_the_model() {
        assert!(complaint("{\"code\": \"x").contains("ends too early"));
        assert!(complaint("{code: 1}").contains("unexpected character at byte 1"));
        assert!(complaint("[1]").contains("it is an array"));
        assert!(complaint("{\"code\":\"a\",\"code\":\"b\"}").contains("twice"));
        assert!(complaint("{}").contains("missing field `code`"));
        assert!(complaint("{\"code\":7}").contains("do not fit the tool's schema"));
    }

    #[test]
    fn depth_is_bounded_below_that_of_a_body() {
        let nested = |levels: usize| {
            format!("{{\"a\":{}\"[[[\\\"[\"{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1))
        };
        assert!(matches!(Input::read(&nested(DEEPEST)), Input::Object(_)));
        for levels in [DEEPEST + 1, 100, 500] {
            assert!(complaint(&nested(levels)).contains("nested more than"), "{levels}");
        }
    }
}
