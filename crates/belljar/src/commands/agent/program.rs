//! The programs that are known, as data: how each is started, what its events
//! look like, and how it takes the number of its turns.

use std::borrow::Cow;

use super::dialect::Dialect;
use crate::cli::Program;

/// In `argv` and `env`, `{task}`, `{model}`, `{turns}` and `{gateway}` stand for
/// what is known when the program starts.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) name: &'static str,
    /// Also the recipe that it is built from.
    pub(super) template: &'static str,
    /// What it speaks to models, as the gateway's configuration calls it.
    pub(super) speaks: &'static str,
    pub(super) argv: &'static [&'static str],
    /// Beside those by which every client finds the gateway.
    pub(super) env: &'static [(&'static str, &'static str)],
    pub(super) events: Dialect,
    pub(super) task: Task,
    pub(super) turns: Turns,
    /// Where it keeps what is nobody's result, below home and the temporary
    /// directory.
    pub(super) own_files: &'static [&'static str],
}

/// How the task is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Argument,
    /// As a message on standard input, which stays open for more of them.
    Message,
}

/// Who counts turns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Turns {
    /// The program, with these arguments.
    Arguments(&'static [&'static str]),
    /// The gateway: so many requests, and no more.
    Requests,
}

static CLAUDE_CODE: Description = Description {
    name: "claude-code",
    template: "claude-code",
    speaks: "anthropic-messages",
    argv: &[
        "claude",
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--model",
        "{model}",
        // The sandbox is the wall; nobody is there to be asked.
        "--dangerously-skip-permissions",
        // They need hosts that cannot be reached.
        "--disallowedTools",
        "WebFetch,WebSearch",
    ],
    // Whatever it thinks is the right model for a side task.
    env: &[
        ("ANTHROPIC_MODEL", "{model}"),
        ("ANTHROPIC_SMALL_FAST_MODEL", "{model}"),
        ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "{model}"),
        ("ANTHROPIC_DEFAULT_SONNET_MODEL", "{model}"),
        ("ANTHROPIC_DEFAULT_OPUS_MODEL", "{model}"),
    ],
    events: Dialect::Claude,
    task: Task::Message,
    turns: Turns::Arguments(&["--max-turns", "{turns}"]),
    own_files: &["/home/user/.claude", "/home/user/.cache", "/home/user/.npm", "/tmp/claude-"],
};

static CODEX: Description = Description {
    name: "codex",
    template: "codex",
    speaks: "openai-responses",
    argv: &[
        "codex",
        "exec",
        "--json",
        "--skip-git-repo-check",
        // The sandbox is the wall; its own cannot be made inside of it.
        "--dangerously-bypass-approvals-and-sandbox",
        "-m",
        "{model}",
        "-c",
        "model_provider=\"belljar\"",
        "-c",
        "model_providers.belljar={name=\"belljar\",base_url=\"{gateway}/v1\",\
         env_key=\"BELLJAR_TOKEN\",wire_api=\"responses\"}",
        // Commands need to find the proxy, and need no token.
        "-c",
        "shell_environment_policy={inherit=\"all\",exclude=[\"*TOKEN*\",\"*KEY*\"]}",
        "--",
        "{task}",
    ],
    env: &[],
    events: Dialect::Codex,
    task: Task::Argument,
    turns: Turns::Requests,
    own_files: &["/home/user/.codex", "/home/user/.cache", "/tmp/codex-"],
};

/// What stands in for the names in braces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) task: &'a str,
    pub(super) model: &'a str,
    pub(super) gateway: &'a str,
    pub(super) turns: Option<u32>,
}

pub(super) fn description(program: Program) -> &'static Description {
    match program {
        Program::ClaudeCode => &CLAUDE_CODE,
        Program::Codex => &CODEX,
    }
}

impl Description {
    pub(super) fn argv(&self, known: &Known<'_>) -> Vec<String> {
        let mut argv: Vec<String> = self.argv.iter().map(|word| known.fill(word)).collect();
        if let (Turns::Arguments(words), Some(_)) = (self.turns, known.turns) {
            argv.extend(words.iter().map(|word| known.fill(word)));
        }
        argv
    }

    pub(super) fn env(&self, known: &Known<'_>) -> impl Iterator<Item = (&'static str, String)> {
        self.env.iter().map(|(name, value)| (*name, known.fill(value)))
    }

    /// Whether a file that was left behind is the program's own.
    pub(super) fn owns(&self, path: &str) -> bool {
        self.own_files.iter().any(|start| path.starts_with(start))
    }
}

impl Known<'_> {
    fn fill(&self, word: &str) -> String {
        // Never more than one: what was put in could itself look like a name.
        let turns = self.turns.map_or(Cow::Borrowed(""), |turns| turns.to_string().into());
        let known = [
            ("{task}", self.task),
            ("{model}", self.model),
            ("{gateway}", self.gateway),
            ("{turns}", &*turns),
        ];
        match known.iter().find(|(name, _)| word.contains(name)) {
            Some((name, value)) => word.replace(name, value),
            None => word.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known<'static> = Known {
        task: "--help {model}",
        model: "m",
        gateway: "http://127.0.0.1:3128",
        turns: Some(7),
    };

    #[test]
    fn a_task_stays_what_it_is() {
        let argv = CODEX.argv(&KNOWN);
        assert_eq!(argv[argv.len() - 2..], ["--", "--help {model}"]);
        assert!(argv.iter().any(|word| word.contains("base_url=\"http://127.0.0.1:3128/v1\"")));
        assert!(!CLAUDE_CODE.argv(&KNOWN).iter().any(|word| word.contains("--help")));
    }

    #[test]
    fn turns_are_told_to_who_counts_them() {
        let argv = CLAUDE_CODE.argv(&KNOWN);
        assert_eq!(argv[argv.len() - 2..], ["--max-turns", "7"]);
        let endless = Known { turns: None, ..KNOWN };
        assert!(!CLAUDE_CODE.argv(&endless).contains(&"--max-turns".to_owned()));
    }

    #[test]
    fn every_program_has_a_recipe() {
        for program in [&CLAUDE_CODE, &CODEX] {
            assert!(belljar_template::catalog::text(program.template).is_some());
        }
    }
}
