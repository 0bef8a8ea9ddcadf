//! Where a head ends.

use super::bytes::is_value_byte;
use super::{LONGEST_HEAD, Malformed};

/// Looks for the end of a head in a buffer that grows. Each byte is looked at
/// once, so a client that sends single bytes costs us no more than another.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Bytes seen.
    at: usize,
    state: State,
}

/// ```text
///   Text ─CR─► Return ─LF─► Start ─CR─► LastReturn ─LF─► end
///     ▲──────────────────────┘ other
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Return,
    /// At the start of a line that is not the first.
    Start,
    LastReturn,
}

impl Scan {
    /// The head's length with its empty line, or none while it is not whole.
    /// `buffer` begins with what it held at the last call.
    pub fn find_end(&mut self, buffer: &[u8]) -> Result<Option<usize>, Malformed> {
        let seen = buffer.len().min(LONGEST_HEAD);
        while self.at < seen {
            if self.state == State::Text {
                // Most bytes are here: past all that change nothing.
                let text = &buffer[self.at..seen];
                self.at += text.iter().take_while(|b| is_value_byte(**b)).count();
                if self.at == seen {
                    break;
                }
            }
            let byte = buffer[self.at];
            self.state = match (self.state, byte) {
                (State::Text, b'\r') => State::Return,
                (State::Start, b'\r') => State::LastReturn,
                (State::Return, b'\n') => State::Start,
                (State::LastReturn, b'\n') => {
                    self.at += 1;
                    return Ok(Some(self.at));
                }
                (State::Return | State::LastReturn, _) | (_, b'\n') => {
                    return Err(Malformed::LineEnd);
                }
                (State::Text | State::Start, byte) if is_value_byte(byte) => State::Text,
                (State::Text | State::Start, _) => return Err(Malformed::Control),
            };
            self.at += 1;
        }
        if buffer.len() > LONGEST_HEAD { Err(Malformed::TooLong) } else { Ok(None) }
    }
}
