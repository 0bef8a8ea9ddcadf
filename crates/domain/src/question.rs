//! What a run is asked.

use std::fmt;
use std::str::FromStr;

/// A question that can be asked: it says something, and is no book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question(String);

/// Why a text is no question.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidQuestion {
    #[error("a question must not be empty")]
    Empty,
    #[error("a question has at most {most} characters, and this has {given}", most = Question::MOST)]
    Long { given: usize },
    #[error("a question must not contain a NUL character")]
    Nul,
}

impl Question {
    /// Characters at most.
    pub const MOST: usize = 100_000;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Question {
    type Error = InvalidQuestion;

    fn try_from(text: String) -> Result<Self, InvalidQuestion> {
        let given = text.chars().count();
        match () {
            () if text.trim().is_empty() => Err(InvalidQuestion::Empty),
            () if given > Self::MOST => Err(InvalidQuestion::Long { given }),
            () if text.contains('\0') => Err(InvalidQuestion::Nul),
            () => Ok(Self(text)),
        }
    }
}

impl FromStr for Question {
    type Err = InvalidQuestion;

    fn from_str(text: &str) -> Result<Self, InvalidQuestion> {
        text.to_owned().try_into()
    }
}

impl From<Question> for String {
    fn from(question: Question) -> Self {
        question.0
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_something() {
        assert_eq!("".parse::<Question>(), Err(InvalidQuestion::Empty));
        assert_eq!(" \n\t".parse::<Question>(), Err(InvalidQuestion::Empty));
        assert_eq!("a\0".parse::<Question>(), Err(InvalidQuestion::Nul));
        let long = "ü".repeat(Question::MOST);
        assert_eq!(long.parse::<Question>().unwrap().as_str(), long);
        let given = Question::MOST + 1;
        assert_eq!(format!("{long}?").parse::<Question>(), Err(InvalidQuestion::Long { given }));
    }
}
