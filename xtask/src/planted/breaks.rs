//! The list of breaks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The list, below the repository's root.
const LIST: &str = "xtask/planted.toml";

/// One line to break in one crate, and who must notice.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Break {
    /// The crate's folder in `crates/`.
    #[serde(rename = "crate")]
    pub(crate) krate: String,
    /// The file, below the repository's root.
    pub(crate) file: String,
    /// The line as it is, without the blanks around it.
    pub(crate) old: String,
    /// The line that takes its place.
    pub(crate) new: String,
    /// The stage of the gate that must fail.
    pub(crate) stage: String,
    /// The part of this stage that covers the line, split at spaces.
    pub(crate) command: String,
    /// The command that compiles what `command` runs. `cargo test` needs none.
    pub(crate) build: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BreakList {
    #[serde(rename = "break")]
    breaks: Vec<Break>,
}

/// Reads the list.
pub(crate) fn read(root: &Path) -> Result<Vec<Break>> {
    let text =
        fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    parse(&text).with_context(|| format!("cannot use {LIST}"))
}

fn parse(text: &str) -> Result<Vec<Break>> {
    let BreakList { breaks } = toml::from_str(text)?;
    let mut seen = BTreeSet::new();
    for planned in &breaks {
        let Break { krate, file, old, new, .. } = planned;
        if !seen.insert(krate) {
            bail!("{krate} has two breaks");
        }
        if !file.starts_with(&format!("crates/{krate}/")) {
            bail!("{krate}: {file} is not a file of this crate");
        }
        if old.trim() != old || old.is_empty() || old.contains('\n') || new.contains('\n') {
            bail!("{krate}: a break changes one line, written without the blanks around it");
        }
        if old == new {
            bail!("{krate}: the break changes nothing");
        }
        planned.build_command().with_context(|| format!("{krate} has no `build`"))?;
    }
    Ok(breaks)
}

/// The breaks of these crates, or all if none is named.
pub(crate) fn choose(breaks: Vec<Break>, crates: &[String]) -> Result<Vec<Break>> {
    for name in crates {
        if !breaks.iter().any(|planned| planned.krate == *name) {
            bail!("{LIST} has no break for `{name}`");
        }
    }
    let is_chosen = |planned: &Break| crates.is_empty() || crates.contains(&planned.krate);
    Ok(breaks.into_iter().filter(is_chosen).collect())
}

impl Break {
    /// The command that compiles the tests and runs none.
    pub(crate) fn build_command(&self) -> Result<String> {
        match (&self.build, self.command.strip_prefix("cargo test ")) {
            (Some(build), _) => Ok(build.clone()),
            (None, Some(rest)) => Ok(format!("cargo test --no-run {rest}")),
            (None, None) => bail!("only `cargo test` can be compiled without `build`"),
        }
    }

    /// The file's text with the break.
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        let found: Vec<usize> = text.match_indices(&self.old).map(|(at, _)| at).collect();
        let is_line = |at: &usize| {
            let before = text[..*at].rsplit('\n').next().unwrap_or_default();
            let after = text[at + self.old.len()..].split('\n').next().unwrap_or_default();
            before.trim().is_empty() && after.trim().is_empty()
        };
        let [at] = found.into_iter().filter(is_line).collect::<Vec<_>>()[..] else {
            bail!("{} does not have this line exactly once: {}", self.file, self.old);
        };
        Ok([&text[..at], &self.new, &text[at + self.old.len()..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{self, plan::Change};
    use crate::workspace::{Kind, Workspace};

    const ONE: &str = "[[break]]\ncrate = \"sys\"\nfile = \"crates/sys/src/lib.rs\"\n\
                       old = \"a < b\"\nnew = \"a <= b\"\nstage = \"unit\"\n\
                       command = \"cargo test -p belljar-sys --lib\"\n";

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    fn one() -> Break {
        parse(ONE).unwrap().remove(0)
    }

    #[test]
    fn a_break_is_read() {
        let planned = one();
        assert_eq!((planned.krate.as_str(), planned.stage.as_str()), ("sys", "unit"));
        assert_eq!(planned.build_command().unwrap(), "cargo test --no-run -p belljar-sys --lib");
        let other = Break { build: Some("just suites".to_owned()), ..planned };
        assert_eq!(other.build_command().unwrap(), "just suites");
    }

    #[test]
    fn a_list_with_mistakes_is_refused() {
        assert!(parse(&format!("{ONE}{ONE}")).is_err(), "twice");
        for (from, to) in [
            ("a <= b", "a < b"),
            ("crates/sys/", "crates/system/"),
            ("old = \"a", "old = \" a"),
            ("a <= b", "a\\nb"),
            ("cargo test", "just attacks"),
            ("stage", "stages"),
        ] {
            assert!(parse(&ONE.replacen(from, to, 1)).is_err(), "{from} → {to}");
        }
    }

    #[test]
    fn crates_are_chosen_by_name() {
        assert_eq!(choose(vec![one()], &[]).unwrap().len(), 1);
        assert_eq!(choose(vec![one()], &["sys".to_owned()]).unwrap().len(), 1);
        assert!(choose(vec![one()], &["system".to_owned()]).is_err());
    }

    #[test]
    fn a_line_is_changed_only_if_it_is_there_once() {
        let text = "fn f() {\n    a < b\n}\n// a < b and more\n";
        let broken = one().apply(text).unwrap();
        assert_eq!(broken, "fn f() {\n    a <= b\n}\n// a < b and more\n");
        assert!(one().apply("fn f() {}\n").is_err());
        assert!(one().apply("a < b\n  a < b\n").is_err());
    }

    #[test]
    fn every_crate_has_a_break_that_can_be_planted() {
        let breaks = read(root()).unwrap();
        let listed: BTreeSet<_> = breaks.iter().map(|planned| planned.krate.clone()).collect();
        let folders = fs::read_dir(root().join("crates")).unwrap();
        let crates: BTreeSet<_> = folders
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().join("Cargo.toml").is_file())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        assert_eq!(listed, crates);
        for planned in &breaks {
            let text = fs::read_to_string(root().join(&planned.file)).unwrap();
            planned.apply(&text).unwrap();
            let stages = gate::selected(&Change::Paths(vec![planned.file.clone()]));
            let is_selected = stages.iter().any(|stage| stage.name == planned.stage);
            assert!(is_selected, "{} does not select {}", planned.file, planned.stage);
        }
    }

    /// A file that was restored is new to cargo. If it belongs to a crate that others
    /// are built on, they are compiled again: so these others come first.
    #[test]
    fn crates_come_before_those_they_are_built_on() {
        let order: Vec<String> =
            read(root()).unwrap().into_iter().map(|planned| planned.krate).collect();
        let place = |package: &str| {
            let name = package.strip_prefix("belljar-").unwrap_or(package);
            order.iter().position(|krate| krate == name)
        };
        for member in Workspace::read(root()).unwrap().members {
            let Some(own) = place(&member.package) else { continue };
            for dependency in member.dependencies.iter().filter(|it| it.kind != Kind::Dev) {
                let is_after = place(&dependency.package).is_none_or(|other| own < other);
                assert!(is_after, "{} is before {}", dependency.package, member.package);
            }
        }
    }
}
