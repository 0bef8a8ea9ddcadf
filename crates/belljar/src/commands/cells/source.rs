//! The file of `belljar cells`: where its cells begin, and what they ask for.
//!
//! Cells begin at lines `# %%` (`// %%` in JavaScript). A word behind it asks
//! for more: `checkpoint NAME` keeps the state after the cell, `at NAME` runs
//! the cell in a fork of the sandbox as it was then. The first line of a
//! notebook's cell may be such a line, too.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use belljar_node::Language;

use super::notebook::Notebook;
use crate::output::hinted;

/// All that a file holds.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) language: Language,
    pub(super) cells: Vec<Cell>,
    /// Takes the outputs of these cells.
    pub(super) notebook: Notebook,
}

/// One cell and what its first line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) code: String,
    pub(super) wish: Wish,
    /// An exception in it does not end the run: Jupyter's tag `raises-exception`.
    pub(super) may_fail: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Plain,
    Checkpoint(String),
    At(String),
}

pub(super) fn read(path: &Path) -> anyhow::Result<Source> {
    let doing = || format!("cannot read `{}`", path.display());
    let text = fs::read_to_string(path).with_context(doing)?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    if extension == Some("ipynb") {
        let notebook = Notebook::parse(&text).with_context(doing)?;
        let language = notebook_language(&notebook)?;
        let cells = notebook.code().map(|code| {
            let wish = code.text.lines().next().and_then(mark).map_or(Ok(Wish::Plain), wish)?;
            Ok(Cell { code: code.text, wish, may_fail: code.may_fail })
        });
        let cells = cells.collect::<anyhow::Result<_>>()?;
        return Ok(Source { language, cells, notebook });
    }
    let language = match extension {
        Some("js" | "mjs") => Language::JavaScript,
        _ => Language::Python,
    };
    let cells = split(&text)?;
    let codes = cells.iter().map(|cell| cell.code.as_str());
    let notebook = Notebook::new(language.as_str(), codes);
    Ok(Source { language, cells, notebook })
}

/// The language of a notebook's kernel; Python when it names none.
fn notebook_language(notebook: &Notebook) -> anyhow::Result<Language> {
    let Some(name) = notebook.language() else { return Ok(Language::Python) };
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let plain = if plain.eq_ignore_ascii_case("ipython") { "python" } else { plain };
    Language::named(plain).ok_or_else(|| {
        let known = Language::ALL.map(Language::as_str).join(", ");
        let error = anyhow::anyhow!("cannot run a notebook in the language `{name}`");
        hinted(error, format!("contexts run {known}"))
    })
}

/// The words behind a mark, if the line is one.
fn mark(line: &str) -> Option<&str> {
    line.strip_prefix("# %%").or_else(|| line.strip_prefix("// %%"))
}

/// Cuts a file into cells. What stands before the first mark is a cell too.
fn split(text: &str) -> anyhow::Result<Vec<Cell>> {
    let cell = |wish| Cell { code: String::new(), wish, may_fail: false };
    let mut cells = vec![cell(Wish::Plain)];
    for line in text.lines() {
        match (mark(line), cells.last_mut()) {
            (Some(words), _) => cells.push(cell(wish(words)?)),
            (None, Some(cell)) => {
                cell.code.push_str(line);
                cell.code.push('\n');
            }
            (None, None) => {}
        }
    }
    cells.retain(|cell| cell.wish != Wish::Plain || !cell.code.trim().is_empty());
    Ok(cells)
}

fn wish(words: &str) -> anyhow::Result<Wish> {
    let words: Vec<&str> = words.split_whitespace().collect();
    Ok(match words[..] {
        ["checkpoint", name] => Wish::Checkpoint(name.to_owned()),
        ["at", name] => Wish::At(name.to_owned()),
        ["checkpoint" | "at", ..] => bail!("`# %% checkpoint` and `# %% at` take one name"),
        // Titles of cells are for people.
        _ => Wish::Plain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_begin_at_marks_and_say_what_they_wish() {
        let text = "a = 1\n# %% checkpoint one\na += 1\n# %% a title\nb\n# %% at one\nprint(a)\n";
        let found = split(text).unwrap();
        let wishes: Vec<_> = found.iter().map(|cell| cell.wish.clone()).collect();
        let one = || "one".to_owned();
        assert_eq!(wishes, [Wish::Plain, Wish::Checkpoint(one()), Wish::Plain, Wish::At(one())]);
        assert_eq!(found[3].code, "print(a)\n");
    }

    #[test]
    fn a_mark_without_its_name_is_an_error() {
        assert!(split("# %% at\nx").is_err());
        assert!(split("# %% checkpoint a b\n").is_err());
    }

    #[test]
    fn the_kernel_names_the_language() {
        let of = |metadata: &str| {
            let text =
                format!(r#"{{"nbformat":4,"nbformat_minor":4,"cells":[],"metadata":{metadata}}}"#);
            notebook_language(&Notebook::parse(&text).unwrap())
        };
        assert_eq!(of("{}").unwrap(), Language::Python);
        assert_eq!(of(r#"{"kernelspec":{"name":"python3"}}"#).unwrap(), Language::Python);
        let ipython = r#"{"language_info":{"name":"ipython"}}"#;
        assert_eq!(of(ipython).unwrap(), Language::Python);
        let javascript = r#"{"kernelspec":{"name":"deno","language":"javascript"}}"#;
        assert_eq!(of(javascript).unwrap(), Language::JavaScript);
        assert!(of(r#"{"language_info":{"name":"haskell"}}"#).is_err());
    }
}
