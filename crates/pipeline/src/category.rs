//! Categories of failures, read from the output of a program.

use serde::{Deserialize, Serialize};

/// Characters of an error's line that are kept.
const MAX_ERROR_CHARS: usize = 300;

/// The kind of a failure. The words are those of a run's faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    MissingModule,
    Syntax,
    /// A column or a key that the data does not have.
    MissingKey,
    Type,
    Name,
    File,
    Memory,
    Timeout,
    /// The installation failed.
    Install,
    Output,
    Disk,
    /// The sandbox was lost; the program is not at fault.
    Lost,
    Exception,
    /// The program ended with a status that is not 0.
    Exit,
}

impl Category {
    pub const ALL: [Self; 14] = [
        Self::MissingModule,
        Self::Syntax,
        Self::MissingKey,
        Self::Type,
        Self::Name,
        Self::File,
        Self::Memory,
        Self::Timeout,
        Self::Install,
        Self::Output,
        Self::Disk,
        Self::Lost,
        Self::Exception,
        Self::Exit,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingModule => "missing_module",
            Self::Syntax => "syntax",
            Self::MissingKey => "missing_key",
            Self::Type => "type",
            Self::Name => "name",
            Self::File => "file",
            Self::Memory => "memory",
            Self::Timeout => "timeout",
            Self::Install => "install",
            Self::Output => "output",
            Self::Disk => "disk",
            Self::Lost => "lost",
            Self::Exception => "exception",
            Self::Exit => "exit",
        }
    }

    /// The category of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == name)
    }

    /// Returns true if a limit or the sandbox ended the program, whatever it printed.
    fn is_of_the_sandbox(self) -> bool {
        matches!(self, Self::Memory | Self::Timeout | Self::Output | Self::Disk | Self::Lost)
    }

    /// Finds the category of a program that failed. `fault`: the word for how it ended.
    pub fn of_run(fault: &str, output: &str) -> Self {
        let ended = Self::named(fault).filter(|category| category.is_of_the_sandbox());
        ended.unwrap_or_else(|| Self::of_output(output))
    }

    /// The same of an installation.
    pub fn of_install(fault: &str) -> Self {
        let ended = Self::named(fault).filter(|category| category.is_of_the_sandbox());
        ended.unwrap_or(Self::Install)
    }

    fn of_output(output: &str) -> Self {
        let Some(line) = raised(output) else { return Self::Exit };
        if line.contains("heap out of memory") {
            return Self::Memory;
        }
        if missing_module(output).is_some() {
            return Self::MissingModule;
        }
        let name = line.split([':', ' ']).find(|word| is_error_name(word)).unwrap_or_default();
        match name.rsplit('.').next().unwrap_or(name) {
            "ModuleNotFoundError" | "ImportError" => Self::MissingModule,
            "SyntaxError" | "IndentationError" | "TabError" => Self::Syntax,
            "KeyError" | "IndexError" | "ColumnNotFoundError" => Self::MissingKey,
            "NameError" | "UnboundLocalError" | "ReferenceError" => Self::Name,
            "TypeError" | "ValueError" | "AttributeError" | "RangeError" => Self::Type,
            "FileNotFoundError" | "PermissionError" | "IsADirectoryError" => Self::File,
            "MemoryError" => Self::Memory,
            "TimeoutError" => Self::Timeout,
            _ if line.contains("ENOENT") => Self::File,
            _ => Self::Exception,
        }
    }
}

fn is_error_name(word: &str) -> bool {
    let is_plain =
        word.chars().all(|letter| letter.is_ascii_alphanumeric() || "._".contains(letter));
    is_plain && (word.ends_with("Error") || word.ends_with("Exception"))
}

/// The last line that names an exception.
fn raised(output: &str) -> Option<&str> {
    let is_raised = |line: &&str| {
        let line = line.trim_start();
        let first = line.split([':', ' ']).next().unwrap_or_default();
        is_error_name(first)
            || line.contains("heap out of memory")
            || line.starts_with("Error: Cannot find module")
            || line.starts_with("Uncaught ")
    };
    output.lines().rev().find(is_raised).map(str::trim)
}

