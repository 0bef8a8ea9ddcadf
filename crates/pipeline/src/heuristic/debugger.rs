//! Repairs programs by the pattern of their error.

use crate::category::{Category, missing_module, quoted};
use crate::message::{CodeArtifact, Diagnosis, ExecutionResult, Plan, Preparation};

/// Memory of a sandbox of which nothing is known, for doubling.
const USUAL_MEMORY_BYTES: u64 = 512 << 20;
const MAX_MEMORY_BYTES: u64 = 4 << 30;
/// The factor by which a time limit grows.
const MORE_TIME: u64 = 4;
/// Letters in which a mistyped column may differ.
const MAX_TYPOS: usize = 2;

/// Packages whose modules have another name.
const PACKAGES: &[(&str, &str)] = &[
    ("PIL", "pillow"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python"),
    ("dateutil", "python-dateutil"),
    ("sklearn", "scikit-learn"),
    ("yaml", "pyyaml"),
];

/// The Debugger's input.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'f> {
    pub plan: &'f Plan,
    pub artifact: &'f CodeArtifact,
    pub result: &'f ExecutionResult,
    /// Memory of the sandbox that the program ran in, if it is known.
    pub memory_bytes: Option<u64>,
}

/// Finds the cause of a failure and a program without it.
pub fn diagnose(failure: &Failure<'_>) -> Result<Diagnosis, String> {
    let category = failure.result.category.unwrap_or(Category::Exit);
    let repaired = match category {
        Category::MissingModule => failure.install(),
        Category::Syntax => failure.correct_syntax(),
        Category::MissingKey => failure.correct_key(),
        Category::Timeout => failure.more_time(),
        Category::Memory => failure.more_memory(),
        _ => None,
    };
    let (cause, artifact) = repaired.ok_or_else(|| {
        let error = failure.result.error.as_deref().unwrap_or("no message");
        format!("Fixed rules debug here, and they know no remedy for `{error}`.")
    })?;
    Ok(Diagnosis { category, cause, artifact })
}

type Repair = Option<(String, CodeArtifact)>;

