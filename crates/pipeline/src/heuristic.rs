//! Fixed rules that play each agent. They need no model and know few tasks.

mod coder;
mod debugger;
mod planner;

pub use coder::code;
pub use debugger::{Failure, diagnose};
pub use planner::{PlanRequest, plan};

/// A task that the rules know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Statistics,
    Fibonacci,
    Primes,
    /// A table of a data frame library.
    Frame(&'static str),
    /// Pieces of a list, by lodash.
    Chunks,
}

/// Words that name a task. Earlier ones of this list count more.
const TASKS: &[(&str, Task)] = &[
    ("polars", Task::Frame("polars")),
    ("pandas", Task::Frame("pandas")),
    ("lodash", Task::Chunks),
    ("mean", Task::Statistics),
    ("median", Task::Statistics),
    ("stdev", Task::Statistics),
    ("fibonacci", Task::Fibonacci),
    ("prime", Task::Primes),
];

impl Task {
    fn describe(self) -> &'static str {
        match self {
            Self::Statistics => "print mean, median and stdev of a list",
            Self::Fibonacci => "print the first Fibonacci numbers",
            Self::Primes => "print the first primes",
            Self::Frame("pandas") => "print a table with pandas",
            Self::Frame(_) => "print a table with polars",
            Self::Chunks => "split a list into chunks with lodash",
        }
    }

    /// Finds the task in the words of a request or of a plan.
    fn find(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let named = TASKS.iter().find(|(word, _)| text.contains(word));
        named.map(|(_, task)| *task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::category::Category;
    use crate::check::{read_code, read_plan};
    use crate::message::{CodeArtifact, ExecutionResult, Language, Output, Preparation};

    fn planned(question: &str) -> crate::Plan {
        plan(&PlanRequest { question: question.to_owned(), hints: Vec::new() }).unwrap()
    }

    pub(super) fn failed(output: &str, category: Category) -> ExecutionResult {
        ExecutionResult {
            success: false,
            exit_code: Some(1),
            category: Some(category),
            error: crate::error_line(output),
            output: output.to_owned(),
            sandbox: Preparation::Template,
            no_checkpoint: None,
            fingerprint: String::new(),
        }
    }

    #[test]
    fn the_statistics_example() {
        let question =
            "Write a Python script that computes the mean and median of a list of numbers";
        let plan = planned(question);
        assert_eq!(plan.language, Language::Python);
        assert!(plan.dependencies.is_empty());
        assert_eq!(plan.task, "compute mean and median of a list of numbers");
        assert_eq!(plan.output, Output::Text);
        read_plan(&serde_json::to_value(&plan).unwrap(), question).unwrap();
        let artifact = code(&plan).unwrap();
        assert_eq!(artifact.filename, "main.py");
        assert_eq!(artifact.install_command, None);
        assert_eq!(artifact.run_command, "python main.py");
        assert!(artifact.code.contains("statistics.median(numbers)"));
        read_code(&serde_json::to_value(&artifact).unwrap()).unwrap();
    }

    #[test]
    fn the_polars_example_heals_itself() {
        let plan = planned("Write a Python script that prints scores with polars");
        assert_eq!(plan.dependencies, ["polars"]);
        let artifact = code(&plan).unwrap();
        assert!(artifact.code.starts_with("import polars as pl\n"));
        assert_eq!(artifact.install_command, None);
        let result =
            failed("ModuleNotFoundError: No module named 'polars'", Category::MissingModule);
        let failure = Failure { plan: &plan, artifact: &artifact, result: &result };
        let diagnosis = diagnose(&failure).unwrap();
        assert_eq!(diagnosis.artifact.install_command.as_deref(), Some("pip install polars"));
        assert_eq!(
            diagnosis.artifact,
            CodeArtifact {
                install_command: diagnosis.artifact.install_command.clone(),
                ..artifact.clone()
            }
        );
        // A module that is missing after its installation is another matter.
        let failure = Failure { artifact: &diagnosis.artifact, ..failure };
        assert!(diagnose(&failure).is_err());
    }

    #[test]
    fn javascript_is_planned_written_and_healed() {
        let plan = planned("Write a JavaScript program that computes the median of numbers");
        assert_eq!(plan.language, Language::Javascript);
        let artifact = code(&plan).unwrap();
        assert_eq!(
            (artifact.filename.as_str(), artifact.run_command.as_str()),
            ("main.js", "node main.js")
        );
        let plan = planned("a node script that splits a list into chunks with lodash");
        let artifact = code(&plan).unwrap();
        let result = failed("Error: Cannot find module 'lodash'", Category::MissingModule);
        let failure = Failure { plan: &plan, artifact: &artifact, result: &result };
        let healed = diagnose(&failure).unwrap().artifact;
        assert_eq!(healed.install_command.as_deref(), Some("npm install lodash"));
    }

    #[test]
    fn a_request_without_an_opening_is_put_into_other_words() {
        let question = "compute mean and median of numbers";
        let plan = planned(question);
        read_plan(&serde_json::to_value(&plan).unwrap(), question).unwrap();
        assert!(code(&plan).is_ok());
    }

    #[test]
    fn the_rules_say_what_they_do_not_know() {
        let request = PlanRequest { question: "Paint a house".to_owned(), hints: Vec::new() };
        assert!(plan(&request).unwrap_err().contains("median"));
        // A hint of a human is read like the request.
        let hints = vec!["the first primes will do".to_owned()];
        assert!(plan(&PlanRequest { hints, ..request }).is_ok());
    }
}
