//! Columns as wide as what is in them.

use std::fmt;

use crate::output::printable;

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
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..N).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            for (column, cell) in row.iter().enumerate() {
                // The last one is as long as it is.
                if column + 1 == N {
                    write!(f, "{cell}")?;
                } else {
                    write!(f, "{cell:<width$}  ", width = widths[column])?;
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
}
