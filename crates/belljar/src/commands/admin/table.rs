//! Columns as wide as what is in them, or as narrow as the terminal makes them.

use std::fmt;

use crate::output::printable;
use crate::page::terminal_width;

/// Between two columns.
const GAP: &str = "  ";

/// A table with a header. Programs that read it get each row on one line.
#[derive(Debug)]
pub(in crate::commands) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
    /// The width of the terminal that shows it, if one does.
    terminal: Option<usize>,
}

impl<const N: usize> Table<N> {
    pub(in crate::commands) fn new(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)], terminal: terminal_width() }
    }

    pub(in crate::commands) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| printable(&cell)));
    }

    fn widest(&self, column: usize, measure: impl Fn(&str) -> usize) -> usize {
        self.rows.iter().map(|row| measure(&row[column])).max().unwrap_or(0)
    }

    /// The widths of columns whose cells are folded so that no line is wider than the terminal;
    /// `None` if not even single words fit beside each other.
    fn folded(&self, mut widths: [usize; N], terminal: usize) -> Option<[usize; N]> {
        let longest_word = |cell: &str| parts(cell).map(length).max().unwrap_or(0);
        let least: [usize; N] = std::array::from_fn(|column| self.widest(column, longest_word));
        while total(&widths) > terminal {
            let can_shrink = (0..N).filter(|column| widths[*column] > least[*column]);
            let widest = can_shrink.max_by_key(|column| widths[*column])?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    fn write_columns(&self, f: &mut fmt::Formatter<'_>, widths: &[usize; N]) -> fmt::Result {
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<String>> =
                row.iter().zip(widths).map(|(cell, width)| lines(cell, *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                if index + line > 0 {
                    writeln!(f)?;
                }
                let text = |column: usize| cells[column].get(line).map_or("", String::as_str);
                // Nothing follows the last cell of a line.
                let Some(last) = (0..N).rev().find(|column| !text(*column).is_empty()) else {
                    continue;
                };
                for (column, &width) in widths.iter().enumerate().take(last) {
                    write!(f, "{:<width$}{GAP}", text(column))?;
                }
                write!(f, "{}", text(last))?;
            }
        }
        Ok(())
    }

    /// Each row as lines of names and values.
    fn write_records(&self, f: &mut fmt::Formatter<'_>, terminal: usize) -> fmt::Result {
        let Some((head, rows)) = self.rows.split_first() else { return Ok(()) };
        let widest = head.iter().map(|name| length(name)).max().unwrap_or(0);
        let indent = widest + ": ".len();
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                write!(f, "\n\n")?;
            }
            for (column, (name, cell)) in head.iter().zip(row).enumerate() {
                if column > 0 {
                    writeln!(f)?;
                }
                let folded = lines(cell, terminal.saturating_sub(indent));
                let value = folded.join(&format!("\n{}", " ".repeat(indent)));
                let space = if value.is_empty() { 0 } else { indent - name.len() - 1 };
                write!(f, "{name}:{}{value}", " ".repeat(space))?;
            }
        }
        Ok(())
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let natural: [usize; N] = std::array::from_fn(|column| self.widest(column, length));
        match self.terminal.filter(|terminal| total(&natural) > *terminal) {
            None => self.write_columns(f, &natural),
            Some(terminal) => match self.folded(natural, terminal) {
                Some(widths) => self.write_columns(f, &widths),
                None => self.write_records(f, terminal),
            },
        }
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The parts of a cell between which it may be folded: words, and entries of lists.
fn parts(cell: &str) -> impl Iterator<Item = &str> {
    cell.split_inclusive([' ', ',']).map(|part| part.trim_end_matches(' '))
}

/// A cell as lines of a width. A part that is longer is a line of its own.
fn lines(cell: &str, width: usize) -> Vec<String> {
    if length(cell) <= width {
        return vec![cell.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    for part in cell.split_inclusive([' ', ',']) {
        if !line.is_empty() && length(&line) + length(part.trim_end_matches(' ')) > width {
            lines.push(line.trim_end_matches(' ').to_owned());
            line.clear();
        }
        line.push_str(part);
    }
    lines.push(line.trim_end_matches(' ').to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(terminal: Option<usize>) -> String {
        let mut table = Table::new([
            "NODE",
            "NUMBER",
            "STATE",
            "USED",
            "SLOTS",
            "LEASE",
            "CERTIFICATE",
            "ADDRESS",
            "TIERS",
        ]);
        table.terminal = terminal;
        for number in 1..=2 {
            table.row([
                format!("node-{number}"),
                number.to_string(),
                "up".to_owned(),
                "12".to_owned(),
                "200".to_owned(),
                "9.6 s left".to_owned(),
                "23 h left".to_owned(),
                "127.0.0.1:4100".to_owned(),
                "process,jail,oci/crun,oci/runc,oci/runsc".to_owned(),
            ]);
        }
        table.to_string()
    }

    fn widest(text: &str) -> usize {
        text.lines().map(length).max().unwrap()
    }

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(["A", "NAME", "B"]);
        table.terminal = None;
        table.row(["long one".to_owned(), "x\u{1b}y".to_owned(), "last  ".to_owned()]);
        assert_eq!(table.to_string(), "A         NAME  B\nlong one  x\u{fffd}y   last  ");
    }

    #[test]
    fn programs_get_each_row_on_one_line() {
        let text = nodes(None);
        assert_eq!(text.lines().count(), 3);
        assert!(widest(&text) > 80, "{text}");
        assert_eq!(nodes(Some(200)), text);
    }

    #[test]
    fn cells_are_folded_at_words_and_commas_at_80_columns() {
        let mut table = Table::new(["TEMPLATE", "OWNER", "TIERS", "DESCRIPTION"]);
        table.terminal = Some(80);
        table.row([
            "python-data@0123456789abcdef".to_owned(),
            "-".to_owned(),
            "process,jail,oci/crun,oci/runsc".to_owned(),
            "Python with the libraries that most data needs".to_owned(),
        ]);
        let want = "\
TEMPLATE                      OWNER  TIERS                  DESCRIPTION
python-data@0123456789abcdef  -      process,jail,          Python with the
                                     oci/crun,oci/runsc     libraries that most
                                                            data needs";
        assert_eq!(table.to_string(), want);
        assert!(widest(want) <= 80);
    }

    #[test]
    fn a_row_whose_words_do_not_fit_side_by_side_is_a_record_at_80_columns() {
        let text = nodes(Some(80));
        assert!(text.starts_with("NODE:        node-1\nNUMBER:      1\n"), "{text}");
        assert!(widest(&text) <= 80, "{text}");
        let columns = nodes(Some(82));
        assert!(columns.starts_with("NODE    NUMBER  STATE"), "{columns}");
        assert!(widest(&columns) <= 82, "{columns}");
        assert!(columns.lines().all(|line| !line.ends_with(' ')), "{columns}");
    }

    #[test]
    fn what_does_not_fit_side_by_side_at_40_columns_is_one_line_for_each_value() {
        let text = nodes(Some(40));
        let want = "\
NODE:        node-1
NUMBER:      1
STATE:       up
USED:        12
SLOTS:       200
LEASE:       9.6 s left
CERTIFICATE: 23 h left
ADDRESS:     127.0.0.1:4100
TIERS:       process,jail,oci/crun,
             oci/runc,oci/runsc

NODE:        node-2
";
        assert!(text.starts_with(want), "{text}");
        assert!(widest(&text) <= 40, "{text}");
    }

    #[test]
    fn a_narrow_table_is_the_same_at_40_columns() {
        for terminal in [None, Some(40), Some(80)] {
            let mut table = Table::new(["PRICE", "DOLLARS"]);
            table.terminal = terminal;
            table.row(["sandbox second".to_owned(), "0.00001".to_owned()]);
            assert_eq!(table.to_string(), "PRICE           DOLLARS\nsandbox second  0.00001");
        }
    }

    #[test]
    fn nothing_of_a_cell_is_lost() {
        let cell = "one, two  three,four averyveryverylongword";
        for width in 1..50 {
            let folded = lines(cell, width);
            let letters = |text: &str| text.replace(' ', "");
            assert_eq!(letters(&folded.concat()), letters(cell), "{width}");
        }
        assert_eq!(lines("", 0), [""]);
    }
}
