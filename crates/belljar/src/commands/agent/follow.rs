//! Follows a program from its start to its end: its events and its turns.

use std::time::Duration;

use belljar_model::End;
use belljar_node::{Call, Capture, Captured, Event as CallEvent, Writer};
use serde_json::json;
use tokio::time::Instant;

use super::dialect::{Event, Work};
use super::program::{Description, Task};
use super::show::Show;
use crate::cli::AgentRun;

/// A line that is longer is cut, and then no event any more.
const LONGEST_LINE: usize = 8 << 20;

/// What is kept of what it prints besides.
const KEPT: usize = 8 << 10;

/// How long a program may take to leave after its result.
const GRACE: Duration = Duration::from_secs(10);

/// Turns left at which a program is told so.
const WARNINGS: [u32; 2] = [3, 1];

#[derive(Debug)]
pub(super) struct Followed {
    pub(super) end: End,
    pub(super) work: Work,
    pub(super) stderr: Captured,
    /// It had told its result, and was ended since it did not leave by itself.
    pub(super) is_cut: bool,
}

/// What is told to a program on its standard input.
struct Words {
    writer: Writer,
    turns: Option<u32>,
    warned: Option<u32>,
}

pub(super) async fn follow(
    mut call: Call,
    program: &Description,
    options: &AgentRun,
    show: &mut Show,
) -> anyhow::Result<Followed> {
    let mut words = (program.task == Task::Message).then(|| Words {
        writer: call.writer(),
        turns: options.turns,
        warned: None,
    });
    if let Some(words) = &words {
        words.say(&options.task);
    }
    let mut work = Work::default();
    let mut lines = Lines::default();
    let mut stderr = Capture::new(KEPT);
    let mut is_cut = false;
    let leaving = tokio::time::sleep(Duration::MAX);
    tokio::pin!(leaving);
    let end = loop {
        let event = tokio::select! {
            event = call.next() => event,
            () = &mut leaving, if work.verdict.is_some() && !is_cut => {
                is_cut = true;
                call.kill();
                continue;
            }
        };
        let came = match event {
            CallEvent::Stdout(bytes) => lines.push(&bytes),
            CallEvent::Stderr(bytes) => {
                stderr.push(&bytes);
                continue;
            }
            CallEvent::End(end) => break end,
        };
        for line in came {
            // What it begins after its result, nobody asked for.
            if work.verdict.is_some() {
                continue;
            }
            let events = work.read(program.events, &line);
            let acts = events.iter().any(|event| matches!(event, Event::ToolCall { .. }));
            for event in events {
                show.event(event)?;
            }
            if work.verdict.is_some() {
                leaving.as_mut().reset(Instant::now() + GRACE);
                if let Some(words) = words.take() {
                    words.writer.close();
                }
            } else if let Some(words) = &mut words
                && acts
                && let Some(turns_left) = words.warn(work.turns)
            {
                show.event(Event::Warning { turns_left })?;
            }
        }
    };
    if work.verdict.is_none()
        && let Some(line) = lines.rest()
    {
        for event in work.read(program.events, &line) {
            show.event(event)?;
        }
    }
    Ok(Followed { end, work, stderr: stderr.finish(), is_cut })
}

impl Words {
    /// A message of the user, in the form that Claude Code reads.
    fn say(&self, text: &str) {
        let message = json!({
            "type": "user",
            "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
        });
        self.writer.write(format!("{message}\n").into_bytes());
    }

    /// While a tool runs: what is said then is read with the tool's result.
    fn warn(&mut self, turns: u32) -> Option<u32> {
        let left = self.turns?.saturating_sub(turns);
        if !WARNINGS.contains(&left) || self.warned == Some(left) {
            return None;
        }
        self.warned = Some(left);
        self.say(match left {
            1 => "One turn remains. Answer now, with what you have; do not call another tool.",
            _ => {
                "Three turns remain. Finish what matters most, leave your results in files where \
                 they belong, and keep the last turn for your answer."
            }
        });
        Some(left)
    }
}

/// Cuts a stream into lines.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LONGEST_LINE - self.rest.len();
            self.rest.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                lines.extend(self.rest());
            }
        }
        lines
    }

    fn rest(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.rest);
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        (!line.is_empty()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_were_cut() {
        let mut lines = Lines::default();
        assert!(lines.push(b"{\"a\":").is_empty());
        assert_eq!(lines.push(b"1}\r\n\n{\"b\""), ["{\"a\":1}"]);
        assert_eq!(lines.push(b":2}\nrest"), ["{\"b\":2}"]);
        assert_eq!(lines.rest().as_deref(), Some("rest"));
        assert_eq!(lines.rest(), None);
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let mut lines = Lines::default();
        for _ in 0..=LONGEST_LINE / 65536 {
            assert!(lines.push(&[b'x'; 65536]).is_empty());
        }
        let came = lines.push(b"y\n{}\n");
        assert_eq!((came[0].len(), came[1].as_str()), (LONGEST_LINE, "{}"));
    }
}
