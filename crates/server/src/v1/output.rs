//! Output on its way to JSON: as text, or to the byte.

use axum::response::sse::Event;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_api::call::{Captured, Chunk, Encoding, Omitted};
use belljar_sandboxes::{Amount, Pieces, Problem};
use serde::Serialize;

/// Writes a stream piece by piece; a character is never cut in two.
#[derive(Debug)]
pub(super) enum Writing {
    Text(Pieces),
    Base64,
}

impl Writing {
    pub(super) fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Text => Self::Text(Pieces::default()),
            Encoding::Base64 => Self::Base64,
        }
    }

    /// What can be told now, if anything.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<Chunk> {
        match self {
            Self::Text(pieces) => text(pieces.push(bytes.to_vec())),
            Self::Base64 => {
                let data = STANDARD.encode(bytes);
                Some(Chunk { data, encoding: Encoding::Base64 })
            }
        }
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> Option<Chunk> {
        match self {
            Self::Text(pieces) => text(pieces.finish()),
            Self::Base64 => None,
        }
    }
}

fn text(data: String) -> Option<Chunk> {
    (!data.is_empty()).then_some(Chunk { data, encoding: Encoding::Text })
}

pub(super) fn captured(kept: &belljar_node::Captured, encoding: Encoding) -> Captured {
    let data = match encoding {
        Encoding::Text => kept.text(),
        // Without the note in the middle, which is no byte of the output.
        Encoding::Base64 => STANDARD.encode([&kept.head[..], &kept.tail[..]].concat()),
    };
    Captured { data, encoding, omitted_bytes: kept.omitted }
}

pub(super) fn decoded(data: String, encoding: Encoding) -> Result<Vec<u8>, Problem> {
    match encoding {
        Encoding::Text => Ok(data.into_bytes()),
        Encoding::Base64 => {
            STANDARD.decode(data).map_err(|_| Problem::invalid("data is not valid base64"))
        }
    }
}

pub(super) fn omitted(amount: Amount) -> Omitted {
    let Amount { stdout, stderr, shown } = amount;
    Omitted { stdout_bytes: stdout, stderr_bytes: stderr, shown_bytes: shown }
}

/// Says where something is missing.
pub(super) fn note(text: &mut String, bytes: u64) {
    if bytes > 0 {
        text.push_str(&format!("\n… {bytes} bytes omitted …\n"));
    }
}

/// One server-sent event.
pub(super) fn event(name: &str, data: &impl Serialize) -> Event {
    // What the API's types say can always be written as JSON.
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().event(name).data(data)
}
