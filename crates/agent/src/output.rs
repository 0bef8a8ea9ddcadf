//! What a call said, and how it ended, whichever tool it was.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_api::call::{Omitted, Usage};
use belljar_api::context::{Bundle, CellError, CellEvent};
use belljar_client::{CallRun, CallSaid, CellRun, Error};
use belljar_domain::EndReason;
use belljar_journal::MOST_BLOB_BYTES;
use belljar_journal::event::{ToolFault, Used};
use serde::Deserialize;

/// Under which the guards of `load_data` report what they found.
const GUARD: &str = "application/vnd.belljar.guard+json";
/// What is kept of a call's output; the sandbox allows about as much.
const MOST_TEXT: usize = MOST_BLOB_BYTES - (1 << 20);
/// Pictures that are kept of one call.
const MOST_PICTURES: usize = 20;

/// The kind of mistake that is none of the code's: there was nothing to run it.
pub(crate) const NO_INTERPRETER: &str = "no_interpreter";

const LOST: &str = "The sandbox was lost while this ran. Whether it was done is not known; what \
                    it wrote and every variable are gone.";

/// A call that is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    /// All of it, in the order in which it came.
    pub(crate) text: String,
    /// Bytes that came when enough was kept.
    left_out: u64,
    pub(crate) reason: Option<EndReason>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) fault: Option<ToolFault>,
    pub(crate) used: Used,
    pub(crate) pictures: Vec<Picture>,
    pub(crate) guards: Vec<Guard>,
}

