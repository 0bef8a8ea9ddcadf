//! Columns as wide as what is in them.

use std::fmt;

use crate::output::printable;

/// Between two columns.
const GAP: &str = "  ";
/// A column that is cut keeps so many characters.
const NARROWEST: usize = 12;

#[derive(Debug)]
pub(in crate::commands) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(in crate::commands) fn new(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)] }
    }

    pub(in crate::commands) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| printable(&cell)));
    }

    /// Cuts the last column so that no line is wider, if enough is left of it to be read.
    pub(in crate::commands) fn fitted(mut self, width: usize) -> Self {
        let others = N.saturating_sub(1);
        let taken: usize = (0..others).map(|column| self.width(column) + GAP.len()).sum();
        let room = width.saturating_sub(taken);
        if room < NARROWEST {
            return self;
        }
        for cell in self.rows.iter_mut().filter_map(|row| row.last_mut()) {
            if cell.chars().count() > room {
                *cell = cell.chars().take(room - 1).chain(['…']).collect();
            }
        }
        self
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..N).map(|column| self.width(column)).collect();
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            for (column, cell) in row.iter().enumerate() {
                // The last one is as long as it is.
                if column + 1 == N {
                    write!(f, "{cell}")?;
                } else {
                    write!(f, "{cell:<width$}{GAP}", width = widths[column])?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(["A", "NAME", "B"]);
        table.row(["long one".to_owned(), "x\u{1b}y".to_owned(), "last  ".to_owned()]);
        assert_eq!(table.to_string(), "A         NAME  B\nlong one  x\u{fffd}y   last  ");
    }

    #[test]
    fn only_the_last_column_is_cut() {
        let table = || {
            let mut table = Table::new(["NAME", "DESCRIPTION"]);
            table.row(["python-data".to_owned(), "Python with libraries for data".to_owned()]);
            table
        };
        let cut = "NAME         DESCRIPTION\npython-data  Python with…";
        assert_eq!(table().fitted(25).to_string(), cut);
        assert_eq!(table().fitted(24).to_string(), table().to_string());
        assert_eq!(table().fitted(80).to_string(), table().to_string());
    }
}
