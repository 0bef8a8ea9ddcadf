//! Checks the requirements, `docs/requirements.md`, against the tests that show them: a comment
//! of the form `Requirements: A13, P5` names them before a test or at the beginning of a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const LIST: &str = "docs/requirements.md";

/// The folders whose tests may name a requirement.
const SOURCES: &[&str] = &["crates", "runtimes", "tests"];

const MARKER: &str = "Requirements: ";

/// A requirement and the tests that show it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Requirement {
    text: String,
    tests: Vec<String>,
}

type Requirements = BTreeMap<String, Requirement>;

/// Prints each requirement with its tests, and fails if a test names one that does not exist.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join(LIST));
    let mut requirements = read(&text.with_context(|| format!("cannot read {LIST}"))?)?;
    let mut wrong = Vec::new();
    for (path, text) in sources(root)? {
        let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        wrong.extend(add_tests(&mut requirements, &path, &text));
    }
    for (id, Requirement { text, tests }) in &requirements {
        println!("{id:<4} {text}");
        for test in tests {
            println!("       {test}");
        }
    }
    let shown = requirements.values().filter(|found| !found.tests.is_empty()).count();
    println!("{shown} of {} requirements are named by a test", requirements.len());
    for sentence in &wrong {
        println!("{sentence}");
    }
    if !wrong.is_empty() {
        bail!("{} comments name requirements that are not in {LIST}", wrong.len());
    }
    Ok(())
}

/// Reads the rows of the tables: `| A13 | text |`.
fn read(text: &str) -> Result<Requirements> {
    let mut requirements = Requirements::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", id, text, ""] = cells[..] else { continue };
        if !is_id(id) {
            continue;
        }
        let requirement = Requirement { text: text.to_owned(), tests: Vec::new() };
        if requirements.insert(id.to_owned(), requirement).is_some() {
            bail!("{LIST}: {id} is there twice");
        }
    }
    if requirements.is_empty() {
        bail!("{LIST}: there is no requirement");
    }
    Ok(requirements)
}

/// Returns true for a letter of a chapter and a number.
fn is_id(text: &str) -> bool {
    let number = text.strip_prefix(|letter: char| letter.is_ascii_uppercase());
    number.is_some_and(|number| {
        (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Adds the tests of a file. Returns a sentence for each comment that cannot be right.
fn add_tests(requirements: &mut Requirements, path: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(ids) = named(line) else { continue };
        let place = format!("{path}:{}", index + 1);
        let test = match test_after(line, &lines[index + 1..]) {
            Some(name) => format!("{place} {name}"),
            None => place.clone(),
        };
        for id in ids.split(',').map(str::trim) {
            match requirements.get_mut(id) {
                Some(requirement) => requirement.tests.push(test.clone()),
                None => wrong.push(format!("{place}: there is no requirement `{id}`")),
            }
        }
    }
    wrong
}

/// Returns the ids of a comment that names requirements, as text.
fn named(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let markers = ["//! ", "/// ", "// ", "# "];
    let comment = markers.iter().find_map(|marker| line.strip_prefix(marker))?;
    Some(comment.strip_prefix(MARKER)?.trim_end().trim_end_matches('.'))
}

/// Returns the name of the test that a comment stands before; none: it is about its whole file.
fn test_after<'a>(comment: &str, following: &[&'a str]) -> Option<&'a str> {
    if comment.trim_start().starts_with("//!") {
        return None;
    }
    following.iter().map(|line| line.trim_start()).find_map(|line| {
        let rest = ["fn ", "def ", "fault!(\""].iter().find_map(|begin| {
            let at = line.find(begin)?;
            Some(&line[at + begin.len()..])
        })?;
        rest.split(['(', '<', '"']).next()
    })
}

/// Reads every source of the folders, sorted by path.
fn sources(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = SOURCES.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {folder:?}"))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "py") {
                let text = fs::read_to_string(&path);
                let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                found.push((path, text));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Requirements {
        read("| Id | Requirement |\n|---|---|\n| A1 | one |\n| A13 | another |\n").unwrap()
    }

    #[test]
    fn rows_of_tables_are_requirements_and_each_has_its_own_id() {
        assert_eq!(list().keys().collect::<Vec<_>>(), ["A1", "A13"]);
        assert_eq!(list()["A13"].text, "another");
        assert!(read("| A1 | one |\n| A1 | again |\n").is_err());
        assert!(read("no table").is_err());
    }

    #[test]
    fn comments_name_the_test_that_follows_or_their_file() {
        let comment = |ids: &str| format!("/// {MARKER}{ids}\n");
        let text = [
            format!("//! {MARKER}A1\n"),
            comment("A1, A13."),
            "#[tokio::test]\nasync fn it_goes_on() {}\n".to_owned(),
            format!("    # {MARKER}A13\n    def test_more(self):\n"),
            format!("let text = \"{MARKER}A99\";\n"),
        ];
        let mut requirements = list();
        assert_eq!(add_tests(&mut requirements, "a.rs", &text.concat()), [""; 0]);
        assert_eq!(requirements["A1"].tests, ["a.rs:1", "a.rs:2 it_goes_on"]);
        assert_eq!(requirements["A13"].tests, ["a.rs:2 it_goes_on", "a.rs:5 test_more"]);
    }

    #[test]
    fn an_id_that_does_not_exist_is_told() {
        let text = format!("// {MARKER}A1, Z9\nfn one() {{}}\n");
        let wrong = add_tests(&mut list(), "a.rs", &text);
        assert_eq!(wrong, ["a.rs:1: there is no requirement `Z9`"]);
    }

    #[test]
    fn the_tests_of_this_repository_name_requirements_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut requirements = read(&fs::read_to_string(root.join(LIST)).unwrap()).unwrap();
        assert_eq!(requirements.len(), 83);
        let wrong: Vec<String> = sources(root)
            .unwrap()
            .iter()
            .flat_map(|(path, text)| {
                add_tests(&mut requirements, &path.display().to_string(), text)
            })
            .collect();
        assert_eq!(wrong, [""; 0]);
        for id in ["A13", "A18", "G2", "G5", "O5", "P5"] {
            assert!(!requirements[id].tests.is_empty(), "no test names {id}");
        }
    }
}
