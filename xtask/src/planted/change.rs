//! A change in the work tree that does not stay.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::breaks::Break;

/// Says that it ignores signals, waits until its input ends, then restores the file. It
/// outlives this program, so the file is restored also after an interrupt or a crash. The
/// file gets a new date: with its old one, cargo would take what it built from the broken
/// file for up to date.
const RESTORE: &str =
    r#"trap "" INT TERM HUP; echo ready; cat >/dev/null; cp -- "$1" "$2" && rm -- "$1""#;

/// A break that is in the work tree, until it is restored or dropped.
#[derive(Debug)]
pub(crate) struct PlantedBreak {
    path: PathBuf,
    original: String,
    keeper: Option<Child>,
}

impl PlantedBreak {
    /// Changes the file. Refuses if it differs from what is committed. A copy is kept in
    /// `scratch` meanwhile.
    pub(crate) fn plant(root: &Path, scratch: &Path, planned: &Break) -> Result<Self> {
        check_clean(root, &planned.file)?;
        let path = root.join(&planned.file);
        let original =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let broken = planned.apply(&original)?;
        let copy = scratch.join("original");
        fs::write(&copy, &original).with_context(|| format!("cannot write {}", copy.display()))?;
        let mut keeper = Command::new("sh")
            .args(["-c", RESTORE, "sh"])
            .args([&copy, &path])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the shell that restores the file")?;
        let mut ready = String::new();
        if let Some(stdout) = keeper.stdout.take() {
            BufReader::new(stdout).read_line(&mut ready)?;
        }
        if ready != "ready\n" {
            bail!("the shell that restores the file did not start");
        }
        let planted = Self { path, original, keeper: Some(keeper) };
        fs::write(&planted.path, broken)
            .with_context(|| format!("cannot write {}", planted.path.display()))?;
        Ok(planted)
    }

    /// Restores the file, and checks that it is as it was.
    pub(crate) fn restore(mut self) -> Result<()> {
        self.end_keeper().context("cannot wait for the shell that restores the file")?;
        let found = fs::read_to_string(&self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        if found != self.original {
            bail!("{} was not restored", self.path.display());
        }
        Ok(())
    }

    fn end_keeper(&mut self) -> std::io::Result<()> {
        let Some(mut keeper) = self.keeper.take() else { return Ok(()) };
        // Closes its input first.
        keeper.wait().map(drop)
    }
}

impl Drop for PlantedBreak {
    fn drop(&mut self) {
        let _ = self.end_keeper();
    }
}

/// Refuses a file with changes: what is restored is what was found, but what is tested
/// should be what is committed.
fn check_clean(root: &Path, file: &str) -> Result<()> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(["status", "--porcelain", "--", file]);
    let output = command.output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git status failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    if !output.stdout.is_empty() {
        bail!("{file} has changes that are not committed");
    }
    Ok(())
}

/// A repository with one committed file.
#[cfg(test)]
pub(crate) fn repository(file: &str, text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    for arguments in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "-m", "x"]] {
        let mut command = Command::new("git");
        command.current_dir(dir.path()).args(["-c", "user.name=t", "-c", "user.email=t@t"]);
        assert!(command.args(arguments).status().unwrap().success());
    }
    dir
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn f() {\n    a < b\n}\n";

    fn planned() -> Break {
        Break {
            krate: "sys".to_owned(),
            file: "lib.rs".to_owned(),
            old: "a < b".to_owned(),
            new: "a <= b".to_owned(),
            stage: "unit".to_owned(),
            command: "cargo test".to_owned(),
            build: None,
        }
    }

    struct Place {
        repository: tempfile::TempDir,
        scratch: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            Self { repository: repository("lib.rs", TEXT), scratch: tempfile::tempdir().unwrap() }
        }

        fn plant(&self, planned: &Break) -> Result<PlantedBreak> {
            PlantedBreak::plant(self.repository.path(), self.scratch.path(), planned)
        }

        fn text(&self) -> String {
            fs::read_to_string(self.repository.path().join("lib.rs")).unwrap()
        }

        fn modified(&self) -> std::time::SystemTime {
            fs::metadata(self.repository.path().join("lib.rs")).unwrap().modified().unwrap()
        }
    }

    #[test]
    fn a_break_is_planted_and_restored_with_a_new_date() {
        let place = Place::new();
        let planted = place.plant(&planned()).unwrap();
        assert_eq!(place.text(), TEXT.replace("a < b", "a <= b"));
        let broken = place.modified();
        planted.restore().unwrap();
        assert_eq!(place.text(), TEXT);
        assert!(place.modified() >= broken);
        assert_eq!(fs::read_dir(place.scratch.path()).unwrap().count(), 0, "no copy is left");
    }

    #[test]
    fn a_break_that_is_dropped_is_restored() {
        let place = Place::new();
        drop(place.plant(&planned()).unwrap());
        assert_eq!(place.text(), TEXT);
    }

    #[test]
    fn the_keeper_ignores_an_interrupt_and_restores_when_its_input_ends() {
        let place = Place::new();
        let mut planted = place.plant(&planned()).unwrap();
        let mut keeper = planted.keeper.take().unwrap();
        let pid = keeper.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert_ne!(place.text(), TEXT);
        drop(keeper.stdin.take());
        assert!(keeper.wait().unwrap().success());
        assert_eq!(place.text(), TEXT);
    }

    #[test]
    fn a_file_that_was_not_restored_is_an_error() {
        let place = Place::new();
        let planted = place.plant(&planned()).unwrap();
        fs::remove_file(place.scratch.path().join("original")).unwrap();
        let error = planted.restore().unwrap_err();
        assert!(error.to_string().contains("was not restored"), "{error}");
    }

    #[test]
    fn a_file_with_changes_is_left_alone() {
        let place = Place::new();
        let path = place.repository.path().join("lib.rs");
        fs::write(&path, "fn f() {\n    a < b\n    c\n}\n").unwrap();
        assert!(place.plant(&planned()).unwrap_err().to_string().contains("not committed"));
        assert_eq!(place.text(), "fn f() {\n    a < b\n    c\n}\n");
    }

    #[test]
    fn a_line_that_is_not_there_changes_nothing() {
        let place = Place::new();
        assert!(place.plant(&Break { old: "a > b".to_owned(), ..planned() }).is_err());
        assert_eq!(place.text(), TEXT);
    }
}