impl Failure<'_> {
    fn install(&self) -> Repair {
        let module = missing_module(&self.result.output)?;
        let is_python = self.artifact.filename.ends_with(".py");
        let known = PACKAGES.iter().find(|(name, _)| is_python && *name == module);
        let package = known.map_or(module.as_str(), |(_, package)| package);
        let before = self.artifact.install_command.as_deref();
        if before.is_some_and(|command| command.split_whitespace().any(|word| word == package)) {
            return None;
        }
        let install = if is_python { "pip install" } else { "npm install" };
        let command = match before {
            Some(before) => format!("{before} && {install} {package}"),
            None => format!("{install} {package}"),
        };
        let cause = format!("The module `{module}` is not installed.");
        Some((cause, CodeArtifact { install_command: Some(command), ..self.artifact.clone() }))
    }

    fn correct_syntax(&self) -> Repair {
        let output = &self.result.output;
        let number = line_number(output, &self.artifact.filename)?;
        let line = self.artifact.code.lines().nth(number.checked_sub(1)?)?;
        let (cause, corrected) = if output.contains("expected ':'") {
            ("A colon is missing", format!("{}:", line.trim_end()))
        } else if output.contains("'(' was never closed") {
            ("A parenthesis is not closed", format!("{})", line.trim_end()))
        } else if output.contains("'[' was never closed") {
            ("A bracket is not closed", format!("{}]", line.trim_end()))
        } else if output.contains("Missing parentheses in call to 'print'") {
            let (indent, text) = line.split_once("print ")?;
            ("`print` is called without parentheses", format!("{indent}print({})", text.trim()))
        } else if output.contains("unexpected indent") {
            ("A line is indented without a reason", line.trim_start().to_owned())
        } else {
            return None;
        };
        Some((format!("{cause} in line {number}."), self.with_line(number, &corrected)))
    }

    fn with_line(&self, number: usize, corrected: &str) -> CodeArtifact {
        let lines = self.artifact.code.lines().enumerate();
        let lines = lines.map(|(at, line)| if at + 1 == number { corrected } else { line });
        let code = lines.collect::<Vec<_>>().join("\n") + "\n";
        CodeArtifact { code, ..self.artifact.clone() }
    }

    /// Replaces a column that is not there by the most similar name in the output or the code.
    fn correct_key(&self) -> Repair {
        let error = self.result.error.as_deref()?;
        let at = error.find(['\'', '"'])?;
        let wrong = quoted(&error[at..])?;
        let listed = literals(&self.result.output);
        let names = listed.into_iter().chain(literals(&self.artifact.code));
        let names = names.filter(|name| *name != wrong && !name.is_empty());
        let similar = names.map(|name| (distance(&wrong, &name), name));
        let (typos, right) = similar.min()?;
        if typos > MAX_TYPOS {
            return None;
        }
        let code = ['\'', '"'].iter().fold(self.artifact.code.clone(), |code, quote| {
            code.replace(&format!("[{quote}{wrong}{quote}]"), &format!("[{quote}{right}{quote}]"))
                .replace(&format!("({quote}{wrong}{quote})"), &format!("({quote}{right}{quote})"))
        });
        let cause = format!("There is no `{wrong}`; `{right}` is the most similar name.");
        (code != self.artifact.code)
            .then(|| (cause, CodeArtifact { code, ..self.artifact.clone() }))
    }

    fn more_time(&self) -> Repair {
        let is_install = self.is_of_the_installation();
        let before =
            if is_install { self.artifact.install_limit() } else { self.artifact.run_limit() };
        let seconds = before.saturating_mul(MORE_TIME).min(CodeArtifact::MAX_SECONDS);
        let cause = format!("{before} seconds are not enough; it gets {seconds}.");
        let mut artifact = self.artifact.clone();
        let limit =
            if is_install { &mut artifact.install_seconds } else { &mut artifact.run_seconds };
        *limit = Some(seconds);
        (seconds > before).then_some((cause, artifact))
    }

    /// Returns true if the program was not run: a checkpoint, or the reason that there is none,
    /// follows each installation that is done.
    fn is_of_the_installation(&self) -> bool {
        self.result.sandbox == Preparation::Installed && self.result.no_checkpoint.is_none()
    }

    fn more_memory(&self) -> Repair {
        let known = self.artifact.memory_bytes.or(self.memory_bytes);
        let before = known.unwrap_or(USUAL_MEMORY_BYTES);
        let bytes = before.saturating_mul(2);
        let cause = format!("The memory is not enough; it gets {} MiB.", bytes >> 20);
        let artifact = CodeArtifact { memory_bytes: Some(bytes), ..self.artifact.clone() };
        (bytes <= MAX_MEMORY_BYTES).then_some((cause, artifact))
    }
}

