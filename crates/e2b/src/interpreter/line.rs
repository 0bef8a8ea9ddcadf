//! Lines of JSON, in ASCII.
//!
//! Clients cut the stream into lines by rules that know more line ends than
//! `\n`, and decode each piece of the network by itself. So nothing beyond ASCII
//! goes out.

use std::io;

use bytes::Bytes;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};
use serde_json::{Map, Value};

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    NumberOfExecutions { execution_count: u64 },
    Stdout { text: String, timestamp: String },
    Stderr { text: String, timestamp: String },
    Result(Map<String, Value>),
    Error { name: String, value: String, traceback: String },
    Keepalive,
    EndOfExecution,
}

impl Line {
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Ascii);
        // Texts, numbers and JSON values always have a form.
        let _ = self.serialize(&mut serializer);
        bytes.push(b'\n');
        bytes.into()
    }
}

/// Writes what is not ASCII as `\uXXXX`, in two halves beyond U+FFFF.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|c: char| !c.is_ascii()) {
            let (plain, other) = rest.split_at(at);
            CompactFormatter.write_string_fragment(writer, plain)?;
            let mut chars = other.chars();
            let mut halves = [0; 2];
            for half in chars.next().into_iter().flat_map(|c| c.encode_utf16(&mut halves).to_vec())
            {
                write!(writer, "\\u{half:04x}")?;
            }
            rest = chars.as_str();
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ascii_and_end_once() {
        let text = "é\u{2028}\u{85}\u{1f600}\n\"\\\u{b}\u{c}\u{7f}".to_owned();
        let line = Line::Stdout { text: text.clone(), timestamp: String::new() }.encode();
        assert!(line.is_ascii());
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert!(line.ends_with(b"}\n"));
        let shown = std::str::from_utf8(&line).unwrap();
        assert!(shown.contains("\\u00e9\\u2028\\u0085\\ud83d\\ude00"), "{shown}");
        let back: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(back["text"], Value::from(text));
    }

    #[test]
    fn keys_are_ascii_too() {
        let data = [("ü".to_owned(), Value::from("ß"))].into_iter().collect();
        let line = Line::Result(data).encode();
        assert!(line.is_ascii());
        let back: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(back["ü"], Value::from("ß"));
    }

    #[test]
    fn lines_without_fields_are_their_type() {
        assert_eq!(&Line::Keepalive.encode()[..], b"{\"type\":\"keepalive\"}\n");
        assert_eq!(&Line::EndOfExecution.encode()[..], b"{\"type\":\"end_of_execution\"}\n");
        let line = Line::NumberOfExecutions { execution_count: 3 }.encode();
        assert_eq!(&line[..], b"{\"type\":\"number_of_executions\",\"execution_count\":3}\n");
    }
}
