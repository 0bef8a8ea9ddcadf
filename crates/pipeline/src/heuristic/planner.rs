//! Plans by keywords.

use serde::{Deserialize, Serialize};

use super::words::{OPENING, numbers, understand, words};
use super::{KNOWN, Task};
use crate::check::plain_words;
use crate::message::{Language, Output, Plan};

/// The Planner's input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRequest {
    pub question: String,
    /// Answers of a human to earlier questions, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The names of the data files that the program can read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Reads the language, the libraries and the task off the words of a request.
pub fn plan(request: &PlanRequest) -> Result<Plan, String> {
    if let Some(file) = request.files.first() {
        return Err(format!(
            "Fixed rules write programs here, without a language model, and none of theirs reads \
             `{file}`. Ask without `--agent pipeline`: the rules of the default agent answer \
             questions about data."
        ));
    }
    // The last words of a human count most.
    let mut texts = request.hints.iter().rev().chain([&request.question]);
    let known = texts.find_map(|text| Some((text, Task::find(text)?)));
    let Some((text, task)) = known else {
        return Err(format!("Fixed rules plan here, without a language model. {KNOWN}"));
    };
    understand(text, task)?;
    let dependencies = match task {
        Task::Frame(library) => vec![library.to_owned()],
        Task::Chunks => vec!["lodash".to_owned()],
        Task::Statistics | Task::Fibonacci | Task::Primes => Vec::new(),
    };
    let language = match task {
        Task::Chunks => Language::Javascript,
        Task::Frame(_) => Language::Python,
        _ => language(&request.question),
    };
    let task = described(text, task);
    let (steps, inputs) = (Vec::new(), Vec::new());
    Ok(Plan { language, dependencies, task, steps, inputs, output: Output::Text })
}

fn language(text: &str) -> Language {
    let is_named =
        |word: String| ["javascript", "js", "node", "node.js", "nodejs"].contains(&word.as_str());
    if words(text).any(is_named) { Language::Javascript } else { Language::Python }
}

/// The task in words that are never the request's own.
fn described(text: &str, task: Task) -> String {
    let described = summary(text);
    if plain_words(&described).contains(&plain_words(text)) {
        let (task, numbers) = (task.describe(), numbers(text));
        return match numbers.is_empty() {
            true => task.to_owned(),
            false => format!("{task}: {}", numbers.join(", ")),
        };
    }
    described
}

/// The request as an imperative: `computes the mean` becomes `compute mean`.
fn summary(text: &str) -> String {
    let words = text.split_whitespace().map(|word| word.trim_end_matches(['.', '!', '?', ',']));
    let is_opening = |word: &&str| OPENING.contains(&word.to_lowercase().as_str());
    let mut words: Vec<String> = words
        .skip_while(is_opening)
        .filter(|word| !["the", "The"].contains(word))
        .map(str::to_owned)
        .collect();
    if let Some(verb) = words.first_mut() {
        let is_plural = verb.ends_with('s') && !verb.ends_with("ss");
        *verb = verb.to_lowercase();
        if is_plural {
            verb.pop();
        }
    }
    words.join(" ")
}