/// The line of an output that says most of the error: the exception, or else the last one.
pub fn error_line(output: &str) -> Option<String> {
    let is_note = |line: &str| line.starts_with('[') && line.ends_with(']');
    let last = || output.lines().rev().map(str::trim).find(|it| !it.is_empty() && !is_note(it));
    let ended = || output.lines().rev().map(str::trim).find(|it| !it.is_empty());
    let line = raised(output).or_else(last).or_else(ended)?;
    Some(line.chars().take(MAX_ERROR_CHARS).collect())
}

/// The package that a program could not import, as the interpreter names it.
pub fn missing_module(output: &str) -> Option<String> {
    let named = output.lines().rev().find_map(|line| {
        let after = line.split_once("No module named ").or_else(|| {
            line.split_once("Cannot find module ")
                .or_else(|| line.split_once("Cannot find package "))
        });
        quoted(after?.1)
    })?;
    // A module of a package is in the package; a path is a file of the program.
    let is_path = named.starts_with('.') || named.starts_with('/');
    let package = match named.strip_prefix('@') {
        Some(_) => named.clone(),
        None => named.split(['.', '/']).next().unwrap_or_default().to_owned(),
    };
    (!is_path && !package.is_empty()).then_some(package)
}

/// The text in the quotes at the beginning.
pub(crate) fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|first| "'\"".contains(*first))?;
    let (inside, _) = text[1..].split_once(quote)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/@ ".contains(c);
    (inside.len() <= 100 && inside.chars().all(is_plain)).then(|| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_tells_the_category() {
        for (output, category) in [
            ("Traceback\nModuleNotFoundError: No module named 'polars'\n", Category::MissingModule),
            ("Error: Cannot find module 'lodash'\n    at x", Category::MissingModule),
            ("  File \"main.py\", line 1\nSyntaxError: expected ':'", Category::Syntax),
            ("KeyError: 'revenue'", Category::MissingKey),
            ("polars.exceptions.ColumnNotFoundError: unable to find", Category::MissingKey),
            ("ReferenceError: x is not defined", Category::Name),
            ("FATAL ERROR: JavaScript heap out of memory", Category::Memory),
            ("MemoryError", Category::Memory),
            ("ZeroDivisionError: division by zero", Category::Exception),
            ("sh: 1: pythn: not found", Category::Exit),
            ("", Category::Exit),
        ] {
            assert_eq!(Category::of_run("exit", output), category, "{output}");
        }
        // A limit that ended the program counts more than its last words.
        assert_eq!(Category::of_run("timeout", "KeyError: 'a'"), Category::Timeout);
        assert_eq!(Category::of_install("exit"), Category::Install);
        assert_eq!(Category::of_install("timeout"), Category::Timeout);
    }

    #[test]
    fn the_missing_package_is_named() {
        let of = |output: &str| missing_module(output);
        assert_eq!(of("No module named 'sklearn.tree'").as_deref(), Some("sklearn"));
        assert_eq!(of("Cannot find module '@scope/a'").as_deref(), Some("@scope/a"));
        assert_eq!(of("Cannot find module './helper.js'"), None);
        assert_eq!(of("No module named 'a; rm -rf /'"), None);
    }

    #[test]
    fn the_error_is_one_line() {
        let output = "Traceback\nKeyError: 'a'\nbye\n[exit status 1]";
        assert_eq!(error_line(output).as_deref(), Some("KeyError: 'a'"));
        assert_eq!(error_line("oops\n[exit status 3]").as_deref(), Some("oops"));
        assert_eq!(error_line("[exit status 3]").as_deref(), Some("[exit status 3]"));
        assert_eq!(error_line(""), None);
    }

    #[test]
    fn categories_are_named_as_they_are_written() {
        for category in Category::ALL {
            assert_eq!(Category::named(category.as_str()), Some(category));
            assert_eq!(serde_json::to_value(category).unwrap(), category.as_str());
        }
    }
}
