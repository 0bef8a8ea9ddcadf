//! Checks the attack catalogue, `tests/attacks.toml`: each attack has a test, or a reason why it has none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

const CATALOGUE: &str = "tests/attacks.toml";

/// The folders whose sources may name an attack that they try.
const SOURCES: &[&str] = &["crates", "tests"];

/// The shortest exclusion that can be a reason.
const SHORTEST_REASON: usize = 20;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    /// How many attacks each class has; they are numbered from 01.
    classes: BTreeMap<String, u8>,
    /// Tests that do not carry the id: `path#word`, where the word occurs in the file.
    #[serde(default)]
    elsewhere: BTreeMap<String, Vec<String>>,
    /// Why there is no test.
    #[serde(default)]
    excluded: BTreeMap<String, String>,
}

/// How many attacks of a class are tested, excluded or neither.
#[derive(Debug, Default, PartialEq, Eq)]
struct Coverage {
    tested: usize,
    excluded: usize,
    missing: Vec<String>,
}

/// Prints the coverage of each class, and fails if the catalogue contradicts the sources
/// or an attack has neither a test nor a reason.
pub(crate) fn check(root: &Path) -> Result<()> {
    let catalogue = Catalogue::read(root)?;
    let named = named_ids(root)?;
    let wrong = catalogue.contradictions(root, &named);
    let mut total = Coverage::default();
    println!("{:<6} {:>6} {:>8} {:>8}", "class", "tested", "excluded", "missing");
    for (class, coverage) in catalogue.coverage(&named) {
        let Coverage { tested, excluded, missing } = &coverage;
        println!("{class:<6} {tested:>6} {excluded:>8} {:>8}", missing.len());
        total.tested += tested;
        total.excluded += excluded;
        total.missing.extend(coverage.missing);
    }
    let Coverage { tested, excluded, missing } = &total;
    println!("{:<6} {tested:>6} {excluded:>8} {:>8}", "all", missing.len());
    for sentence in &wrong {
        println!("{sentence}");
    }
    if !missing.is_empty() {
        println!("neither tested nor excluded: {}", missing.join(" "));
    }
    if wrong.is_empty() && missing.is_empty() {
        return Ok(());
    }
    bail!("{CATALOGUE}: {} contradictions, {} attacks missing", wrong.len(), missing.len())
}

impl Catalogue {
    fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(CATALOGUE));
        let text = text.with_context(|| format!("cannot read {CATALOGUE}"))?;
        toml::from_str(&text).with_context(|| format!("cannot parse {CATALOGUE}"))
    }

    fn ids(&self) -> BTreeSet<String> {
        self.classes.iter().flat_map(|(class, count)| class_ids(class, *count)).collect()
    }

    /// Returns a sentence for each statement of the catalogue that the sources do not bear out.
    fn contradictions(&self, root: &Path, named: &BTreeSet<String>) -> Vec<String> {
        let ids = self.ids();
        let is_ours = |id: &&String| self.classes.keys().any(|class| id.starts_with(class));
        let named_ours = named.iter().filter(is_ours);
        let listed = self.elsewhere.keys().chain(self.excluded.keys()).chain(named_ours);
        let unknown = listed.filter(|id| !ids.contains(*id));
        let mut wrong: Vec<_> = unknown.map(|id| format!("{id}: not in the catalogue")).collect();
        for (id, reason) in &self.excluded {
            if named.contains(id) || self.elsewhere.contains_key(id) {
                wrong.push(format!("{id}: excluded, but there is a test"));
            }
            if reason.len() < SHORTEST_REASON {
                wrong.push(format!("{id}: the exclusion gives no reason"));
            }
        }
        for (id, places) in &self.elsewhere {
            for place in places {
                if !has_word(root, place) {
                    wrong.push(format!("{id}: there is no {place}"));
                }
            }
        }
        wrong
    }

    fn coverage(&self, named: &BTreeSet<String>) -> BTreeMap<&str, Coverage> {
        let mut classes = BTreeMap::<&str, Coverage>::new();
        for (class, count) in &self.classes {
            let coverage = classes.entry(class).or_default();
            for id in class_ids(class, *count) {
                if named.contains(&id) || self.elsewhere.contains_key(&id) {
                    coverage.tested += 1;
                } else if self.excluded.contains_key(&id) {
                    coverage.excluded += 1;
                } else {
                    coverage.missing.push(id);
                }
            }
        }
        classes
    }
}

fn class_ids(class: &str, count: u8) -> impl Iterator<Item = String> {
    (1..=count).map(move |number| format!("{class}-{number:02}"))
}

/// Returns whether the file of `path#word` contains the word.
fn has_word(root: &Path, place: &str) -> bool {
    let Some((path, word)) = place.split_once('#') else { return false };
    fs::read_to_string(root.join(path)).is_ok_and(|text| !word.is_empty() && text.contains(word))
}

/// Returns the ids that occur in the sources as strings, such as `"KRN-01"` or `"API-16/floor"`.
fn named_ids(root: &Path) -> Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
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
                ids.extend(text.split('"').filter_map(leading_id).map(str::to_owned));
            }
        }
    }
    Ok(ids)
}

/// Returns the id that a string is, or that stands before its first slash.
fn leading_id(text: &str) -> Option<&str> {
    let id = text.split('/').next()?;
    let (class, number) = id.split_once('-')?;
    let is_class = (2..=4).contains(&class.len()) && class.bytes().all(|b| b.is_ascii_uppercase());
    let is_number = number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit());
    (is_class && is_number).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn ids_are_found_in_strings_only() {
        assert_eq!(leading_id("KRN-01"), Some("KRN-01"));
        assert_eq!(leading_id("API-16/floor"), Some("API-16"));
        for other in ["KRN-1", "krn-01", "F-01", "KRN-01 and more", "", "UTF-08x"] {
            assert_eq!(leading_id(other), None, "{other}");
        }
    }

    #[test]
    fn the_catalogue_agrees_with_the_sources() {
        let catalogue = Catalogue::read(root()).unwrap();
        let named = named_ids(root()).unwrap();
        assert_eq!(catalogue.contradictions(root(), &named), [""; 0]);
    }

    #[test]
    fn what_the_sources_do_not_bear_out_is_told() {
        let text = "
            [classes]
            KRN = 6
            [elsewhere]
            KRN-05 = ['xtask/Cargo.toml#xtask']
            KRN-06 = ['xtask/Cargo.toml#no such word']
            [excluded]
            KRN-02 = 'the host has no such device'
            KRN-03 = 'a reason that is long enough'
            KRN-07 = 'an id that is nowhere in the list'
        ";
        let catalogue: Catalogue = toml::from_str(text).unwrap();
        let named = BTreeSet::from(["KRN-01".to_owned(), "KRN-03".to_owned()]);
        let wrong = catalogue.contradictions(root(), &named);
        assert_eq!(
            wrong,
            [
                "KRN-07: not in the catalogue",
                "KRN-03: excluded, but there is a test",
                "KRN-06: there is no xtask/Cargo.toml#no such word"
            ]
        );
        let coverage = &catalogue.coverage(&named)["KRN"];
        let missing = vec!["KRN-04".to_owned()];
        assert_eq!(*coverage, Coverage { tested: 4, excluded: 1, missing });
    }
}
