//! "Did you mean": suggestions for misspelt commands, flags and templates.
//!
//! The parser's own suggestions compare how many letters two words share, so that `list` becomes
//! `tls`. Here, a word is suggested if one or two typing errors make it of what was typed.

use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// What newcomers type, and what does it here.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["ps", "list", "ls"],
        "`belljar runs list` lists runs; `belljar admin sandbox list` lists the sandboxes of a platform",
    ),
    (
        &["kill", "stop", "rm"],
        "a sandbox of `belljar run` ends with it (Ctrl-C); DELETE /v1/sandboxes/{id} ends one of a server",
    ),
    (
        &["logs", "log"],
        "`belljar runs show RUN` shows what a run did; a server logs to standard error",
    ),
    (&["version"], "`belljar --version` prints the version"),
    (
        &["images", "pull", "build"],
        "`belljar template list` lists templates, `belljar template build` builds one",
    ),
    (
        &["python", "node", "bash", "sh", "repl"],
        "`belljar exec -- COMMAND` runs any command, `belljar shell` opens a terminal",
    ),
    (&["notebook", "jupyter"], "`belljar cells FILE.ipynb` runs a notebook"),
    (&["start", "up", "daemon", "server"], "`belljar serve` starts a server"),
    (
        &["login", "auth", "config", "init"],
        "`belljar env` prints the variables for E2B's SDKs, `belljar tls init` makes certificates",
    ),
];

/// The names of `known` that are a typing error away from `typed`, the nearest first.
pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    let most = match typed.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let errors = strsim::osa_distance(&typed, &lower);
            // A beginning of three letters or more is an abbreviation.
            let is_start = typed.chars().count() >= 3 && lower.starts_with(&typed);
            match errors {
                _ if errors <= most => Some((errors, name)),
                _ if is_start => Some((most + 1, name)),
                _ => None,
            }
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|(_, name)| name).take(3).collect()
}

/// As text: "did you mean `a` or `b`?".
pub(crate) fn did_you_mean(names: &[&str]) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let text = match quoted.as_slice() {
        [] => return None,
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    };
    Some(format!("did you mean {text}?"))
}

/// Replaces the parser's suggestions. `arguments` is the whole command line.
pub(crate) fn improve(mut error: Error, root: &Command, arguments: &[OsString]) -> Error {
    let root = &{
        let mut root = root.clone();
        root.build();
        root
    };
    let at = command_of(root, arguments);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = text(error.get(ContextKind::InvalidSubcommand));
            let near = nearest(&typed, names(at));
            error.remove(ContextKind::SuggestedSubcommand);
            let elsewhere = ELSEWHERE.iter().find(|(words, _)| words.contains(&typed.as_str()));
            if !near.is_empty() {
                let near = near.into_iter().map(str::to_owned).collect();
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
            } else if let Some((_, hint)) = elsewhere {
                let styled = vec![(*hint).to_owned().into()];
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(styled));
            }
        }
        ErrorKind::UnknownArgument => {
            let typed = text(error.get(ContextKind::InvalidArg));
            let Some(flag) = typed.strip_prefix("--") else { return error };
            let flag = flag.split('=').next().unwrap_or(flag);
            let near = nearest(flag, flags(at));
            // Other suggestions are about where a known flag belongs.
            error.remove(ContextKind::SuggestedArg);
            if let Some(first) = near.first() {
                let first = format!("--{first}");
                error.insert(ContextKind::SuggestedArg, ContextValue::String(first));
            }
        }
        _ => {}
    }
    error
}

/// The command that the arguments name, as far as they are known.
fn command_of<'a>(root: &'a Command, arguments: &[OsString]) -> &'a Command {
    let words = arguments.iter().skip(1).map(OsString::as_os_str);
    words.take_while(|word| *word != OsStr::new("--")).fold(root, |at, word| {
        // A value of a flag may be called as a command is; below it, none has its name.
        at.find_subcommand(word).unwrap_or(at)
    })
}

fn names(command: &Command) -> impl Iterator<Item = &str> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(Command::get_name)
}

fn flags(command: &Command) -> impl Iterator<Item = &str> {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown.filter_map(clap::Arg::get_long)
}

fn text(value: Option<&ContextValue>) -> String {
    match value {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_found_and_chance_likenesses_are_not() {
        let commands = ["run", "runs", "exec", "shell", "cells", "serve", "tls", "template"];
        for (typed, want) in [
            ("rnu", vec!["run"]),
            ("runn", vec!["run", "runs"]),
            ("sevre", vec!["serve"]),
            ("temlpate", vec!["template"]),
            ("temp", vec!["template"]),
            ("list", vec![]),
            ("logs", vec![]),
            ("help", vec![]),
            ("ps", vec![]),
        ] {
            assert_eq!(nearest(typed, commands), want, "{typed}");
        }
        assert_eq!(nearest("Python-Dta", ["python-data", "node"]), ["python-data"]);
    }

    #[test]
    fn several_are_offered_in_one_sentence() {
        assert_eq!(did_you_mean(&[]), None);
        assert_eq!(did_you_mean(&["a"]).unwrap(), "did you mean `a`?");
        assert_eq!(did_you_mean(&["a", "b", "c"]).unwrap(), "did you mean `a`, `b` or `c`?");
    }
}
