//! Words that are said to a program while it works.

use belljar_journal::event::Injected;
use serde_json::json;

/// Turns left at which a program is told so.
const WARNINGS: [u32; 2] = [3, 1];

/// A message of the user, as one line in the form that Claude Code reads.
pub fn user_line(text: &str) -> String {
    let message = json!({
        "type": "user",
        "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
    });
    format!("{message}\n")
}

/// A warning that turns are running out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnWarning {
    pub turns_left: u32,
}

impl TurnWarning {
    /// The warning that is due after so many turns of so many; none: there is none.
    pub fn due(turns: u32, most: u32) -> Option<Self> {
        let turns_left = most.saturating_sub(turns);
        WARNINGS.contains(&turns_left).then_some(Self { turns_left })
    }

    pub fn text(self) -> &'static str {
        match self.turns_left {
            1 => "One turn remains. Answer now, with what you have; do not call another tool.",
            _ => {
                "Three turns remain. Finish what matters most, leave your results in files where \
                 they belong, and keep the last turn for your answer."
            }
        }
    }

    /// The kind under which a journal has it.
    pub fn kind(self) -> Injected {
        match self.turns_left {
            1 => Injected::TurnsLeft1,
            _ => Injected::TurnsLeft3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_come_at_three_turns_and_at_one() {
        let due: Vec<u32> = (0..=6)
            .filter_map(|turns| TurnWarning::due(turns, 6))
            .map(|it| it.turns_left)
            .collect();
        assert_eq!(due, [3, 1]);
        assert_eq!(TurnWarning { turns_left: 1 }.kind(), Injected::TurnsLeft1);
    }
}
