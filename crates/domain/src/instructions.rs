//! Instructions of a run's owner for its model.

use std::fmt;
use std::str::FromStr;

/// Text that is added to the prompt of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions(String);

/// Text that cannot be instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInstructions {
    #[error("instructions must not be empty")]
    Empty,
    #[error("instructions have at most {most} characters, and these have {given}", most = Instructions::MAX_CHARS)]
    Long { given: usize },
    #[error("instructions must not contain a NUL character")]
    Nul,
}

impl Instructions {
    pub const MAX_CHARS: usize = 32_768;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Instructions {
    type Error = InvalidInstructions;

    fn try_from(text: String) -> Result<Self, InvalidInstructions> {
        let given = text.chars().count();
        match () {
            () if text.trim().is_empty() => Err(InvalidInstructions::Empty),
            () if given > Self::MAX_CHARS => Err(InvalidInstructions::Long { given }),
            () if text.contains('\0') => Err(InvalidInstructions::Nul),
            () => Ok(Self(text)),
        }
    }
}

impl FromStr for Instructions {
    type Err = InvalidInstructions;

    fn from_str(text: &str) -> Result<Self, InvalidInstructions> {
        text.to_owned().try_into()
    }
}

impl From<Instructions> for String {
    fn from(instructions: Instructions) -> Self {
        instructions.0
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_bounded_text() {
        assert_eq!(" \n".parse::<Instructions>(), Err(InvalidInstructions::Empty));
        assert_eq!("a\0".parse::<Instructions>(), Err(InvalidInstructions::Nul));
        let long = "ü".repeat(Instructions::MAX_CHARS);
        assert_eq!(long.parse::<Instructions>().unwrap().as_str(), long);
        let given = Instructions::MAX_CHARS + 1;
        let longer = format!("{long}.").parse::<Instructions>();
        assert_eq!(longer, Err(InvalidInstructions::Long { given }));
    }
}
