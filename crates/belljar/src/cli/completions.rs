//! The command line of `belljar completions`.

use clap::{Args, ValueEnum};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Shell that the script is for
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: CompletionShell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

const EXAMPLES: &str = "\
Examples:
  belljar completions bash > ~/.local/share/bash-completion/completions/belljar
  belljar completions zsh > ~/.zfunc/_belljar        with fpath+=~/.zfunc before compinit
  belljar completions fish > ~/.config/fish/completions/belljar.fish";
