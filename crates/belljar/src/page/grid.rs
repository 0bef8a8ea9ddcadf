//! Tables: columns side by side, numbers to the right.

use super::number::{is_number, separated_text};

/// Between two columns.
const GAP: &str = "  ";
/// A column is not made narrower than this to make a table fit.
const MIN_COLUMN: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table with a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    header: Vec<String>,
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let header = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { header, align: columns.iter().map(|(_, align)| *align).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Reads the Markdown table that lines begin with, and how many of them it takes.
    pub(super) fn read(lines: &[&str]) -> Option<(Self, usize)> {
        let [first, rule, ..] = lines else { return None };
        let header = cells(first)?;
        let rule = cells(rule)?;
        let is_rule = |cell: &String| {
            cell.contains('-') && cell.chars().all(|letter| matches!(letter, '-' | ':'))
        };
        if rule.len() != header.len() || !rule.iter().all(is_rule) {
            return None;
        }
        let mut rows: Vec<Vec<String>> = lines[2..].iter().map_while(|line| cells(line)).collect();
        let count = rows.len() + 2;
        rows.iter_mut().for_each(|row| row.resize(header.len(), String::new()));
        let align = (0..header.len()).map(|place| {
            let mut there = rows.iter().map(|row| &row[place]).filter(|cell| !cell.is_empty());
            let is_numeric = there.clone().next().is_some() && there.all(|cell| is_number(cell));
            if is_numeric { Align::Right } else { Align::Left }
        });
        let align: Vec<Align> = align.collect();
        for place in (0..header.len()).filter(|place| align[*place] == Align::Right) {
            if is_counted(&header[place], rows.iter().map(|row| &*row[place])) {
                rows.iter_mut().for_each(|row| row[place] = separated_text(&row[place]));
            }
        }
        Some((Self { header, align, rows }, count))
    }

    /// Each row on a line. With a width, cells are cut until no line is longer.
    pub(crate) fn to_text(&self, width: Option<usize>, has_colour: bool) -> String {
        let widths = self.widths(width.unwrap_or(usize::MAX));
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).zip(&self.align);
            let cells = cells.map(|((cell, width), align)| padded(cell, *width, *align));
            cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
        };
        let header = line(&self.header);
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        let mut out = match has_colour {
            true => format!("\x1b[1m{header}\x1b[0m\n"),
            false => format!("{header}\n"),
        };
        out.push_str(&rule.join(GAP));
        out.push('\n');
        for row in &self.rows {
            out.push_str(&line(row));
            out.push('\n');
        }
        out
    }

    fn widths(&self, most: usize) -> Vec<usize> {
        let rows = || self.rows.iter().chain([&self.header]);
        let widest = |place: usize| rows().map(|row| length(&row[place])).max().unwrap_or(0).max(1);
        let mut widths: Vec<usize> = (0..self.header.len()).map(widest).collect();
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > most {
            // Numbers that are cut are other numbers: texts give way first.
            let is_text = |place: &usize| self.align[*place] == Align::Left;
            let can = |place: &usize| widths[*place] > MIN_COLUMN;
            let all = || (0..widths.len()).filter(can);
            let widest = all().filter(is_text).max_by_key(|place| widths[*place]);
            match widest.or_else(|| all().max_by_key(|place| widths[*place])) {
                Some(place) => widths[place] -= 1,
                None => break,
            }
        }
        widths
    }
}

/// The cells of a row of Markdown.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut cells = vec![String::new()];
    let mut letters = inner.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, cells.last_mut()) {
            ('\\', Some(cell)) if letters.peek() == Some(&'|') => {
                letters.next();
                cell.push('|');
            }
            ('|', _) => cells.push(String::new()),
            (letter, Some(cell)) => cell.push(letter),
            (_, None) => {}
        }
    }
    Some(cells.into_iter().map(|cell| cell.trim().to_owned()).collect())
}

/// Returns true for numbers that count or measure: not ids, codes or years.
fn is_counted<'a>(name: &str, cells: impl Iterator<Item = &'a str>) -> bool {
    let names = ["id", "year", "zip", "postcode", "code", "number", "no", "key", "phone"];
    let mut words = name.split(|letter: char| !letter.is_alphanumeric());
    let is_name = words.any(|word| names.contains(&&*word.to_ascii_lowercase()));
    let is_year = |cell: &str| cell.parse().is_ok_and(|year: u16| (1900..2100).contains(&year));
    let mut cells = cells.filter(|cell| !cell.is_empty());
    !is_name && !cells.all(is_year)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn padded(cell: &str, width: usize, align: Align) -> String {
    let cell = match length(cell) > width {
        true => cell.chars().take(width - 1).chain(['…']).collect(),
        false => cell.to_owned(),
    };
    match align {
        Align::Left => format!("{cell:<width$}"),
        Align::Right => format!("{cell:>width$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_from_other_lines() {
        assert_eq!(Grid::read(&["| a |", "text"]), None);
        assert_eq!(Grid::read(&["a | b", "---|---"]), None);
        let (grid, count) =
            Grid::read(&["| a | b\\|c |", "|:--|--:|", "| 1 |", "", "| no |"]).unwrap();
        assert_eq!((count, grid.header), (3, vec!["a".to_owned(), "b|c".into()]));
        assert_eq!(grid.rows, [["1".to_owned(), String::new()]]);
    }

    #[test]
    fn ids_and_years_are_no_counts() {
        assert!(is_counted("sum", ["12345", ""].into_iter()));
        assert!(!is_counted("order_id", ["12345"].into_iter()));
        assert!(!is_counted("when", ["2024", "2025"].into_iter()));
    }

    #[test]
    fn texts_give_way_before_numbers() {
        let mut grid = Grid::new(&[("name", Align::Left), ("sum", Align::Right)]);
        grid.row(vec!["a very long name indeed".into(), "1,234,567,890".into()]);
        let text = grid.to_text(Some(25), false);
        assert_eq!(text.lines().last(), Some("a very lo…  1,234,567,890"));
    }
}
