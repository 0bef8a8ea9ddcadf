//! Finds the columns of numbers in tables, which are aligned on the right.

use std::collections::{BTreeMap, BTreeSet};

use crate::markup::Token;

#[derive(Debug, Default)]
struct Table {
    column: usize,
    /// The tokens of cells by column, and whether the column has numbers alone.
    columns: BTreeMap<usize, Column>,
    /// True if a cell covers several columns: which are which is not known.
    is_merged: bool,
    cell: Option<Cell>,
}

#[derive(Debug, Default)]
struct Column {
    cells: Vec<usize>,
    numbers: usize,
    words: usize,
}

#[derive(Debug)]
struct Cell {
    column: usize,
    is_header: bool,
    text: String,
}

/// Returns the tokens of cells that begin a cell in a column of numbers.
pub(crate) fn of_numbers(tokens: &[Token<'_>]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut tables: Vec<Table> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token, Token::Open(tag) if tag.name == "table") {
            tables.push(Table::default());
            continue;
        }
        let Some(table) = tables.last_mut() else { continue };
        match token {
            Token::Open(tag) if tag.name == "tr" => table.column = 0,
            Token::Open(tag) if matches!(tag.name, "td" | "th") => {
                let column = table.column;
                table.column += 1;
                table.is_merged |= tag.get("colspan").is_some() || tag.get("rowspan").is_some();
                table.columns.entry(column).or_default().cells.push(at);
                let is_header = tag.name == "th";
                table.cell = Some(Cell { column, is_header, text: String::new() });
            }
            Token::Text(text) => {
                if let Some(cell) = &mut table.cell {
                    cell.text.push_str(text);
                }
            }
            Token::Close("td" | "th") => table.end_cell(),
            Token::Close("table") => {
                if !table.is_merged {
                    let columns = table.columns.values();
                    let numbers = columns.filter(|column| column.numbers > 0 && column.words == 0);
                    found.extend(numbers.flat_map(|column| column.cells.iter().copied()));
                }
                tables.pop();
            }
            _ => {}
        }
    }
    found
}

impl Table {
    fn end_cell(&mut self) {
        let Some(cell) = self.cell.take().filter(|cell| !cell.is_header) else { return };
        let column = self.columns.entry(cell.column).or_default();
        match is_number(&cell.text) {
            Some(true) => column.numbers += 1,
            Some(false) => column.words += 1,
            None => {}
        }
    }
}

/// None: the cell says nothing.
fn is_number(text: &str) -> Option<bool> {
    let text = text.replace("&nbsp;", " ");
    let text = text.trim();
    if matches!(text, "" | "-" | "\u{2013}" | "\u{2014}") || text.eq_ignore_ascii_case("n/a") {
        return None;
    }
    let text = text.trim_start_matches(['+', '-', '\u{2212}', '\u{2248}', '~', '(', ' ']);
    let text = text.trim_start_matches(['$', '\u{20ac}', '\u{a3}']);
    let text = text.trim_end_matches([')', '%', ' ', '\u{20ac}']);
    let is_part = |letter: char| letter.is_ascii_digit() || " .,'".contains(letter);
    Some(text.starts_with(|letter: char| letter.is_ascii_digit()) && text.chars().all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::tokens;

    #[test]
    fn numbers_are_told_from_words_and_dates() {
        for text in ["1", "-1.5", "1,234.50", "$12", "12 %", "(3)", "+7", "&nbsp;1 000"] {
            assert_eq!(is_number(text), Some(true), "{text}");
        }
        for text in ["2026-11-19", "a1", "1a", "Q3", "10:30", "3 of 4"] {
            assert_eq!(is_number(text), Some(false), "{text}");
        }
        for text in ["", " ", "-", "n/a"] {
            assert_eq!(is_number(text), None, "{text}");
        }
    }

    #[test]
    fn a_column_has_numbers_alone() {
        let row =
            |cells: &str| format!("<tr>{}</tr>", cells.replace('[', "<td>").replace(']', "</td>"));
        let text = format!(
            "<table><tr><th>n</th><th>w</th><th>m</th></tr>{}{}</table>",
            row("[1][a][1]"),
            row("[-][b][x]")
        );
        let tokens = tokens(&text);
        let names: Vec<_> = of_numbers(&tokens).into_iter().map(|at| &tokens[at + 1]).collect();
        assert_eq!(names, [&Token::Text("n"), &Token::Text("1"), &Token::Text("-")]);
    }
}
