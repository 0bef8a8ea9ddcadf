//! What a build tells whoever watches it.

use std::time::Duration;

/// Receives a build's progress. The command line draws it; a service may store
/// it. Calls come in order: `started`, any `line` and `bytes`, `finished`.
pub trait Progress {
    fn started(&mut self, step: &StepStart<'_>);
    /// One line that a tool or a command printed; without its line end.
    fn line(&mut self, line: &str);
    /// Bytes read so far of a local image.
    fn bytes(&mut self, done: u64, total: u64);
    fn finished(&mut self, outcome: Outcome, took: Duration);
}

/// The beginning of a step; `number` counts from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepStart<'a> {
    pub name: &'a str,
    pub number: usize,
    pub total: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Made,
    /// Nothing had changed since an earlier build.
    Cached,
    Failed,
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&mut self, _: &StepStart<'_>) {}
    fn line(&mut self, _: &str) {}
    fn bytes(&mut self, _: u64, _: u64) {}
    fn finished(&mut self, _: Outcome, _: Duration) {}
}

/// Cuts a byte stream into lines for [`Progress::line`]. A line longer than
/// [`Lines::LONGEST`] is cut, so that output without line ends cannot grow
/// memory.
#[derive(Debug, Default)]
pub struct Lines {
    pending: Vec<u8>,
    /// The last lines, for the error message of a step that failed.
    tail: std::collections::VecDeque<String>,
}

impl Lines {
    const LONGEST: usize = 4096;
    const TAIL: usize = 20;

    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for &byte in bytes {
            // Progress bars redraw with a carriage return; each frame is a line.
            if byte == b'\n' || byte == b'\r' || self.pending.len() == Self::LONGEST {
                self.flush(&mut each);
            }
            if byte != b'\n' && byte != b'\r' {
                self.pending.push(byte);
            }
        }
    }

    pub fn flush(&mut self, mut each: impl FnMut(&str)) {
        if self.pending.is_empty() {
            return;
        }
        let line = printable(&std::mem::take(&mut self.pending));
        each(&line);
        if self.tail.len() == Self::TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    pub fn tail(&self) -> String {
        self.tail.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// The text without control characters: a build's output must not steer the
/// terminal that shows it.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_cannot_steer_a_terminal() {
        let mut seen = Vec::new();
        let mut lines = Lines::default();
        lines.feed(b"one\ntw", |line| seen.push(line.to_owned()));
        lines.feed(b"o\r\n\x1b[2Jthree", |line| seen.push(line.to_owned()));
        lines.flush(|line| seen.push(line.to_owned()));
        assert_eq!(seen, ["one", "two", "\u{fffd}[2Jthree"]);
        assert_eq!(lines.tail().lines().count(), 3);
    }
}
