//! The programs that are known, as data: how each is started, what its events
//! look like, and how it takes the number of its turns.

use std::borrow::Cow;

use belljar_pipeline::AgentKind;

use super::dialect::ProgramDialect;

/// The gateway, as programs of a sandbox reach it.
pub const GATEWAY: &str = "http://127.0.0.1:3128";

/// In `argv` and `env`, `{task}`, `{model}`, `{turns}` and `{gateway}` stand for
/// what is known when the program starts.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    /// Also the recipe that it is built from.
    pub template: &'static str,
    /// What it speaks to models, as the gateway's configuration calls it.
    pub speaks: &'static str,
    pub argv: &'static [&'static str],
    /// Beside those by which every client finds the gateway.
    pub env: &'static [(&'static str, &'static str)],
    pub events: ProgramDialect,
    pub task: Task,
    pub turns: Turns,
    /// Arguments that resume a session, `{session}`. They come before `--`.
    pub resume: &'static [&'static str],
    /// Where it keeps what is nobody's result, below home and the temporary
    /// directory.
    pub own_files: &'static [&'static str],
}

/// How the task is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Argument,
    /// As a message on standard input, which stays open for more of them.
    Message,
}

/// Who counts turns.
#[derive(Debug, Clone, Copy)]
pub enum Turns {
    /// The program, with these arguments.
    Arguments(&'static [&'static str]),
    /// The gateway: so many requests, and no more.
    Requests,
}

static CLAUDE_CODE: Program = Program {
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
    events: ProgramDialect::Claude,
    task: Task::Message,
    turns: Turns::Arguments(&["--max-turns", "{turns}"]),
    resume: &["--resume", "{session}"],
    own_files: &["/home/user/.claude", "/home/user/.cache", "/home/user/.npm", "/tmp/claude-"],
};

static CODEX: Program = Program {
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
    events: ProgramDialect::Codex,
    task: Task::Argument,
    turns: Turns::Requests,
    resume: &["resume", "{session}"],
    own_files: &["/home/user/.codex", "/home/user/.cache", "/tmp/codex-"],
};

/// What stands in for the names in braces.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub task: &'a str,
    pub model: &'a str,
    pub gateway: &'a str,
    pub turns: Option<u32>,
    /// The session to resume; none: a new one.
    pub session: Option<&'a str>,
}

/// The program of an agent; none: the agent is no published program.
pub fn program(agent: AgentKind) -> Option<&'static Program> {
    match agent {
        AgentKind::ClaudeCode => Some(&CLAUDE_CODE),
        AgentKind::Codex => Some(&CODEX),
        AgentKind::React | AgentKind::Pipeline | AgentKind::Executor => None,
    }
}

impl Program {
    pub fn argv(&self, known: &Known<'_>) -> Vec<String> {
        let mut words = self.argv.to_vec();
        if known.session.is_some() {
            let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
            drop(words.splice(at..at, self.resume.iter().copied()));
        }
        let mut argv: Vec<String> = words.into_iter().map(|word| known.fill(word)).collect();
        if let (Turns::Arguments(words), Some(_)) = (self.turns, known.turns) {
            argv.extend(words.iter().map(|word| known.fill(word)));
        }
        argv
    }

    pub fn env(&self, known: &Known<'_>) -> impl Iterator<Item = (&'static str, String)> {
        self.env.iter().map(|(name, value)| (*name, known.fill(value)))
    }

    /// Whether a file that was left behind is the program's own.
    pub fn owns(&self, path: &str) -> bool {
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
            ("{session}", self.session.unwrap_or_default()),
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
        session: None,
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
    fn a_session_is_resumed_before_the_task() {
        let resumed = Known { session: Some("s-1"), ..KNOWN };
        let codex = CODEX.argv(&resumed);
        assert_eq!(codex[codex.len() - 4..], ["resume", "s-1", "--", "--help {model}"]);
        let claude = CLAUDE_CODE.argv(&resumed);
        assert_eq!(claude[claude.len() - 4..], ["--resume", "s-1", "--max-turns", "7"]);
        assert!(!CODEX.argv(&KNOWN).contains(&"resume".to_owned()));
    }

    #[test]
    fn agents_that_are_programs_have_one() {
        for agent in AgentKind::ALL {
            assert_eq!(program(agent).is_some(), agent.is_program(), "{agent}");
            assert!(program(agent).is_none_or(|program| program.name == agent.as_str()));
        }
    }
}