#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) media_type: &'static str,
    pub(crate) ending: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// What a guard found, as data.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Guard {
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl Heard {
    /// A call that needed no process.
    pub(crate) fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), reason: Some(EndReason::Done), ..Self::default() }
    }

    /// One that could not be done.
    pub(crate) fn fault(category: &str, message: impl Into<String>) -> Self {
        let text = message.into();
        let fault = Some(ToolFault { category: category.to_owned(), message: first_line(&text) });
        Self { fault, ..Self::done(text) }
    }

    /// One whose sandbox ended, or did not answer any more.
    pub(crate) fn lost() -> Self {
        Self { reason: Some(EndReason::Lost), ..Self::fault("lost", LOST) }
    }

    /// Hears a cell to its end.
    pub(crate) async fn cell(mut run: CellRun) -> Result<Self, Error> {
        let mut heard = Self::default();
        while let Some(event) = run.next().await? {
            match event {
                CellEvent::Begun { .. } => {}
                CellEvent::Stdout { data } | CellEvent::Stderr { data } => heard.say(&data),
                CellEvent::Display(display) => heard.shown(&display.data),
                CellEvent::Result { data } => heard.shown(&data),
                CellEvent::Error(error) => heard.raised(&error),
                CellEvent::Omitted(omitted) => heard.omitted(omitted),
                CellEvent::End(end) => heard.end(end.reason, None, &end.usage),
            }
        }
        Ok(heard)
    }

    /// Hears a command to its end.
    pub(crate) async fn command(mut run: CallRun) -> Result<Self, Error> {
        let mut heard = Self::default();
        // Letters may be cut in two between pieces.
        let mut halves = [Vec::new(), Vec::new()];
        while let Some(said) = run.next().await? {
            let (half, bytes) = match said {
                CallSaid::Stdout(bytes) => (&mut halves[0], bytes),
                CallSaid::Stderr(bytes) => (&mut halves[1], bytes),
                CallSaid::Omitted(omitted) => {
                    heard.omitted(omitted);
                    continue;
                }
                CallSaid::End(end) => {
                    for half in &mut halves {
                        let rest = std::mem::take(half);
                        heard.say(&String::from_utf8_lossy(&rest));
                    }
                    heard.end(end.reason, end.exit_code, &end.usage);
                    continue;
                }
            };
            half.extend_from_slice(&bytes);
            let whole = whole_letters(half);
            let rest = half.split_off(whole);
            heard.say(&String::from_utf8_lossy(half));
            *half = rest;
        }
        Ok(heard)
    }

    fn say(&mut self, data: &str) {
        let room = MOST_TEXT.saturating_sub(self.text.len());
        let kept = data.floor_char_boundary(room.min(data.len()));
        self.text.push_str(&data[..kept]);
        self.left_out += (data.len() - kept) as u64;
    }

    fn line(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.say("\n");
        }
        self.say(text);
    }

    fn shown(&mut self, bundle: &Bundle) {
        if let Some(found) = bundle.get(GUARD) {
            // It stands in the standard error as well.
            self.guards.extend(serde_json::from_value::<Guard>(found.clone()).ok());
            return;
        }
        if let Some(picture) = picture(bundle).filter(|_| self.pictures.len() < MOST_PICTURES) {
            let note = format!("[{} of {} bytes, kept]\n", picture.media_type, picture.bytes.len());
            self.pictures.push(picture);
            return self.line(&note);
        }
        if let Some(text) = bundle.get("text/plain").and_then(|text| text.as_str()) {
            self.line(text);
        }
    }

    fn raised(&mut self, error: &CellError) {
        let trace = plain(&error.traceback);
        let said = format!("{}: {}", error.name, error.value);
        self.line(if trace.trim().is_empty() { &said } else { &trace });
        let message = first_line(&said);
        self.fault = Some(ToolFault { category: category(&error.name).to_owned(), message });
    }

    fn omitted(&mut self, omitted: Omitted) {
        let bytes = omitted.stdout_bytes + omitted.stderr_bytes + omitted.shown_bytes;
        self.line(&format!("[... {bytes} bytes were said here and are not kept ...]\n"));
    }

    pub(crate) fn end(&mut self, reason: EndReason, exit_code: Option<i32>, usage: &Usage) {
        self.reason = Some(reason);
        self.exit_code = exit_code;
        self.used = Used {
            wall_micros: usage.wall_ms.saturating_mul(1000),
            cpu_micros: usage.cpu_ms.saturating_mul(1000),
            peak_bytes: usage.peak_memory_bytes,
            written_bytes: usage.written_bytes,
            output_bytes: usage.output_bytes,
        };
        let (category, words) = match (reason, exit_code) {
            (EndReason::Done, _) => return,
            (EndReason::Exit, Some(code)) => ("exit", format!("exit status {code}")),
            (EndReason::Exit, None) => ("exit", "ended by a signal".to_owned()),
            (EndReason::TimeoutWall | EndReason::TimeoutCpu, _) => {
                ("timeout", "it took too long and was ended".to_owned())
            }
            (EndReason::Oom, _) => ("memory", "it needed more memory than there is".to_owned()),
            (EndReason::Output, _) => ("output", "it said more than may be said".to_owned()),
            (EndReason::Disk, _) => ("disk", "the disk is full".to_owned()),
            (EndReason::Lost, _) => ("lost", LOST.to_owned()),
            (other, _) => ("ended", format!("it was ended: {other}")),
        };
        self.line(&format!("[{words}]"));
        // An exception that comes with a limit is only how the code heard of it.
        let is_limit = !matches!(category, "exit" | "ended");
        let never_began = |fault: &ToolFault| fault.category == NO_INTERPRETER;
        if self.fault.is_none() || (is_limit && !self.fault.as_ref().is_some_and(never_began)) {
            self.fault = Some(ToolFault { category: category.to_owned(), message: words });
        }
    }

    /// The whole text, with what is not in it said.
    pub(crate) fn finish(&mut self) -> &str {
        if self.left_out > 0 {
            let note = format!("\n[... {} more bytes are not kept ...]", self.left_out);
            self.text.push_str(&note);
            self.left_out = 0;
        }
        &self.text
    }
}

/// How many bytes at the beginning end with a letter, or with what never becomes one.
fn whole_letters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

