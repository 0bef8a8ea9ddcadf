//! Decides which stages of the gate a change selects.

use std::path::Path;
use std::process::Command;

use super::stages::{EVERYTHING, Stage, When};

/// The change that the gate judges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The last commit that passed is unknown, so everything may have changed.
    Unknown,
    /// Paths that differ from the last commit that passed, below the repository's root.
    Paths(Vec<String>),
}

/// Why a stage runs or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    Run(String),
    Skip,
}

impl Change {
    /// Compares the work tree with `passed`, a commit. Files that git does not track
    /// count as changed.
    pub(crate) fn since(root: &Path, passed: Option<&str>) -> Self {
        let Some(passed) = passed else { return Self::Unknown };
        let git = |arguments: &[&str]| {
            let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            output.status.success().then(|| text.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        let changed = git(&["diff", "--name-only", "--no-renames", passed, "--"]);
        let untracked = git(&["ls-files", "--others", "--exclude-standard"]);
        match (changed, untracked) {
            (Some(mut paths), Some(more)) => {
                paths.extend(more);
                Self::Paths(paths)
            }
            _ => Self::Unknown,
        }
    }

    /// Decides whether `stage` runs.
    pub(crate) fn choose(&self, stage: &Stage) -> Choice {
        let watched = match stage.when {
            When::Always => return Choice::Run("always".to_owned()),
            When::Changed(watched) => watched,
        };
        let Self::Paths(paths) = self else {
            return Choice::Run("the last commit that passed is unknown".to_owned());
        };
        let is_below = |path: &&String, prefixes: &[&str]| {
            prefixes.iter().any(|prefix| path.starts_with(prefix))
        };
        let cause = paths.iter().find(|path| is_below(path, EVERYTHING) || is_below(path, watched));
        cause.map_or(Choice::Skip, |path| Choice::Run(format!("{path} changed")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::stages::GATE;
    use super::*;

    fn selected(change: &Change) -> Vec<&'static str> {
        let runs = |stage: &&Stage| matches!(change.choose(stage), Choice::Run(_));
        GATE.iter().filter(runs).map(|stage| stage.name).collect()
    }

    fn changed(paths: &[&str]) -> Change {
        Change::Paths(paths.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn unknown_changes_select_everything() {
        assert_eq!(selected(&Change::Unknown).len(), GATE.len());
    }

    #[test]
    fn documents_select_only_what_always_runs() {
        let always = GATE.iter().filter(|stage| stage.when == When::Always).count();
        assert_eq!(selected(&changed(&["docs/runs.md"])).len(), always);
        assert!(always < GATE.len());
    }

    #[test]
    fn a_lock_file_selects_everything() {
        assert_eq!(selected(&changed(&["Cargo.lock"])).len(), GATE.len());
    }

    #[test]
    fn the_engine_selects_every_tier_and_no_model_stage() {
        let chosen = selected(&changed(&["crates/engine/src/plan.rs"]));
        for name in ["conformance-oci", "conformance-microvm", "attacks-oci", "attacks-warm"] {
            assert!(chosen.contains(&name), "{name} in {chosen:?}");
        }
        assert!(!chosen.contains(&"agents"), "{chosen:?}");
    }

    #[test]
    fn a_crate_with_a_longer_name_is_another_crate() {
        assert!(!selected(&changed(&["crates/sys-more/src/lib.rs"])).contains(&"attacks-oci"));
    }

    #[test]
    fn changes_are_read_from_git() {
        let dir = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.current_dir(dir.path()).args(["-c", "user.name=t", "-c", "user.email=t@t"]);
            let output = command.args(arguments).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        git(&["init", "--quiet"]);
        std::fs::write(dir.path().join("kept"), "1").unwrap();
        std::fs::write(dir.path().join("edited"), "1").unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "first"]);
        let first = git(&["rev-parse", "HEAD"]);
        std::fs::write(dir.path().join("edited"), "2").unwrap();
        git(&["commit", "--quiet", "-am", "second"]);
        std::fs::write(dir.path().join("new"), "1").unwrap();
        assert_eq!(Change::since(dir.path(), Some(&first)), changed(&["edited", "new"]));
        assert_eq!(Change::since(dir.path(), None), Change::Unknown);
        assert_eq!(Change::since(dir.path(), Some("0".repeat(40).as_str())), Change::Unknown);
    }
}
