//! What a test has put at a path, and may replace while the server runs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::head::Head;

#[derive(Debug, Default)]
pub(super) struct Placed(Mutex<HashMap<String, Thing>>);

#[derive(Debug, Clone)]
enum Thing {
    /// A file, of which a part may be asked for.
    File { kind: String, bytes: Vec<u8> },
    /// Exactly these bytes, and the end.
    Raw(Vec<u8>),
}

impl Placed {
    pub(super) fn file(&self, path: &str, kind: &str, bytes: &[u8]) {
        let thing = Thing::File { kind: kind.to_owned(), bytes: bytes.to_vec() };
        self.things().insert(path.to_owned(), thing);
    }

    pub(super) fn raw(&self, path: &str, answer: &[u8]) {
        self.things().insert(path.to_owned(), Thing::Raw(answer.to_vec()));
    }

    /// The answer, and whether it is the connection's last.
    pub(super) fn answer(&self, head: &Head) -> Option<(Vec<u8>, bool)> {
        let thing = self.things().get(head.path()).cloned()?;
        Some(match thing {
            Thing::File { kind, bytes } => (file(&kind, &bytes, head.range()), false),
            Thing::Raw(answer) => (answer, true),
        })
    }

    fn things(&self) -> MutexGuard<'_, HashMap<String, Thing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of a file, or the part that was asked for.
fn file(kind: &str, bytes: &[u8], range: Option<(usize, usize)>) -> Vec<u8> {
    let (first, part) = match range {
        Some((start, end)) if start <= end && start < bytes.len() => {
            let end = end.min(bytes.len() - 1);
            let whole = bytes.len();
            let first =
                format!("206 Partial Content\r\ncontent-range: bytes {start}-{end}/{whole}");
            (first, &bytes[start..=end])
        }
        _ => ("200 OK".to_owned(), bytes),
    };
    let length = part.len();
    let head =
        format!("HTTP/1.1 {first}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), part].concat()
}
