//! Events as they come: lines of JSON for programs, short lines for people.
//!
//! For people they go to standard error; standard output gets the answer alone.

use belljar_agent::program::{Program, ProgramEvent};
use belljar_domain::units::format_size;
use serde_json::{Value, json};

use super::choose::Choice;
use crate::output::Printer;
use crate::session::Session;

/// How much of a tool's input or output people are shown.
const LINES: usize = 8;
const COLUMNS: usize = 160;

#[derive(Debug)]
pub(super) struct Show {
    printer: Printer,
    /// A text that may turn out to be the answer, which is printed elsewhere.
    held: Option<String>,
}

impl Show {
    pub(super) fn new(printer: Printer) -> Self {
        Self { printer, held: None }
    }

    pub(super) fn started(
        &self,
        session: &Session,
        program: &Program,
        choice: &Choice,
    ) -> anyhow::Result<()> {
        let template = format!("{}@{}", session.template.name, session.template.version);
        if self.printer.is_json() {
            return Ok(self.printer.data(json!({
                "type": "started",
                "program": program.name,
                "model": choice.model,
                "operations": choice.operations,
                "sandbox": session.sandbox.id().as_str(),
                "tier": session.tier.as_str(),
                "template": template,
            }))?);
        }
        self.printer.note(format_args!(
            "{} with {} in {} ({template})",
            program.name,
            choice.model,
            session.tier.as_str()
        ));
        Ok(())
    }

    pub(super) fn event(&mut self, event: ProgramEvent) -> anyhow::Result<()> {
        if self.printer.is_json() {
            return Ok(self.printer.data(serde_json::to_string(&event)?)?);
        }
        if let ProgramEvent::Raw { .. } | ProgramEvent::Usage { .. } = event {
            return Ok(());
        }
        if let Some(text) = self.held.take() {
            self.printer.note(text);
        }
        match event {
            ProgramEvent::Text { text } => self.held = Some(text),
            ProgramEvent::ToolCall { tool, input, .. } => {
                self.printer.note(format_args!("> {tool}: {}", short(&asked(&input), "  ")));
            }
            ProgramEvent::ToolResult { output, is_error, .. } => {
                let mark = if is_error { "!" } else { "<" };
                self.printer.note(format_args!("{mark} {}", short(&output, "  ")));
            }
            ProgramEvent::Warning { turns_left } => {
                self.printer.note(format_args!("* warned: {turns_left} turns remain"));
            }
            ProgramEvent::Usage { .. } | ProgramEvent::Raw { .. } => {}
        }
        Ok(())
    }

    /// The last text, if nothing came after it.
    pub(super) fn finish(self) -> Option<String> {
        self.held
    }
}

/// What a tool is asked to do, as one would type it.
fn asked(input: &Value) -> String {
    match input["command"].as_str() {
        Some(command) => command.to_owned(),
        None => input.to_string(),
    }
}

/// The beginning, indented from its second line on.
fn short(text: &str, indent: &str) -> String {
    let text = text.trim_end();
    let mut lines = text.lines();
    let cut = |line: &str| match line.char_indices().nth(COLUMNS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    };
    let shown: Vec<String> = lines.by_ref().take(LINES).map(cut).collect();
    let separator = format!("\n{indent}");
    let mut shown = shown.join(&separator);
    let rest: usize = lines.map(|line| line.len() + 1).sum();
    if rest > 0 {
        shown.push_str(&format!("{separator}… {} more", format_size(rest as u64)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_outputs_are_cut() {
        assert_eq!(short("one\ntwo\n", "  "), "one\n  two");
        let wide = short(&"é".repeat(COLUMNS + 1), "");
        assert_eq!(wide.chars().count(), COLUMNS + 1);
        assert!(wide.ends_with('…'));
        let long = short(&"x\n".repeat(LINES + 5), "");
        assert_eq!(long.lines().count(), LINES + 1);
        assert!(long.ends_with("more"), "{long}");
    }

    #[test]
    fn a_command_is_shown_as_it_is_typed() {
        assert_eq!(asked(&json!({"command": "ls -l", "description": "list"})), "ls -l");
        assert_eq!(asked(&json!({"path": "a"})), "{\"path\":\"a\"}");
    }
}
