//! Counts wording that users should not meet: `docs/glossary.md` and the style rules say why.
//!
//! It prints and never fails: judgement stays with the reader.

mod rust;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use text::{Sentence, sentences_of_markdown, sentences_of_text, words};

/// Where users read a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Markdown,
    Help,
    Error,
    Log,
    OpenApi,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Markdown, Self::Help, Self::Error, Self::Log, Self::OpenApi];

    fn name(self) -> &'static str {
        match self {
            Self::Markdown => "Markdown",
            Self::Help => "help",
            Self::Error => "errors",
            Self::Log => "logs",
            Self::OpenApi => "OpenAPI",
        }
    }
}

/// One text and its source.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) kind: Kind,
    /// File and line.
    pub(crate) place: String,
    pub(crate) sentences: Vec<Sentence>,
}

/// Pronouns that stand for a role.
const BANNED: [&str; 11] = [
    "whoever",
    "whomever",
    "somebody",
    "someone",
    "anybody",
    "anyone",
    "nobody",
    "everybody",
    "everyone",
    "stranger",
    "strangers",
];

/// First words of clauses that name no subject.
const OPENINGS: [&str; 7] = ["what", "who", "whether", "how", "where", "why", "which"];

const LONGEST: usize = 30;

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    kind: Kind,
    rule: Rule,
    place: String,
    shown: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Pronoun,
    Opening,
    Long,
    Glossary,
}

/// Prints the counts by kind of text, and the worst files; with `all`, every finding.
pub(crate) fn print(root: &Path, all: bool) -> Result<()> {
    let texts = read(root)?;
    let avoided = avoided(&fs::read_to_string(root.join("docs/glossary.md"))?);
    let findings: Vec<Finding> = texts.iter().flat_map(|text| check(text, &avoided)).collect();
    println!(
        "{:<10}{:>7}{:>10}{:>10}{:>9}{:>8}{:>6}{:>7}",
        "", "texts", "pronouns", "openings", "avoided", "median", "p95", "> 30"
    );
    for kind in Kind::ALL {
        let texts: Vec<&Text> = texts.iter().filter(|text| text.kind == kind).collect();
        let count = |rule| findings.iter().filter(|it| it.kind == kind && it.rule == rule).count();
        let (median, p95) = lengths(&texts);
        println!(
            "{:<10}{:>7}{:>10}{:>10}{:>9}{median:>8}{p95:>6}{:>7}",
            kind.name(),
            texts.len(),
            count(Rule::Pronoun),
            count(Rule::Opening),
            count(Rule::Glossary),
            count(Rule::Long),
        );
    }
    if all {
        for finding in &findings {
            println!("{}: {:?}: {}", finding.place, finding.rule, finding.shown);
        }
        return Ok(());
    }
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in &findings {
        *files.entry(finding.place.split(':').next().unwrap_or_default()).or_default() += 1;
    }
    let mut files: Vec<(&str, usize)> = files.into_iter().collect();
    files.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    println!("\nmost findings (`cargo xtask words --all` prints each):");
    for (file, count) in files.iter().take(12) {
        println!("{count:>5}  {file}");
    }
    Ok(())
}

/// Every text that users read.
fn read(root: &Path) -> Result<Vec<Text>> {
    let mut texts = Vec::new();
    for path in files(root, "md")? {
        let name = name_of(root, &path);
        let is_for_users = !name.contains("docs/design/")
            && (!name.contains('/') || name.starts_with("docs/"))
            && name != "CHANGELOG.md";
        if is_for_users {
            let sentences = sentences_of_markdown(&fs::read_to_string(&path)?);
            texts.extend(sentences.into_iter().map(|(line, sentence)| Text {
                kind: Kind::Markdown,
                place: format!("{name}:{line}"),
                sentences: vec![sentence],
            }));
        }
    }
    for path in files(&root.join("crates"), "rs")? {
        let name = name_of(root, &path);
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
        if !is_test && name.contains("/src/") {
            texts.extend(rust::texts(&name, &fs::read_to_string(&path)?));
        }
    }
    let openapi = fs::read_to_string(root.join("openapi.json")).context("openapi.json")?;
    described(&serde_json::from_str(&openapi)?, "openapi.json:", &mut texts);
    Ok(texts)
}

