//! Follows a program from its start to its end: its events and its turns.

use std::time::Duration;

use belljar_agent::ProgramRecorder;
use belljar_agent::program::{
    Lines, Program, ProgramEvent, ProgramWork, Task, TurnWarning, user_line,
};
use belljar_domain::End;
use belljar_node::{Call, Capture, Captured, Event as CallEvent, Writer};
use tokio::time::Instant;

use super::show::Show;
use crate::cli::AgentRun;

/// What is kept of what it prints besides.
const KEPT: usize = 8 << 10;

/// How long a program may take to leave after its result.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Followed {
    pub(super) end: End,
    pub(super) work: ProgramWork,
    pub(super) stderr: Captured,
    /// It had told its result, and was ended since it did not leave by itself.
    pub(super) is_cut: bool,
}

/// What is told to a program on its standard input.
struct Words {
    writer: Writer,
    turns: Option<u32>,
    warned: Option<TurnWarning>,
}

pub(super) async fn follow(
    mut call: Call,
    program: &Program,
    options: &AgentRun,
    show: &mut Show,
    recorder: &mut ProgramRecorder,
) -> anyhow::Result<Followed> {
    let mut words = (program.task == Task::Message).then(|| Words {
        writer: call.writer(),
        turns: options.turns,
        warned: None,
    });
    if let Some(words) = &words {
        words.say(&options.task);
    }
    let mut work = ProgramWork::default();
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
            let events = work.read(program.events, &line.text);
            recorder.read(&line).await?;
            let acts = events.iter().any(|event| matches!(event, ProgramEvent::ToolCall { .. }));
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
                && let Some(warning) = words.warn(work.turns)
            {
                show.event(ProgramEvent::Warning { turns_left: warning.turns_left })?;
                recorder.warned(warning).await?;
            }
        }
    };
    if work.verdict.is_none()
        && let Some(line) = lines.rest()
    {
        recorder.read(&line).await?;
        for event in work.read(program.events, &line.text) {
            show.event(event)?;
        }
    }
    Ok(Followed { end, work, stderr: stderr.finish(), is_cut })
}

impl Words {
    /// A message of the user, in the form that Claude Code reads.
    fn say(&self, text: &str) {
        self.writer.write(user_line(text).into_bytes());
    }

    /// While a tool runs: what is said then is read with the tool's result.
    fn warn(&mut self, turns: u32) -> Option<TurnWarning> {
        let warning = TurnWarning::due(turns, self.turns?)?;
        if self.warned == Some(warning) {
            return None;
        }
        self.warned = Some(warning);
        self.say(warning.text());
        Some(warning)
    }
}
