//! Fixed rules that play each agent. They need no model and know few tasks.

mod coder;
mod debugger;
mod planner;
mod words;

pub use coder::code;
pub use debugger::{Failure, diagnose};
pub use planner::{PlanRequest, plan};

/// The tasks that the rules know, for texts that name none of them.
const KNOWN: &str = "They know mean, median and stdev, Fibonacci numbers, primes, a table with \
                     polars or pandas, and chunks with lodash.";

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
        let is_in = |known: &str| words::words(text).any(|word| words::is_form_of(&word, known));
        let named = TASKS.iter().find(|(word, _)| is_in(word));
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
        plan(&PlanRequest { question: question.to_owned(), ..PlanRequest::default() }).unwrap()
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
        let failure =
            Failure { plan: &plan, artifact: &artifact, result: &result, memory_bytes: None };
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
        let failure =
            Failure { plan: &plan, artifact: &artifact, result: &result, memory_bytes: None };
        let healed = diagnose(&failure).unwrap().artifact;
        assert_eq!(healed.install_command.as_deref(), Some("npm install lodash"));
    }

    #[test]
    fn a_request_without_an_opening_is_put_into_other_words() {
        for question in [
            "compute mean and median of numbers",
            "Compute mean, median of numbers.",
            "mean and median of 3, 5.5 and -9",
        ] {
            let plan = planned(question);
            read_plan(&serde_json::to_value(&plan).unwrap(), question).unwrap();
            let artifact = code(&plan).unwrap();
            let has_numbers = artifact.code.contains("[3, 5.5, -9]");
            assert_eq!(has_numbers, question.contains("5.5"), "{}", artifact.code);
        }
    }

    #[test]
    fn the_rules_say_what_they_do_not_know() {
        let request =
            PlanRequest { question: "Paint a house".to_owned(), ..PlanRequest::default() };
        assert!(plan(&request).unwrap_err().contains("median"));
        // A hint of a human is read like the request.
        let hints = vec!["the first primes will do".to_owned()];
        assert!(plan(&PlanRequest { hints, ..request }).is_ok());
    }

    #[test]
    fn numbers_of_the_request_are_in_the_program() {
        for (question, part) in [
            ("mean and median of 3, 5.5 and -9", "numbers = [3, 5.5, -9]"),
            ("A Node script for the mean of [3, 5]", "const numbers = [3, 5];"),
            ("Print the first 7 Fibonacci numbers", "range(7)"),
            ("Print the first 7 Fibonacci numbers in JavaScript", "i < 7;"),
            ("the first 30 primes", "len(primes) < 30"),
            ("the first 30 primes in JavaScript", "primes.length < 30"),
        ] {
            let artifact = code(&planned(question)).unwrap();
            assert!(artifact.code.contains(part), "{question}: {}", artifact.code);
        }
    }

    #[test]
    fn a_request_that_is_not_understood_is_refused() {
        for (question, why) in [
            ("mean and median of value", "`value`"),
            ("average revenue by region with pandas", "`average`"),
            ("Print Fibonacci numbers below 100", "`below`"),
            ("the 12th prime", "`12th`"),
            ("mean of 50 numbers", "found 50"),
            ("the first 0 primes", "found 0"),
            ("Who is the prime minister?", "`who`"),
            ("the meaning of life", "They know mean"),
        ] {
            let request = PlanRequest { question: question.to_owned(), ..PlanRequest::default() };
            let error = plan(&request).unwrap_err();
            assert!(error.contains(why), "{question}: {error}");
        }
    }

    #[test]
    fn data_is_left_to_the_default_agent() {
        let question = "Write a script that computes the mean of a list of numbers".to_owned();
        let files = vec!["deals.csv".to_owned()];
        let error = plan(&PlanRequest { question, files, hints: Vec::new() }).unwrap_err();
        assert!(error.contains("`deals.csv`") && error.contains("without `--agent"), "{error}");
    }

    #[test]
    fn a_plan_of_another_planner_is_coded_only_if_it_is_understood() {
        let known = planned("mean and median of a list of numbers");
        for plan in [
            crate::Plan { task: "mean of the revenue column".into(), ..known.clone() },
            crate::Plan { inputs: vec!["deals.csv".into()], ..known.clone() },
        ] {
            assert!(code(&plan).is_err(), "{plan:?}");
        }
        assert!(code(&known).is_ok());
    }
}
