//! Help: complete, short, and in the right groups.

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;

/// Calls `check` with every command and the words that lead to it.
fn each(command: &Command, path: &str, check: &mut impl FnMut(&Command, &str)) {
    check(command, path);
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        each(inner, &format!("{path} {}", inner.get_name()), check);
    }
}

fn built() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

fn found<'a>(root: &'a Command, path: &str) -> &'a Command {
    path.split(' ').fold(root, |at, word| {
        at.find_subcommand(word).unwrap_or_else(|| panic!("no command `{path}`"))
    })
}

#[test]
fn every_command_and_argument_has_a_description() {
    let mut lacking = Vec::new();
    each(&built(), "belljar", &mut |command, path| {
        if command.get_about().is_none_or(|about| about.to_string().trim().is_empty()) {
            lacking.push(path.to_owned());
        }
        let visible = command.get_arguments().filter(|argument| !argument.is_hide_set());
        for argument in visible {
            let text = argument.get_help().map(ToString::to_string).unwrap_or_default();
            if text.trim().is_empty() {
                lacking.push(format!("{path} <{}>", argument.get_id()));
            }
        }
    });
    assert!(lacking.is_empty(), "without a description: {lacking:#?}");
}

#[test]
fn flags_are_in_the_groups_where_a_reader_looks() {
    let root = built();
    for (path, flag, heading) in [
        ("run", "memory", Some("Limits")),
        ("run", "in", Some("Files")),
        ("run", "network", Some("Network")),
        ("run", "json", Some("Output")),
        ("cells", "memory", Some("Limits")),
        ("cells", "save-charts", Some("Output")),
        ("serve", "listen", None),
        ("serve", "pool", Some("Server")),
        ("serve", "config", Some("Server")),
        ("serve", "grace", Some("Server")),
        ("serve", "data", Some("Server")),
        ("serve", "runs", Some("Runs")),
        ("serve", "tier", Some("Tiers")),
        ("serve", "max-memory", Some("Limits")),
        ("serve", "max-network", Some("Network")),
        ("serve", "objects", Some("Objects")),
        ("serve", "metrics", Some("Observability")),
        ("node", "pool", Some("Server")),
        ("node", "config", Some("Server")),
        ("node", "data", Some("Server")),
        ("admin tenant list", "store", Some("Global options")),
        ("run", "state", Some("Global options")),
    ] {
        let mut flags = found(&root, path).get_arguments();
        let flag = flags.find(|argument| argument.get_long() == Some(flag));
        let flag = flag.unwrap_or_else(|| panic!("{path} {heading:?}"));
        assert_eq!(flag.get_help_heading(), heading, "{path} --{}", flag.get_id());
    }
}

#[test]
fn a_group_stands_for_more_than_the_last_flattened_options() {
    let mut wrong = Vec::new();
    each(&built(), "belljar", &mut |command, path| {
        // What every command has must not come under the heading of some of its own.
        for name in ["help", "version", "store", "state"] {
            let argument = command.get_arguments().find(|argument| argument.get_id() == name);
            let heading = argument.and_then(Arg::get_help_heading);
            if heading.is_some_and(|heading| heading != "Global options") {
                wrong.push(format!("{path} --{name} is under {heading:?}"));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_first_page_stays_short() {
    let text = built().render_help().to_string();
    assert!(text.lines().count() <= 60, "{} lines:\n{text}", text.lines().count());
    assert!(text.contains("completions") && text.contains("\n  help"), "{text}");
}
