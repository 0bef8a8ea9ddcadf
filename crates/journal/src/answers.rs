//! Answers of models that arrived and are not yet written as events: one file for each.
//!
//! ```text
//!   last byte ─► file ─► event ─► file removed
//!                 └── the worker dies here: the next one finds the answer in the file
//! ```
//!
//! A file outlives its process, and is whole or not there. After a power loss it may be damaged:
//! its reader decides that.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use belljar_domain::{RunId, Sequence};

/// The end of the name of an answer's file.
const EXTENSION: &str = ".answer";
/// The begin of the name of a file that is not whole yet.
const TEMPORARY: &str = ".tmp";
/// Files of other names are left by processes that died while they wrote. They go after this time.
const RUBBISH_AGE: Duration = Duration::from_secs(24 * 3600);

/// A folder for answers, by the run and the number of the request.
#[derive(Debug, Clone)]
pub struct AnswerFolder(PathBuf);

impl AnswerFolder {
    /// Makes the folder. Only its owner can enter it.
    pub fn create(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Ok(Self(path.to_owned()))
    }

    /// The folder of one run, which is there for other reasons too.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Keeps an answer.
    pub fn keep(&self, run: &RunId, asked: Sequence, answer: &[u8]) -> io::Result<()> {
        let mut fresh = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.0)?;
        fresh.write_all(answer)?;
        fresh.persist(self.path(run, asked)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Reads an answer; none if it is not kept.
    pub fn find(&self, run: &RunId, asked: Sequence) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(run, asked)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Removes an answer, if it is there.
    pub fn forget(&self, run: &RunId, asked: Sequence) -> io::Result<()> {
        match fs::remove_file(self.path(run, asked)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Lists answers that were kept so long ago. Removes what dead processes left half written.
    pub fn older_than(&self, age: Duration) -> io::Result<Vec<(RunId, Sequence)>> {
        let now = SystemTime::now();
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let Ok(modified) = entry.metadata().and_then(|about| about.modified()) else {
                // It was removed meanwhile.
                continue;
            };
            let is_older = |age| now.duration_since(modified).is_ok_and(|past| past >= age);
            match entry.file_name().to_str().and_then(parse) {
                Some(answer) if is_older(age) => found.push(answer),
                Some(_) => {}
                None if is_older(RUBBISH_AGE) => drop(fs::remove_file(entry.path())),
                None => {}
            }
        }
        Ok(found)
    }

    /// Removes answers that are not needed any more, and what dead processes left half written. For
    /// the folder of one run, on which no other process works.
    pub(crate) fn clean(&self, is_needed: impl Fn(Sequence) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            let is_left = match parse(name) {
                Some((_, asked)) => !is_needed(asked),
                None => name.starts_with(TEMPORARY),
            };
            if is_left {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn path(&self, run: &RunId, asked: Sequence) -> PathBuf {
        self.0.join(format!("{}-{}{EXTENSION}", run.as_str(), asked.0))
    }
}

fn parse(name: &str) -> Option<(RunId, Sequence)> {
    let (run, asked) = name.strip_suffix(EXTENSION)?.split_once('-')?;
    Some((run.parse().ok()?, Sequence(asked.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_there_until_it_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("answers");
        let folder = AnswerFolder::create(&place).unwrap();
        let (run, other) = (RunId::from_bits([7; 16]), RunId::from_bits([8; 16]));
        folder.keep(&run, Sequence(5), b"first").unwrap();
        folder.keep(&run, Sequence(5), b"second").unwrap();
        // Another process, which found the folder.
        let again = AnswerFolder::create(&place).unwrap();
        assert_eq!(again.find(&run, Sequence(5)).unwrap().unwrap(), b"second");
        assert_eq!(again.find(&run, Sequence(6)).unwrap(), None);
        assert_eq!(again.find(&other, Sequence(5)).unwrap(), None);
        assert_eq!(again.older_than(Duration::ZERO).unwrap(), [(run.clone(), Sequence(5))]);
        assert!(again.older_than(Duration::from_secs(600)).unwrap().is_empty());
        again.forget(&run, Sequence(5)).unwrap();
        again.forget(&run, Sequence(5)).unwrap();
        assert_eq!(folder.find(&run, Sequence(5)).unwrap(), None);
    }

    #[test]
    fn files_of_other_names_are_no_answers_and_go_when_they_are_old() {
        let directory = tempfile::tempdir().unwrap();
        let folder = AnswerFolder::create(directory.path()).unwrap();
        let (fresh, old) = (directory.path().join(".tmpA"), directory.path().join(".tmpB"));
        fs::write(&fresh, b"half").unwrap();
        let file = fs::File::create(&old).unwrap();
        file.set_modified(SystemTime::now() - 2 * RUBBISH_AGE).unwrap();
        assert!(folder.older_than(Duration::ZERO).unwrap().is_empty());
        assert!(fresh.exists() && !old.exists());
    }

    #[test]
    fn needed_answers_and_files_of_other_kinds_stay() {
        let directory = tempfile::tempdir().unwrap();
        let folder = AnswerFolder::at(directory.path().to_owned());
        let run = RunId::from_bits([7; 16]);
        for asked in [5, 9] {
            folder.keep(&run, Sequence(asked), b"answer").unwrap();
        }
        let (half, log) = (directory.path().join(".tmpA"), directory.path().join("log"));
        for file in [&half, &log] {
            fs::write(file, b"text").unwrap();
        }
        folder.clean(|asked| asked == Sequence(9)).unwrap();
        assert_eq!(folder.older_than(Duration::ZERO).unwrap(), [(run, Sequence(9))]);
        assert!(log.exists() && !half.exists());
    }
}
