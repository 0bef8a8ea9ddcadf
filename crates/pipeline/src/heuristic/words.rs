//! The words that fixed rules understand. A text with any other word is refused, because a
//! program that leaves out a part of the request would give a wrong answer.

use super::Task;

/// Words before the verb of a request.
pub(super) const OPENING: &[&str] = &[
    "please",
    "can",
    "could",
    "you",
    "i",
    "want",
    "need",
    "write",
    "make",
    "create",
    "me",
    "a",
    "an",
    "the",
    "small",
    "simple",
    "python",
    "javascript",
    "js",
    "node",
    "node.js",
    "script",
    "program",
    "code",
    "that",
    "which",
    "to",
    "in",
    "using",
    "for",
];

/// Words of every task.
const COMMON: &[&str] = &[
    "and",
    "calculate",
    "compute",
    "do",
    "find",
    "it",
    "its",
    "of",
    "output",
    "print",
    "result",
    "show",
    "will",
    "with",
];

impl Task {
    /// The words of this task alone.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Statistics => &[
                "mean",
                "median",
                "stdev",
                "standard",
                "deviation",
                "list",
                "array",
                "number",
                "these",
            ],
            Self::Fibonacci => &["fibonacci", "first", "number", "sequence", "list"],
            Self::Primes => &["prime", "first", "number", "list"],
            Self::Frame(_) => &["polars", "pandas", "table", "frame", "dataframe", "data", "score"],
            Self::Chunks => &["lodash", "chunk", "list", "array", "split", "into"],
        }
    }
}

/// The words of a text in lower case, without punctuation at their ends.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '[' | ']' | '(' | ')'))
        .map(|word| word.trim_end_matches(['.', '!', '?', ':']).to_lowercase())
        .filter(|word| !word.is_empty())
}

/// Returns true if `word` is `known`, or its plural, or its form after `it`.
pub(super) fn is_form_of(word: &str, known: &str) -> bool {
    word == known || word.strip_suffix('s') == Some(known)
}

/// The numbers of a text, as they are written.
pub(super) fn numbers(text: &str) -> Vec<String> {
    words(text).filter(|word| is_number(word)).collect()
}

fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let has_leading_zero = whole.len() > 1 && whole.starts_with('0');
    all_digits(whole) && all_digits(fraction) && !has_leading_zero && digits.len() <= 15
}

/// Checks that the rules understand every word of `text`, and can use all of its numbers.
pub(super) fn understand(text: &str, task: Task) -> Result<(), String> {
    let known = || OPENING.iter().chain(COMMON).chain(task.words());
    let is_known = |word: &String| is_number(word) || known().any(|it| is_form_of(word, it));
    if let Some(word) = words(text).find(|word| !is_known(word)) {
        return Err(format!(
            "Fixed rules write programs here, without a language model, and do not know the word \
             `{word}`. {}",
            super::KNOWN
        ));
    }
    let numbers = numbers(text);
    let is_count = |word: &String| word.parse().is_ok_and(|count: u32| (1..=1000).contains(&count));
    let can_use = match task {
        Task::Statistics => numbers.len() != 1,
        Task::Fibonacci | Task::Primes => numbers.len() <= 1 && numbers.iter().all(is_count),
        Task::Frame(_) | Task::Chunks => numbers.is_empty(),
    };
    if can_use {
        return Ok(());
    }
    Err(format!(
        "Fixed rules write programs here, without a language model. They take two or more numbers \
         for mean, median and stdev, and one up to 1000 to count Fibonacci numbers or primes; \
         here they found {}.",
        numbers.join(", ")
    ))
}
