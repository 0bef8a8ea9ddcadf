//! What can be said of files when some of them cannot be read.

use std::fs::File;
use std::path::Path;

use super::ask::{WorkerError, describe_sealed};
use crate::describe::Description;

/// What came of describing files.
#[derive(Debug)]
pub struct Sorted {
    /// What is in those that can be described; none: there is no such file.
    pub description: Option<Description>,
    /// The names of the others, and why.
    pub refused: Vec<(String, WorkerError)>,
}

/// Describes those files that can be described. One that cannot does not take what
/// could be said of the others with it; only then are they read twice.
pub fn describe_those_that_can_be(
    executable: &Path,
    files: Vec<(String, File)>,
    threads: usize,
) -> Result<Sorted, WorkerError> {
    let mut sorted = Sorted { description: None, refused: Vec::new() };
    if files.is_empty() {
        return Ok(sorted);
    }
    let together = describe_sealed(executable, &files, threads, |_| {});
    if !together.as_ref().is_err_and(WorkerError::is_about_a_file) {
        sorted.description = Some(together?);
        return Ok(sorted);
    }
    let mut good = Vec::new();
    for file in files {
        match describe_sealed(executable, std::slice::from_ref(&file), threads, |_| {}) {
            Ok(description) => {
                sorted.description = Some(description);
                good.push(file);
            }
            Err(error) if error.is_about_a_file() => sorted.refused.push((file.0, error)),
            Err(error) => return Err(error),
        }
    }
    if good.len() > 1 {
        sorted.description = Some(describe_sealed(executable, &good, threads, |_| {})?);
    }
    Ok(sorted)
}
