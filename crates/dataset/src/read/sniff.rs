//! Which format a file is, by its first bytes; by its name only where these do
//! not tell.

use super::{Job, ReadError};
use crate::describe::Format;
use crate::json::{Lines, Scanner};
use crate::window::Window;

pub(crate) fn sniff(job: Job<'_>, size: u64) -> Result<Format, ReadError> {
    let mut window = Window::first(job);
    super::skip_mark(&mut window);
    let begin = window.rest();
    let foreign = |what| Err(ReadError::Foreign { name: job.name.to_owned(), what });
    match begin {
        [b'P', b'A', b'R', b'1', ..] => return Ok(Format::Parquet),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return foreign("UTF-16 text"),
        [0x1f, 0x8b, ..] => return foreign("compressed with gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return foreign("compressed with zstd"),
        [b'P', b'K', 3, 4, ..] => return foreign("a ZIP archive or a spreadsheet"),
        [b'%', b'P', b'D', b'F', ..] => return foreign("a PDF document"),
        [b'S', b'Q', b'L', b'i', b't', b'e', ..] => return foreign("an SQLite database"),
        _ => {}
    }
    if memchr::memchr(0, begin).is_some() {
        return foreign("binary");
    }
    let extension = job.name.rsplit_once('.').map(|(_, ext)| ext.to_ascii_lowercase());
    let is_lines = matches!(extension.as_deref(), Some("jsonl" | "ndjson"));
    let is_json = extension.as_deref() == Some("json");
    let first = begin.iter().copied().find(|byte| !byte.is_ascii_whitespace());
    match first {
        None if size == 0 || begin.len() as u64 >= size => {
            Err(ReadError::Empty { name: job.name.to_owned() })
        }
        Some(b'{' | b'[') if is_lines => Ok(Format::JsonLines),
        // One line and no end in sight: looking for it would read the file twice.
        Some(b'{') if is_json && memchr::memchr(b'\n', begin).is_none() => Ok(Format::Json),
        Some(b'{') => Ok(if is_line_by_line(window) { Format::JsonLines } else { Format::Json }),
        Some(b'[') => Ok(Format::Json),
        _ if matches!(extension.as_deref(), Some("csv" | "tsv" | "tab" | "txt")) => Ok(Format::Csv),
        _ if is_lines => Ok(Format::JsonLines),
        _ if is_json => Ok(Format::Json),
        _ => Ok(Format::Csv),
    }
}

/// Whether the first line is a value, and another one follows.
fn is_line_by_line(window: Window<'_>) -> bool {
    let mut scanner = Scanner::new(window, Lines::One);
    if scanner.skip().is_err() || scanner.peek().is_some() {
        return false;
    }
    let mut scanner = Scanner::new(scanner.window, Lines::Any);
    scanner.peek() == Some(b'{')
}