/// The summaries and descriptions of an OpenAPI document.
fn described(value: &serde_json::Value, place: &str, texts: &mut Vec<Text>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if ["summary", "description"].contains(&name.as_str()) => {
                        texts.push(Text {
                            kind: Kind::OpenApi,
                            place: place.to_owned(),
                            sentences: sentences_of_text(text),
                        });
                    }
                    _ => described(value, &format!("{place}/{name}"), texts),
                }
            }
        }
        serde_json::Value::Array(items) => {
            items.iter().for_each(|item| described(item, place, texts));
        }
        _ => {}
    }
}

/// The words on the left of the glossary's last table, without remarks in brackets.
fn avoided(glossary: &str) -> Vec<String> {
    let table = glossary.split("## Words to avoid").nth(1).unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let words = rows.map(|cell| cell.split(" (").next().unwrap_or_default().trim().to_lowercase());
    words.filter(|word| word != "instead of" && !word.is_empty()).collect()
}

fn check(text: &Text, avoided: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |rule, sentence: &Sentence| {
        let shown = sentence.0.chars().take(100).collect();
        found.push(Finding { kind: text.kind, rule, place: text.place.clone(), shown });
    };
    for (index, sentence) in text.sentences.iter().enumerate() {
        let words = words(&sentence.0);
        for _ in words.iter().filter(|word| BANNED.contains(&word.as_str())) {
            add(Rule::Pronoun, sentence);
        }
        let is_question = sentence.0.ends_with('?');
        let opens = words.first().is_some_and(|word| OPENINGS.contains(&word.as_str()));
        if index == 0 && opens && !is_question {
            add(Rule::Opening, sentence);
        }
        if words.len() > LONGEST {
            add(Rule::Long, sentence);
        }
        let spoken = format!(" {} ", words.join(" "));
        for _ in avoided.iter().filter(|word| spoken.contains(&format!(" {word} "))) {
            add(Rule::Glossary, sentence);
        }
    }
    found
}

/// The median and the 95th percentile of words in a sentence.
fn lengths(texts: &[&Text]) -> (usize, usize) {
    let sentences = texts.iter().flat_map(|text| &text.sentences);
    let mut lengths: Vec<usize> = sentences.map(|sentence| words(&sentence.0).len()).collect();
    lengths.retain(|length| *length > 0);
    lengths.sort_unstable();
    let at = |percent: usize| lengths.get(lengths.len() * percent / 100).copied().unwrap_or(0);
    (at(50), at(95))
}

/// The files below `dir` with this extension, hidden and built ones left out.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "node_modules" {
                    left.push(entry.path());
                }
            } else if entry.path().extension().is_some_and(|found| found == extension) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn name_of(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(kind: Kind, text: &str) -> Vec<Rule> {
        let text = Text { kind, place: "x:1".to_owned(), sentences: sentences_of_text(text) };
        check(&text, &["tape".to_owned(), "stand still".to_owned()])
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn wording_to_avoid_is_found_and_plain_wording_is_not() {
        assert_eq!(rules(Kind::Help, "Maximum number of runs to show."), []);
        assert_eq!(rules(Kind::Help, "Whoever asks waits."), [Rule::Pronoun]);
        assert_eq!(rules(Kind::Help, "What the sandbox stands on"), [Rule::Opening]);
        assert_eq!(rules(Kind::Help, "Pauses it. What is left stays."), []);
        assert_eq!(rules(Kind::Help, "How does it work?"), []);
        assert_eq!(rules(Kind::Log, "Has a sandbox stand still on a tape"), [Rule::Glossary; 2]);
        assert_eq!(rules(Kind::Error, &"word ".repeat(31)), [Rule::Long]);
    }

    #[test]
    fn the_glossary_says_which_words_to_avoid() {
        let page = "| a | b |\n## Words to avoid\n\n| Instead of | Write |\n|---|---|\n| tape | cassette |\n| well (of a server) | healthy |\n";
        assert_eq!(avoided(page), ["tape", "well"]);
    }
}
