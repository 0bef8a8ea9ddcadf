//! Appends the nightly's rows to `docs/quality.md`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::runner::Counts;

/// One suite of one nightly.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) date: &'a str,
    pub(crate) commit: &'a str,
    pub(crate) suite: &'a str,
    pub(crate) counts: Counts,
    pub(crate) seconds: f64,
}

/// Appends a row. The table is the end of the page.
pub(crate) fn append(page: &Path, row: &Row<'_>) -> Result<()> {
    let text =
        fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let Row { date, suite, counts, seconds, .. } = row;
    let commit: String = row.commit.chars().take(9).collect();
    let line = format!(
        "| {date} | `{commit}` | {suite} | {} | {} | {seconds:.0} |\n",
        counts.passed, counts.failed
    );
    fs::write(page, format!("{}\n{line}", text.trim_end()))
        .with_context(|| format!("cannot write {}", page.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_appended_to_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("quality.md");
        fs::write(&page, "| Date |\n|---|\n").unwrap();
        let row = |suite| Row {
            date: "2026-11-17",
            commit: "0123456789abcdef",
            suite,
            counts: Counts { passed: 3, failed: 0 },
            seconds: 12.4,
        };
        append(&page, &row("eval")).unwrap();
        append(&page, &row("v2")).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        let rows = "| 2026-11-17 | `012345678` | eval | 3 | 0 | 12 |\n\
                    | 2026-11-17 | `012345678` | v2 | 3 | 0 | 12 |\n";
        assert!(text.ends_with(rows), "{text}");
    }
}
