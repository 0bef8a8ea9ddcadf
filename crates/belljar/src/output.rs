//! Everything that belljar itself says: data to standard output, the rest to
//! standard error, an error once, with its causes and a hint.

use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use belljar_node::CallError;
use serde::Serialize;
use serde_json::json;

/// How this run of belljar talks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    json: bool,
    volume: Volume,
    /// True if standard error is a terminal that may have colours.
    has_colour: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Volume {
    Normal,
    /// Errors only.
    Quiet,
}

impl Printer {
    pub(crate) fn new(json: bool, volume: Volume) -> Self {
        Self { json, volume, has_colour: false }
    }

    /// Colours what goes to standard error if that is a terminal, unless the user wants none.
    pub(crate) fn with_colour(self, is_wanted: bool) -> Self {
        Self { has_colour: is_wanted && io::stderr().is_terminal(), ..self }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.volume == Volume::Quiet
    }

    /// Data, as text.
    pub(crate) fn data(&self, text: impl fmt::Display) -> io::Result<()> {
        let mut out = io::stdout().lock();
        // Whoever closes the pipe has seen enough.
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Data, as one JSON document.
    pub(crate) fn document(&self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.data(serde_json::to_string_pretty(value)?)?)
    }

    /// Something worth knowing; silenced by `--quiet`.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if !self.is_quiet() {
            self.always(text);
        }
    }

    /// Something that must be said, whatever was asked.
    pub(crate) fn always(&self, text: impl fmt::Display) {
        let text = printable(&text.to_string());
        let text = if self.has_colour { highlighted(&text) } else { text };
        // There is nobody left to tell that standard error is closed.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Steps on the way to a result; silenced by `--quiet`.
    pub(crate) fn progress(&self, text: impl fmt::Display) {
        if self.is_quiet() {
            return;
        }
        let text = printable(&text.to_string());
        let text = if self.has_colour { dimmed(&text) } else { text };
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// An error with its causes, one a line, and the hint that fits best.
    pub(crate) fn report(&self, error: &anyhow::Error) {
        self.always(format_args!("error: {}", causes(error).join("\n  because: ")));
        if let Some(hint) = hint_of(error) {
            self.always(format_args!("hint: {hint}"));
        }
    }

    /// The error that ends the command: with `--json`, it is also the document.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        self.report(error);
        if self.json {
            let causes = causes(error);
            let document = json!({ "error": {
                "message": causes.first(),
                "causes": causes.get(1..).unwrap_or_default(),
                "hint": hint_of(error),
            }});
            let _ = self.document(&document);
        }
    }
}

/// What went wrong and why, each once: some errors repeat what they wrap.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    causes.dedup();
    causes
}

/// Beginnings of lines that people look for, and how each is shown at a terminal.
const LABELS: [(&str, &str); 5] = [
    ("error:", "1;31"),
    ("stopped:", "1;31"),
    ("warning:", "1;33"),
    ("note:", "1"),
    ("hint:", "32"),
];

fn highlighted(text: &str) -> String {
    let shown = |line: &str| {
        let label = LABELS.iter().find(|(label, _)| line.starts_with(label));
        label.map_or_else(
            || line.to_owned(),
            |(label, colour)| line.replacen(label, &format!("\x1b[{colour}m{label}\x1b[0m"), 1),
        )
    };
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// Each line by itself, so that none is dim because another one was cut.
fn dimmed(text: &str) -> String {
    let shown = |line: &str| match line {
        "" => String::new(),
        line => format!("\x1b[2m{line}\x1b[0m"),
    };
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// Names and messages may come from inside a sandbox; they must not steer the
/// terminal that shows them.
pub(crate) fn printable(text: &str) -> String {
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if plain(c) { c } else { '\u{fffd}' }).collect()
}

/// An error that knows what to do next. It shows as the error that it wraps.
#[derive(Debug)]
struct Hinted {
    inner: anyhow::Error,
    hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Error for Hinted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.inner.source()
    }
}

/// Adds the next thing to try to an error.
pub(crate) trait Hint<T> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| hinted(error, hint))
    }
}

pub(crate) fn hinted(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> anyhow::Error {
    Hinted { inner: error.into(), hint: hint.into() }.into()
}

fn hint_of(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(|cause| Some(cause.downcast_ref::<Hinted>()?.hint.as_str()))
}

/// The exit status for an error: 127 and 126 are what shells use for a program
/// that is not there or cannot be run.
pub(crate) fn status_of(error: &anyhow::Error, otherwise: u8) -> u8 {
    let causes = error.chain().filter_map(|cause| match cause.downcast_ref::<Hinted>() {
        Some(hinted) => hinted.inner.downcast_ref::<CallError>(),
        None => cause.downcast_ref::<CallError>(),
    });
    for cause in causes {
        if let CallError::Refused { source, .. } = cause {
            return match source.kind() {
                io::ErrorKind::NotFound => 127,
                io::ErrorKind::PermissionDenied => 126,
                _ => otherwise,
            };
        }
    }
    otherwise
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_hint_is_found_below_other_causes() {
        let root: anyhow::Result<()> = Err(anyhow::anyhow!("no such thing"));
        let error = root.hint("look elsewhere").context("cannot do it").unwrap_err();
        assert_eq!(hint_of(&error), Some("look elsewhere"));
        let chain: Vec<_> = error.chain().map(ToString::to_string).collect();
        assert_eq!(chain, ["cannot do it", "no such thing"]);
    }

    #[test]
    fn a_program_that_is_not_there_has_the_status_that_shells_use() {
        let refused = CallError::Refused {
            doing: "run it".into(),
            source: io::Error::from(io::ErrorKind::NotFound),
        };
        assert_eq!(status_of(&hinted(refused, "install it"), 125), 127);
        assert_eq!(status_of(&anyhow::anyhow!("else"), 125), 125);
    }

    #[test]
    fn labels_have_colours_and_the_rest_of_a_line_has_none() {
        let text = "error: no error: here\n  because: of it\nhint: look elsewhere";
        let want = "\x1b[1;31merror:\x1b[0m no error: here\n  because: of it\n\
                    \x1b[32mhint:\x1b[0m look elsewhere";
        assert_eq!(highlighted(text), want);
        assert_eq!(dimmed("\nturn 1"), "\n\x1b[2mturn 1\x1b[0m");
    }

    #[test]
    fn a_name_from_a_sandbox_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\n");
    }
}
