//! What has come by so far.

use super::report::{Report, ToolCall, UpstreamError};
use super::text_of;
use crate::json::Value;
use crate::usage::{AnthropicCounts, Usage};

const MOST_CALLS: usize = 256;
const LONGEST_WORD: usize = 200;
const LONGEST_MESSAGE: usize = 2_000;

#[derive(Debug, Default)]
pub(super) struct Seen {
    keep: usize,
    report: Report,
    pub(super) counts: AnthropicCounts,
    /// Where the pieces of a call go: the upstream's number → place in the list.
    open: Vec<(u64, usize)>,
    pub(super) unreadable: u64,
    /// Responses: items came one by one, so the last event only repeats them.
    pub(super) has_items: bool,
    pub(super) has_ended: bool,
    /// What was generated since somebody last listened; none if nobody does.
    pub(super) heard: Option<Vec<u8>>,
    /// Responses: bytes of pieces, which whole items repeat.
    pub(super) piece_bytes: u64,
}

impl Seen {
    pub(super) fn new(keep: usize) -> Self {
        Self { keep, ..Self::default() }
    }

    pub(super) fn usage(&mut self, usage: Option<Usage>) {
        if usage.is_some() {
            self.report.usage = usage;
        }
    }

    pub(super) fn stop(&mut self, reason: Option<Value<'_>>) {
        if let Some(reason) = text_of(reason) {
            self.report.stop = Some(shortened(reason, LONGEST_WORD));
        }
    }

    pub(super) fn names(&mut self, answer: Value<'_>) {
        if self.report.id.is_none() {
            self.report.id = text_of(answer.get("id")).map(|id| shortened(id, LONGEST_WORD));
        }
        if self.report.model.is_none() {
            let model = text_of(answer.get("model"));
            self.report.model = model.map(|model| shortened(model, LONGEST_WORD));
        }
    }

    pub(super) fn error(&mut self, error: Value<'_>) {
        let kind = error.get("code").filter(|code| code.str().is_some());
        let kind = text_of(kind.or_else(|| error.get("type"))).unwrap_or_default();
        let message = text_of(error.get("message")).or_else(|| text_of(Some(error)));
        self.report.error = Some(UpstreamError {
            kind: shortened(kind, LONGEST_WORD),
            message: shortened(message.unwrap_or_default(), LONGEST_MESSAGE),
        });
    }

    pub(super) fn text(&mut self, text: Option<Value<'_>>) {
        let Some(value) = text else { return };
        self.generated(Some(value));
        if self.keep > self.report.text.len()
            && let Some(text) = value.str()
        {
            append(&mut self.report.text, &text, self.keep);
        }
    }

    /// Something was generated that is not kept.
    pub(super) fn generated(&mut self, text: Option<Value<'_>>) {
        self.report.generated_bytes += text.map_or(0, |text| text.str_len());
        if let (Some(heard), Some(text)) = (&mut self.heard, text.and_then(|text| text.str())) {
            heard.extend_from_slice(text.as_bytes());
        }
    }

    pub(super) fn hidden(&mut self) {
        self.report.has_hidden = true;
    }

    /// A call begins; its pieces will bear this number.
    pub(super) fn call(&mut self, number: Option<u64>, id: Option<String>, name: Option<String>) {
        if self.report.tool_calls.len() >= MOST_CALLS {
            return;
        }
        if let Some(number) = number {
            self.open.retain(|(other, _)| *other != number);
            self.open.push((number, self.report.tool_calls.len()));
        }
        self.report.tool_calls.push(ToolCall {
            id: shortened(id.unwrap_or_default(), LONGEST_WORD),
            name: shortened(name.unwrap_or_default(), LONGEST_WORD),
            ..ToolCall::default()
        });
    }

    pub(super) fn has_call(&self, number: u64) -> bool {
        self.open.iter().any(|(other, _)| *other == number)
    }

    /// A piece of the arguments of the call with this number.
    pub(super) fn piece(&mut self, number: u64, piece: Option<Value<'_>>) {
        self.generated(piece);
        let place = self.open.iter().find(|(other, _)| *other == number).map(|(_, place)| *place);
        if let (Some(place), Some(piece)) = (place, piece.and_then(|piece| piece.str())) {
            self.arguments(place, &piece);
        }
    }

    /// The arguments of the call that began last.
    pub(super) fn last_arguments(&mut self, text: &str) {
        if let Some(last) = self.report.tool_calls.len().checked_sub(1) {
            self.arguments(last, text);
        }
    }

    fn arguments(&mut self, place: usize, text: &str) {
        let Some(call) = self.report.tool_calls.get_mut(place) else { return };
        call.argument_bytes += text.len() as u64;
        append(&mut call.arguments, text, self.keep);
    }

    /// The usage, once it is final.
    pub(super) fn settled(&self) -> Option<Usage> {
        self.report.usage.filter(|_| self.has_ended)
    }

    pub(super) fn report(mut self, is_blind: bool) -> Report {
        self.report.generated_bytes = self.report.generated_bytes.max(self.piece_bytes);
        self.report.unreadable = self.unreadable + u64::from(is_blind);
        self.report.is_complete = self.settled().is_some();
        self.report
    }
}

/// Appends as much as fits.
fn append(to: &mut String, text: &str, most: usize) {
    let room = most.saturating_sub(to.len());
    to.push_str(text.split_at(text.floor_char_boundary(room)).0);
}

fn shortened(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most.min(text.len())));
    text
}
