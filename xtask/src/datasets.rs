//! Made-up data for `just measure-datasets`: the same bytes each time.
//!
//! Sizes and shapes are those that the aims speak of: a few thousand deals with
//! long transcripts, hundreds of thousands of small nested records, a table.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;

/// 168 MB, as in the report that the aims come from.
const SIZE: u64 = 168_000_000;
const LARGE: u64 = 10_000_000_000;
const DEALS: usize = 4200;
const ROWS: usize = 1_400_000;
/// Two in each deal, of 40 KB together.
const TRANSCRIPT: usize = 19_910;
/// How often the large file says how far it is.
const STEP: u64 = 1_000_000_000;

const WORDS: [&str; 20] = [
    "the",
    "deal",
    "pipeline",
    "champion",
    "budget",
    "renewal",
    "security",
    "review",
    "legal",
    "contract",
    "pricing",
    "discount",
    "demo",
    "stakeholder",
    "timeline",
    "quarter",
    "migration",
    "support",
    "and",
    "with",
];

/// `large` adds the file of 10 GB.
pub(crate) fn generate(directory: &Path, large: bool) -> anyhow::Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make `{}`", directory.display()))?;
    write(&directory.join("deals.json"), deals)?;
    write(&directory.join("dense.json"), |out| dense(out, ["[", ",\n", "]\n"], SIZE))?;
    write(&directory.join("dense.jsonl"), |out| dense(out, LINES, SIZE))?;
    write(&directory.join("activities.csv"), activities)?;
    if large {
        write(&directory.join("large.jsonl"), |out| dense(out, LINES, LARGE))?;
    }
    Ok(())
}

/// What stands before, between and behind records.
type Around = [&'static str; 3];

const LINES: Around = ["", "\n", "\n"];

fn write(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let file = File::create(path).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)
    });
    let file = file.with_context(|| format!("cannot write `{}`", path.display()))?;
    eprintln!("{}: {} MB", path.display(), file.metadata()?.len() / 1_000_000);
    Ok(())
}

fn deals(out: &mut BufWriter<File>) -> io::Result<()> {
    let mut numbers = Numbers(1);
    let mut text = String::new();
    for n in 0..DEALS {
        text.clear();
        let stage = numbers.pick(&["open", "won", "lost", "negotiation"]);
        let (amount, month, day) =
            (1000 + numbers.below(199_000), 1 + numbers.below(6), 1 + numbers.below(28));
        let _ = write!(
            text,
            "{}{{\"id\":\"deal_{n:05}\",\"name\":\"Deal {n}\",\"stage\":\"{stage}\",\"amount\":{amount},\
             \"closes\":\"2026-{month:02}-{day:02}\",\"calls\":[",
            if n == 0 { "[" } else { ",\n" }
        );
        for call in 0..2 {
            let day = 1 + numbers.below(28);
            let _ = write!(
                text,
                "{}{{\"call_id\":\"call_{}\",\"at\":\"2026-03-{day:02}T10:00:00Z\",\"transcript\":\"",
                if call == 0 { "" } else { "," },
                2 * n + call
            );
            let end = text.len() + TRANSCRIPT;
            while text.len() < end {
                let _ = write!(text, "Speaker {}:", 1 + numbers.below(4));
                for _ in 0..8 + numbers.below(17) {
                    text.push(' ');
                    text.push_str(numbers.pick(&WORDS));
                }
                text.push_str(".\\n");
            }
            text.push_str("\"}");
        }
        text.push_str("]}");
        out.write_all(text.as_bytes())?;
    }
    out.write_all(b"]\n")
}

/// Records with 29 paths, about 317,000 in 168 MB.
fn dense(
    out: &mut BufWriter<File>,
    [before, between, behind]: Around,
    size: u64,
) -> io::Result<()> {
    let mut numbers = Numbers(2);
    out.write_all(before.as_bytes())?;
    let mut written = 0;
    let mut text = String::new();
    let mut n = 0;
    while written < size {
        text.clear();
        if n > 0 {
            text.push_str(between);
        }
        record(&mut text, n, &mut numbers);
        out.write_all(text.as_bytes())?;
        let before = written;
        written += text.len() as u64;
        n += 1;
        if written / STEP > before / STEP {
            eprintln!("{} of {} GB", written / STEP, size / STEP);
        }
    }
    out.write_all(behind.as_bytes())
}

fn record(text: &mut String, n: usize, numbers: &mut Numbers) {
    let _ = write!(
        text,
        "{{\"id\":\"rec_{n:07}\",\"deal_id\":\"deal_{:05}\",\"at\":\"2026-{:02}-{:02}T{:02}:{:02}:{:02}Z\",\
         \"kind\":\"{}\",\"amount\":{}.{:02},\"count\":{},\"active\":{}",
        numbers.below(DEALS),
        1 + numbers.below(12),
        1 + numbers.below(28),
        numbers.below(24),
        numbers.below(60),
        numbers.below(60),
        numbers.pick(&["email", "call", "meeting", "note"]),
        numbers.below(10_000),
        numbers.below(100),
        numbers.below(500),
        numbers.below(2) == 0,
    );
    let owner = 1 + numbers.below(500);
    let _ = write!(
        text,
        ",\"owner\":{{\"id\":{owner},\"name\":\"{}\",\"email\":\"u{owner}@example.com\"}},\"tags\":[\"{}\",\"{}\",\"{}\"]",
        numbers.pick(&WORDS),
        numbers.pick(&WORDS),
        numbers.pick(&WORDS),
        numbers.pick(&WORDS),
    );
    text.push_str(",\"contacts\":[");
    for contact in 0..3 {
        let _ = write!(
            text,
            "{}{{\"id\":\"ct_{}\",\"role\":\"{}\",\"score\":{}}}",
            if contact == 0 { "" } else { "," },
            numbers.below(100_000),
            numbers.pick(&["buyer", "user", "legal"]),
            numbers.share(),
        );
    }
    let _ = write!(
        text,
        "],\"geo\":{{\"lat\":{},\"lon\":{},\"city\":\"{}\"}}",
        numbers.share() * 180.0 - 90.0,
        numbers.share() * 360.0 - 180.0,
        numbers.pick(&WORDS),
    );
    if numbers.below(10) < 3 {
        text.push_str(",\"extra\":null}");
        return;
    }
    let _ = write!(
        text,
        ",\"extra\":{{\"level\":{},\"code\":\"{}\",\"marks\":[{},{},{},{}]}}}}",
        numbers.below(10),
        numbers.below(100_000),
        numbers.below(10),
        numbers.below(10),
        numbers.below(10),
        numbers.below(10),
    );
}

fn activities(out: &mut BufWriter<File>) -> io::Result<()> {
    let mut numbers = Numbers(3);
    out.write_all(b"id,deal_id,kind,amount,at,owner,note,score\n")?;
    for n in 0..ROWS {
        writeln!(
            out,
            "{n},deal_{:05},{},{}.{:02},2026-{:02}-{:02}T{:02}:00:00Z,u{}@example.com,{} {} {},{}",
            numbers.below(DEALS),
            numbers.pick(&["email", "call"]),
            numbers.below(1000),
            numbers.below(100),
            1 + numbers.below(12),
            1 + numbers.below(28),
            numbers.below(24),
            1 + numbers.below(500),
            numbers.pick(&WORDS),
            numbers.pick(&WORDS),
            numbers.pick(&WORDS),
            numbers.below(1000),
        )?;
    }
    Ok(())
}

/// A generator of numbers without a pattern; the same ones each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or_default()
    }

    /// From 0 to 1, with all the digits that a float has.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}