fn picture(bundle: &Bundle) -> Option<Picture> {
    let kinds = [("image/png", "png"), ("image/jpeg", "jpg"), ("image/svg+xml", "svg")];
    kinds.into_iter().find_map(|(media_type, ending)| {
        let text = bundle.get(media_type)?.as_str()?;
        let bytes = match ending {
            "svg" => text.as_bytes().to_vec(),
            _ => STANDARD.decode(text.split_whitespace().collect::<String>()).ok()?,
        };
        Some(Picture { media_type, ending, bytes })
    })
}

/// Which kind of mistake an exception is, so that they can be counted.
fn category(name: &str) -> &'static str {
    match name {
        "ModuleNotFoundError" | "ImportError" => "missing_module",
        "SyntaxError" | "IndentationError" | "TabError" => "syntax",
        "TypeError" | "ValueError" | "AttributeError" => "type",
        "KeyError" | "IndexError" => "missing_key",
        "NameError" | "UnboundLocalError" => "name",
        "FileNotFoundError" | "PermissionError" | "IsADirectoryError" => "file",
        "MemoryError" => "memory",
        "TimeoutError" | "KeyboardInterrupt" => "timeout",
        "MergeError" => "join",
        "ContextNotStarted" => NO_INTERPRETER,
        _ => "exception",
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(300).collect()
}

/// Without the colours that interpreters put into tracebacks.
fn plain(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.strip_prefix('[').and_then(|piece| {
            let end = piece.find(|letter: char| letter.is_ascii_alphabetic())?;
            Some(&piece[end + 1..])
        });
        plain.push_str(rest.unwrap_or(piece));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_not_cut_between_pieces() {
        assert_eq!(whole_letters("aü".as_bytes()), 3);
        assert_eq!(whole_letters(&"aü".as_bytes()[..2]), 1);
        assert_eq!(whole_letters(b"a\xff"), 2);
    }

    #[test]
    fn colours_are_taken_off() {
        assert_eq!(plain("\u{1b}[0;31mKeyError\u{1b}[0m: 'x'"), "KeyError: 'x'");
        assert_eq!(plain("a\u{1b}b"), "ab");
    }

    #[test]
    fn code_that_nothing_could_run_is_not_taken_for_a_lost_sandbox() {
        let mut heard = Heard::default();
        let (name, value) = ("ContextNotStarted".into(), "IPython cannot be imported".into());
        heard.raised(&CellError { name, value, traceback: String::new() });
        heard.end(EndReason::Lost, None, &belljar_domain::Usage::default().into());
        assert_eq!(heard.fault.unwrap().category, NO_INTERPRETER);
    }

    #[test]
    fn every_category_of_a_fault_is_a_word_of_ours() {
        let is_known = |category: &str| crate::signal::FAULTS.contains(&category);
        for name in [
            "ModuleNotFoundError",
            "SyntaxError",
            "TypeError",
            "KeyError",
            "NameError",
            "FileNotFoundError",
            "MemoryError",
            "TimeoutError",
            "MergeError",
            "ContextNotStarted",
            "AnythingElse",
        ] {
            assert!(is_known(category(name)), "{name}");
        }
        let usage: Usage = belljar_domain::Usage::default().into();
        for reason in EndReason::ALL {
            let mut heard = Heard::default();
            heard.end(reason, None, &usage);
            let category = heard.fault.map(|fault| fault.category);
            assert!(category.is_none_or(|category| is_known(&category)), "{reason}");
        }
        assert!(is_known(&Heard::lost().fault.unwrap().category));
    }

    #[test]
    fn an_exception_is_counted_by_its_kind() {
        let mut heard = Heard::default();
        heard.say("half a line");
        let error = CellError {
            name: "KeyError".into(),
            value: "'id'".into(),
            traceback: "Traceback\nKeyError: 'id'".into(),
        };
        heard.raised(&error);
        assert_eq!(heard.finish(), "half a line\nTraceback\nKeyError: 'id'");
        assert_eq!(heard.fault.unwrap().category, "missing_key");
    }
}
