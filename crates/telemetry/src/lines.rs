//! One line for each event: text for people, or JSON for programs.

use std::fmt::Write as _;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing::Metadata;

use crate::fields::{Fields, MESSAGE, TRACEPARENT, Value};
use crate::start::Format;

/// What there is to say about one event. The fields are those of the event and
/// of all spans around it.
pub(crate) struct Line<'a> {
    pub(crate) at: OffsetDateTime,
    pub(crate) metadata: &'a Metadata<'a>,
    pub(crate) fields: &'a Fields,
}

impl Line<'_> {
    pub(crate) fn write(&self, format: Format) -> String {
        match format {
            Format::Compact => self.compact(),
            Format::Json => self.json(),
        }
    }

    fn at(&self) -> String {
        self.at.format(&Rfc3339).unwrap_or_default()
    }

    fn rest(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        let inner = |name: &str| name == MESSAGE || name == TRACEPARENT;
        self.fields.0.iter().filter(move |(name, _)| !inner(name))
    }

    fn compact(&self) -> String {
        let level = self.metadata.level();
        let mut line = format!("{} {level:>5} {}: ", self.at(), self.metadata.target());
        plain(&mut line, self.fields.text(MESSAGE).unwrap_or_default());
        for (name, value) in self.rest() {
            line.push(' ');
            line.push_str(name);
            line.push('=');
            match value {
                // A tenant may have chosen these words: they must not look like
                // other fields, or like another line.
                Value::Text(text) if text.bytes().all(is_plain) && !text.is_empty() => {
                    line.push_str(text);
                }
                Value::Text(text) => {
                    let _ = write!(line, "{text:?}");
                }
                other => {
                    let _ = write!(line, "{}", serde_json::Value::from(other));
                }
            }
        }
        line.push('\n');
        line
    }

    fn json(&self) -> String {
        let own = [
            ("timestamp", Value::Text(self.at())),
            ("level", Value::Text(self.metadata.level().to_string())),
            ("target", self.metadata.target().into()),
            (MESSAGE, self.fields.text(MESSAGE).unwrap_or_default().into()),
        ];
        let mut line = String::from("{");
        // A field of that name would be there twice.
        let is_own = |name: &str| own.iter().any(|(known, _)| *known == name);
        for (name, value) in own.iter().chain(self.rest().filter(|(name, _)| !is_own(name))) {
            let comma = if line.len() > 1 { "," } else { "" };
            let name = serde_json::Value::from(*name);
            let _ = write!(line, "{comma}{name}:{}", serde_json::Value::from(value));
        }
        line.push_str("}\n");
        line
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=')
}

/// The message, in one line whatever it holds.
fn plain(line: &mut String, message: &str) {
    for char in message.chars() {
        if char.is_control() {
            line.extend(char.escape_default());
        } else {
            line.push(char);
        }
    }
}
