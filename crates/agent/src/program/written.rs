//! Events of a journal, out of what a program did.

use belljar_domain::EndReason;
use belljar_journal::event::{CallRef, Cut, ToolFault, ToolFinished, ToolIntended, Used};
use belljar_objects::Digest;
use serde_json::Value;

use crate::shorten::{MOST_SHOWN, Shortened, shorten};

/// Characters of a result that its summary has.
const MAX_FAULT_CHARS: usize = 300;

/// A call that the program's model made. The program does it.
pub(crate) fn intended(call: CallRef, name: String, input: &Value) -> ToolIntended {
    ToolIntended { call, name, arguments: Digest::of(input.to_string().as_bytes()) }
}

/// The result of such a call. Its time and memory are part of the program's.
pub(crate) fn finished(call: CallRef, output: &str, is_error: bool) -> ToolFinished {
    let shown = shorten(output, MOST_SHOWN, None);
    let first_line = output.lines().next().unwrap_or_default();
    let message = first_line.chars().take(MAX_FAULT_CHARS).collect();
    let fault = is_error.then(|| ToolFault { category: "exit".to_owned(), message });
    ToolFinished {
        call,
        exec: None,
        reason: EndReason::Done,
        exit_code: None,
        cut: cut(&shown),
        shown: shown.text,
        outputs: Vec::new(),
        fault,
        used: Used { output_bytes: output.len() as u64, ..Used::default() },
    }
}

/// The part of a text that is not shown; none: all of it is.
pub(crate) fn cut(shown: &Shortened) -> Option<Cut> {
    let (shown_chars, total_chars) = (shown.shown as u64, shown.total as u64);
    shown.is_cut().then_some(Cut { shown_chars, total_chars })
}
