//! `belljar completions`: completion scripts for shells.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::cli::{Cli, CompletionShell, Completions};
use crate::output::Printer;

pub(crate) fn run(options: &Completions, printer: &Printer) -> anyhow::Result<u8> {
    let shell = match options.shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "belljar", &mut script);
    printer.data(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}
