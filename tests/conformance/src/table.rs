//! docs/tiers.md: which tier has what, from what runs have shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belljar_domain::Tier;

use crate::features::Feature;
use crate::results::{Came, Results};

const BEGIN: &str = "<!-- conformance:begin -->";
const END: &str = "<!-- conformance:end -->";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn kept_dir() -> PathBuf {
    docs().join("tiers")
}

fn page() -> PathBuf {
    docs().join("tiers.md")
}

/// Keeps what was seen and rewrites the page. A run of some cases changes what is
/// kept of those.
pub(crate) fn write(seen: Vec<Results>, whole: bool) -> anyhow::Result<()> {
    for results in seen {
        let before = Results::load(&kept_dir(), results.tier)?.filter(|_| !whole);
        let results = match before {
            Some(before) => results.over(before),
            None => results,
        };
        results.save(&kept_dir())?;
    }
    let text = fs::read_to_string(page()).context("read docs/tiers.md")?;
    let text = replaced(&text, &render(&kept()?)).context("docs/tiers.md has no markers")?;
    fs::write(page(), text).context("write docs/tiers.md")
}

/// What the page says otherwise than what was seen.
pub(crate) fn check(seen: &[Results], whole: bool) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for results in seen {
        let tier = results.tier;
        match Results::load(&kept_dir(), tier)? {
            Some(kept) => {
                let found = results.differences(&kept, whole);
                wrong.extend(found.into_iter().map(|line| format!("{tier}: {line}")));
            }
            None => wrong.push(format!("{tier}: no run of it is kept")),
        }
    }
    let text = fs::read_to_string(page()).context("read docs/tiers.md")?;
    let now = replaced(&text, &render(&kept()?)).context("docs/tiers.md has no markers")?;
    if now != text {
        wrong.push("docs/tiers.md is not what docs/tiers/*.json say".to_owned());
    }
    Ok(wrong)
}

fn kept() -> anyhow::Result<Vec<Results>> {
    let all = Tier::ALL.into_iter().map(|tier| Results::load(&kept_dir(), tier));
    all.filter_map(Result::transpose).collect()
}

/// The page with this between its markers.
fn replaced(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

fn render(columns: &[Results]) -> String {
    let mut text = String::new();
    let mut reasons = Reasons::default();
    head(&mut text, "", columns);
    for feature in Feature::ALL {
        let cells = columns.iter().map(|column| {
            match column.features.get(feature.title()).unwrap_or(&Came::Unseen) {
                Came::Passed => "yes".to_owned(),
                Came::Failed => "**fails**".to_owned(),
                Came::No(why) => format!("no ({})", reasons.number(why)),
                Came::NotHere(why) => format!("not tried ({})", reasons.number(why)),
                Came::Unseen => "not shown".to_owned(),
            }
        });
        row(&mut text, feature.title(), cells);
    }
    text.push_str("\nWhy not:\n\n");
    for (index, why) in reasons.0.iter().enumerate() {
        let _ = writeln!(text, "{}. {why}", index + 1);
    }
    text.push_str("\nCases that passed, by group; beside them those that do not apply:\n\n");
    head(&mut text, "group", columns);
    let groups: BTreeSet<&str> = columns
        .iter()
        .flat_map(|column| column.cases.keys())
        .filter_map(|name| group(name))
        .collect();
    for name in groups {
        row(&mut text, name, columns.iter().map(|column| counts(column, Some(name))));
    }
    row(&mut text, "**all**", columns.iter().map(|column| counts(column, None)));
    text
}

fn head(text: &mut String, corner: &str, columns: &[Results]) {
    let _ = write!(text, "| {corner} |");
    columns.iter().for_each(|column| {
        let _ = write!(text, " {} |", column.tier);
    });
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(columns.len()));
}

fn row(text: &mut String, title: &str, cells: impl Iterator<Item = String>) {
    let _ = writeln!(text, "| {title} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

fn group(name: &str) -> Option<&str> {
    name.split_once("::").map(|(group, _)| group)
}

fn counts(column: &Results, wanted: Option<&str>) -> String {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    let cases =
        column.cases.iter().filter(|(name, _)| wanted.is_none_or(|g| group(name) == Some(g)));
    for (_, came) in cases {
        let kind = match came {
            Came::Passed => "passed",
            Came::Failed => "failed",
            Came::No(_) | Came::NotHere(_) | Came::Unseen => "n/a",
        };
        *counted.entry(kind).or_default() += 1;
    }
    let count = |kind| counted.get(kind).copied().unwrap_or(0);
    let mut said = count("passed").to_string();
    if count("n/a") > 0 {
        let _ = write!(said, " ({} n/a)", count("n/a"));
    }
    if count("failed") > 0 {
        let _ = write!(said, ", **{} failed**", count("failed"));
    }
    said
}

/// Each reason once, numbered as they come.
#[derive(Debug, Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn number(&mut self, why: &str) -> usize {
        let known = self.0.iter().position(|known| known == why);
        let index = known.unwrap_or_else(|| {
            self.0.push(why.to_owned());
            self.0.len() - 1
        });
        index + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_came_of_each_feature() {
        let feature = |came| BTreeMap::from([(Feature::OwnRoot.title().to_owned(), came)]);
        let case = |came| BTreeMap::from([("files::one".to_owned(), came)]);
        let no = || Came::No("it has none".into());
        let process = Results { tier: Tier::Process, features: feature(no()), cases: case(no()) };
        let jail = Results {
            tier: Tier::Jail,
            features: feature(Came::Passed),
            cases: case(Came::Passed),
        };
        let text = render(&[process, jail]);
        assert!(text.starts_with("|  | process | jail |\n|---|---|---|\n"), "{text}");
        assert!(text.contains("| a root filesystem of its own | no (1) | yes |"), "{text}");
        assert!(text.contains("1. it has none\n"), "{text}");
        assert!(text.contains("| files | 0 (1 n/a) | 1 |"), "{text}");
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert!(replaced("no markers", "new").is_none());
    }
}
