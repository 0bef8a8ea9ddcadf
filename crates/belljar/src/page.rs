//! Text for people at a terminal: Markdown with its tables aligned, lines no wider than the
//! terminal, numbers with separators, and a little colour.
//!
//! Programs that read standard output get what was answered, unchanged.

mod grid;
mod number;

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

pub(crate) use grid::{Align, Grid};
pub(crate) use number::separated;

use crate::config::Config;

/// Narrower terminals are taken for this one.
const MIN_WIDTH: usize = 40;
/// The rest of a line stands so many columns to the right of its beginning.
const HANGING: usize = 2;

/// A terminal that standard output goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) width: usize,
    pub(crate) has_colour: bool,
}

impl Page {
    /// None if standard output is no terminal. `NO_COLOR` forbids colour.
    pub(crate) fn of_terminal(config: &Config) -> Option<Self> {
        Self::of(&io::stdout(), config)
    }

    /// The same for standard error, which progress goes to.
    pub(crate) fn of_progress(config: &Config) -> Option<Self> {
        Self::of(&io::stderr(), config)
    }

    fn of(stream: &(impl IsTerminal + AsFd), config: &Config) -> Option<Self> {
        Some(Self { width: width_of(stream)?, has_colour: !config.no_colour })
    }

    /// Sets Markdown for this page.
    pub(crate) fn markdown(&self, text: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        let mut out = String::new();
        let mut at = 0;
        let mut is_code = false;
        while let Some(line) = lines.get(at) {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
                at += 1;
                continue;
            }
            if !is_code && let Some((grid, count)) = Grid::read(&lines[at..]) {
                out.push_str(&grid.to_text(Some(self.width), self.has_colour));
                at += count;
                continue;
            }
            let heading = line.trim_start_matches('#');
            match heading.strip_prefix(' ') {
                Some(heading) if heading.len() + 1 < line.len() && !is_code => {
                    out.push_str(&self.bold(heading.trim()));
                    out.push('\n');
                }
                _ => {
                    let more = if is_code || is_item(line) { HANGING } else { 0 };
                    out.push_str(&self.wrapped_by(line, more));
                }
            }
            at += 1;
        }
        out.truncate(out.trim_end().len());
        out
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        if self.has_colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Breaks a text at spaces; what follows on is indented a little more than its line.
    pub(crate) fn wrapped(&self, text: &str) -> String {
        self.wrapped_by(text, HANGING)
    }

    /// The same; what follows on is indented by so many columns more.
    fn wrapped_by(&self, text: &str, more: usize) -> String {
        let mut out = String::new();
        for line in text.lines() {
            self.wrap_line(line, more, &mut out);
            out.push('\n');
        }
        if text.is_empty() {
            out.push('\n');
        }
        out
    }

    fn wrap_line(&self, line: &str, more: usize, out: &mut String) {
        if line.chars().count() <= self.width {
            out.push_str(line);
            return;
        }
        let words = line.trim_start();
        let indent = (line.len() - words.len()).min(self.width / 2);
        let hanging = (indent + more).min(self.width / 2);
        out.push_str(&" ".repeat(indent));
        let mut width = indent;
        for (place, word) in words.trim_end().split(' ').enumerate() {
            let length = word.chars().count();
            if place > 0 && !word.is_empty() && width + 1 + length > self.width {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                out.push_str(&" ".repeat(hanging));
                width = hanging;
            } else if place > 0 {
                out.push(' ');
                width += 1;
            }
            out.push_str(word);
            width += length;
        }
    }
}

/// Returns the width of the terminal that standard output goes to, if it goes to one.
pub(crate) fn terminal_width() -> Option<usize> {
    width_of(&io::stdout())
}

fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if size == 0 { 80 } else { size.max(MIN_WIDTH) })
}

/// Returns true for an entry of a list in Markdown.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = rest.len() < line.len() && rest.starts_with(". ");
    is_numbered || line.starts_with("- ") || line.starts_with("* ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page = Page { width: 40, has_colour: false };

    #[test]
    fn a_table_is_aligned_and_its_numbers_are_separated() {
        let text = "The sum of `amount` for each `region`:\n\n| region | sum | year |\n|---|---:|---|\n\
                    | north | 1234567.5 | 2025 |\n| south | -12 | 2026 |\n\nDone.";
        let want = "The sum of `amount` for each `region`:\n\nregion          sum  year\n\
                    ──────  ───────────  ────\nnorth   1,234,567.5  2025\nsouth           -12  2026\n\nDone.";
        assert_eq!(PAGE.markdown(text), want);
    }

    #[test]
    fn no_line_is_wider_than_the_page() {
        let long = "word ".repeat(40);
        let table = format!("| a | b |\n|---|---|\n| {long} | 5000 |\n| x | {long} |\n");
        let list = format!("- `sales`, 5 rows: {long}\n    deep {long}");
        for text in [long.as_str(), &table, &list] {
            let shown = PAGE.markdown(text);
            let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= PAGE.width, "{widest}: {shown}");
        }
        let shown = PAGE.wrapped(&list);
        assert!(shown.lines().nth(1).unwrap().starts_with("  word"), "{shown}");
        // A line that fits stays as it is, and so does its indent.
        let code = "\nfor row in rows:\n    print(row)\n";
        assert_eq!(PAGE.wrapped(code), code);
        let deep = format!("    {}", "word ".repeat(9));
        let want = format!("    {}\n      word word\n", ["word"; 7].join(" "));
        assert_eq!(PAGE.wrapped(&deep), want);
    }

    #[test]
    fn entries_of_lists_hang_and_paragraphs_do_not() {
        let words = "word ".repeat(12);
        let second = |text: &str| PAGE.markdown(text).lines().nth(1).unwrap().to_owned();
        assert!(second(&words).starts_with("word"));
        for item in ["- ", "* ", "12. "] {
            assert!(second(&format!("{item}{words}")).starts_with("  word"), "{item}");
        }
    }

    #[test]
    fn code_stays_as_it_is_and_colour_is_only_added_where_it_may_be() {
        let text = "# Title\n\n```\n| not | a table |\n|---|---|\n```\n";
        assert_eq!(PAGE.markdown(text), "Title\n\n| not | a table |\n|---|---|");
        let colourful = Page { has_colour: true, ..PAGE };
        assert!(colourful.markdown(text).starts_with("\x1b[1mTitle\x1b[0m"));
    }
}
