//! The identity of what a run does: every call, connection, model request, file and charge of a
//! run bears it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::run::{ExecId, RunId};

/// The run, the turn and the call that something belongs to.
///
/// In text it is `run/turn`, or `run/turn/call`: safe in a header, a log and a shell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attribution {
    pub run: RunId,
    /// From 1: the turn whose answer asked for it, and for a model request the turn it is made in.
    pub turn: u32,
    /// None for a model request, which no call makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ExecId>,
}

/// The reason a text is no attribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an attribution is `run/turn` or `run/turn/call`, with ids of 26 characters of a-z and 2-7"
)]
pub struct InvalidAttribution;

impl fmt::Display for Attribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.turn)?;
        match &self.call {
            Some(call) => write!(f, "/{call}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Attribution {
    type Err = InvalidAttribution;

    fn from_str(text: &str) -> Result<Self, InvalidAttribution> {
        let mut parts = text.split('/');
        let (Some(run), Some(turn), call, None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(InvalidAttribution);
        };
        let is_number = !turn.is_empty() && turn.bytes().all(|byte| byte.is_ascii_digit());
        let turn = is_number.then(|| turn.parse().ok()).flatten().ok_or(InvalidAttribution)?;
        Ok(Self {
            run: run.parse().map_err(|_| InvalidAttribution)?,
            turn,
            call: call.map(str::parse).transpose().map_err(|_| InvalidAttribution)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribution_survives_its_text_form() {
        let run = RunId::from_bits([7; 16]);
        for call in [None, Some(ExecId::from_bits([9; 16]))] {
            let attribution = Attribution { run: run.clone(), turn: 3, call };
            assert_eq!(attribution.to_string().parse(), Ok(attribution));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let run = RunId::from_bits([7; 16]);
        for text in [
            String::new(),
            run.to_string(),
            format!("{run}/"),
            format!("{run}/+1"),
            format!("{run}/-1"),
            format!("{run}/4294967296"),
            format!("{run}/1/"),
            format!("{run}/1/x"),
            format!("{run}/1/{run}/1"),
            "../1".to_owned(),
        ] {
            assert_eq!(text.parse::<Attribution>(), Err(InvalidAttribution), "{text}");
        }
    }
}
