//! Which format a file is, by its first bytes; by its name only where these do
//! not tell.

use std::os::unix::fs::FileExt as _;

use super::{Job, ReadError};
use crate::describe::Format;
use crate::json::{Lines, Scanner};
use crate::window::Window;

pub(crate) fn sniff(job: Job<'_>) -> Result<Format, ReadError> {
    let mut window = Window::first(job);
    super::skip_mark(&mut window);
    let is_compressed = job.coding.compression.is_some();
    let begin = window.rest();
    let foreign = |what| Err(ReadError::Foreign { name: job.name.to_owned(), what });
    match begin {
        [b'P', b'A', b'R', b'1', ..] if is_compressed => {
            return foreign("a Parquet file that is compressed once more");
        }
        [b'P', b'A', b'R', b'1', ..] => return Ok(Format::Parquet),
        [b'P', b'K', 3, 4, ..] if !is_compressed && is_workbook(job) => return Ok(Format::Excel),
        [b'P', b'K', 3, 4, ..] => return foreign("a ZIP archive"),
        [0xd0, 0xcf, 0x11, 0xe0, ..] => return foreign("an old Excel file (.xls)"),
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => return foreign("compressed twice"),
        [b'%', b'P', b'D', b'F', ..] => return foreign("a PDF document"),
        [b'S', b'Q', b'L', b'i', b't', b'e', ..] => return foreign("an SQLite database"),
        _ => {}
    }
    if memchr::memchr(0, begin).is_some() {
        return foreign("binary");
    }
    let name = job.name.to_ascii_lowercase();
    let endings: &[&str] = if is_compressed { &[".gz", ".gzip", ".zst", ".zstd"] } else { &[] };
    let name = endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    let extension = name.rsplit_once('.').map(|(_, ext)| ext);
    let is_lines = matches!(extension, Some("jsonl" | "ndjson"));
    let is_json = extension == Some("json");
    let first = begin.iter().copied().find(|byte| !byte.is_ascii_whitespace());
    match first {
        None if job.size == 0 || begin.len() as u64 >= job.size || !job.coding.is_plain() => {
            Err(ReadError::Empty { name: job.name.to_owned() })
        }
        Some(b'{' | b'[') if is_lines => Ok(Format::JsonLines),
        // One line and no end in sight: looking for it would read the file twice.
        Some(b'{') if is_json && memchr::memchr(b'\n', begin).is_none() => Ok(Format::Json),
        Some(b'{') => Ok(if is_line_by_line(window) { Format::JsonLines } else { Format::Json }),
        Some(b'[') => Ok(Format::Json),
        _ if matches!(extension, Some("csv" | "tsv" | "tab" | "txt")) => Ok(Format::Csv),
        _ if is_lines => Ok(Format::JsonLines),
        _ if is_json => Ok(Format::Json),
        _ => Ok(Format::Csv),
    }
}

/// Returns true for a ZIP archive that has a workbook as Excel writes it. Its directory is at its
/// end.
fn is_workbook(job: Job<'_>) -> bool {
    const DIRECTORY_BYTES: u64 = 64 << 10;
    let from = job.size.saturating_sub(DIRECTORY_BYTES);
    let mut tail = vec![0; usize::try_from(job.size - from).unwrap_or_default()];
    let is_read = job.file.read_exact_at(&mut tail, from).is_ok();
    is_read && memchr::memmem::find(&tail, b"xl/workbook.xml").is_some()
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