/// The last line of the file that the output names.
fn line_number(output: &str, filename: &str) -> Option<usize> {
    output.lines().rev().find_map(|line| {
        let (_, after) = line.split_once(filename)?;
        let (_, number) = after.split_once("line ")?;
        let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

/// Short texts in quotes.
fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(['\'', '"']) {
        found.extend(quoted(&text[at..]).filter(|literal| literal.len() <= 40));
    }
    found
}

/// Letters to insert, remove or replace; none between names that differ in case alone.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (index, candidate) in other.iter().enumerate() {
            let replaced = before + usize::from(letter != *candidate);
            before = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heuristic::tests::failed;
    use crate::message::{Language, Output};

    fn plan() -> Plan {
        Plan {
            language: Language::Python,
            dependencies: Vec::new(),
            task: "compute".to_owned(),
            steps: Vec::new(),
            inputs: Vec::new(),
            output: Output::Text,
        }
    }

    fn artifact(code: &str) -> CodeArtifact {
        CodeArtifact {
            filename: "main.py".to_owned(),
            code: code.to_owned(),
            install_command: None,
            run_command: "python main.py".to_owned(),
            install_seconds: None,
            run_seconds: None,
            memory_bytes: None,
        }
    }

    fn failure<'f>(
        plan: &'f Plan,
        artifact: &'f CodeArtifact,
        result: &'f ExecutionResult,
    ) -> Failure<'f> {
        Failure { plan, artifact, result, memory_bytes: None }
    }

    #[track_caller]
    fn healed(code: &str, output: &str) -> CodeArtifact {
        let (plan, artifact) = (plan(), artifact(code));
        let result = failed(output, Category::of_run("exit", output));
        let failure = failure(&plan, &artifact, &result);
        let diagnosis = diagnose(&failure).unwrap();
        assert_ne!(crate::fingerprint(&diagnosis.artifact), crate::fingerprint(&artifact));
        diagnosis.artifact
    }

    #[test]
    fn syntax_errors_are_corrected_in_their_line() {
        let said =
            |error: &str| format!("  File \"/home/user/main.py\", line 2\nSyntaxError: {error}");
        let code = healed("a = 1\nif a\n    print(a)\n", &said("expected ':'")).code;
        assert_eq!(code, "a = 1\nif a:\n    print(a)\n");
        let code = healed("a = 1\nprint(a\n", &said("'(' was never closed")).code;
        assert_eq!(code, "a = 1\nprint(a)\n");
        let error = "Missing parentheses in call to 'print'. Did you mean print(...)?";
        assert_eq!(healed("a = 1\nprint a\n", &said(error)).code, "a = 1\nprint(a)\n");
    }

    #[test]
    fn a_mistyped_column_is_replaced_by_the_one_that_there_is() {
        let code = "df = pd.DataFrame({'revenue': [1]})\nprint(df['Revenu'].sum())\n";
        let healed = healed(code, "KeyError: 'Revenu'").code;
        assert!(healed.contains("df['revenue'].sum()"), "{healed}");
        let (plan, artifact) = (plan(), artifact("print(df['colour'])"));
        let result = failed("KeyError: 'colour'", Category::MissingKey);
        assert!(diagnose(&failure(&plan, &artifact, &result)).is_err());
    }

    #[test]
    fn limits_grow_and_end() {
        let (plan, mut artifact) = (plan(), artifact("slow()"));
        for (category, steps) in [(Category::Timeout, 2), (Category::Memory, 3)] {
            let result = failed("", category);
            for _ in 0..steps {
                artifact = diagnose(&failure(&plan, &artifact, &result)).unwrap().artifact;
            }
            assert!(diagnose(&failure(&plan, &artifact, &result)).is_err(), "{category:?}");
        }
    }

    /// More than the sandbox had, not more than some usual one has.
    #[test]
    fn memory_grows_from_that_of_the_sandbox() {
        let (plan, artifact) = (plan(), artifact("large()"));
        let result = failed("", Category::Memory);
        let of = |memory_bytes| Failure { memory_bytes, ..failure(&plan, &artifact, &result) };
        let grown = |failure: &Failure<'_>| diagnose(failure).unwrap().artifact.memory_bytes;
        assert_eq!(grown(&of(Some(2 << 30))), Some(4 << 30));
        assert_eq!(grown(&of(Some(128 << 20))), Some(256 << 20));
        assert_eq!(grown(&of(None)), Some(1 << 30));
        assert!(diagnose(&of(Some(4 << 30))).is_err());
        // The program's own wish counts more.
        let wished = CodeArtifact { memory_bytes: Some(1 << 30), ..artifact.clone() };
        let failure = Failure { artifact: &wished, ..of(Some(128 << 20)) };
        assert_eq!(grown(&failure), Some(2 << 30));
    }

    #[test]
    fn a_slow_installation_gets_more_time_and_its_program_does_not() {
        let plan = plan();
        let artifact =
            CodeArtifact { install_command: Some("pip install a".into()), ..artifact("a()") };
        let slow =
            ExecutionResult { sandbox: Preparation::Installed, ..failed("", Category::Timeout) };
        let healed = diagnose(&failure(&plan, &artifact, &slow)).unwrap().artifact;
        assert_eq!((healed.install_seconds, healed.run_seconds), (Some(600), None));
        // The installation was done there: the program is slow.
        let slow = ExecutionResult { no_checkpoint: Some("not here".into()), ..slow };
        let healed = diagnose(&failure(&plan, &artifact, &slow)).unwrap().artifact;
        assert_eq!((healed.install_seconds, healed.run_seconds), (None, Some(240)));
    }

    #[test]
    fn names_of_modules_and_packages_differ() {
        let healed = healed("import yaml", "ModuleNotFoundError: No module named 'yaml'");
        assert_eq!(healed.install_command.as_deref(), Some("pip install pyyaml"));
        assert_eq!(distance("scor", "Score"), 1);
        assert_eq!(distance("", "ab"), 2);
    }
}
