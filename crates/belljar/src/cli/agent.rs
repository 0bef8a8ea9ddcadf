//! The command line of `belljar agent`.

use std::path::PathBuf;

use belljar_domain::approval::{APPROVAL_SECONDS, ApprovalPolicy, MAX_APPROVAL_SECONDS};
use belljar_pipeline::AgentKind;
use clap::{Args, Subcommand, ValueEnum};

use super::Sandbox;

/// The default template: the program's own.
pub(crate) const OWN_TEMPLATE: &str = "own";

/// Run agent programs that use models through the gateway
#[derive(Debug, Args)]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) action: AgentAction,
}

impl Agent {
    /// Returns the values of `--json` and `--quiet`.
    pub(super) fn output(&self) -> (bool, bool) {
        let AgentAction::Run(run) = &self.action;
        (run.json, run.sandbox.quiet)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentAction {
    Run(Box<AgentRun>),
}

/// Give a task to an agent program in a new sandbox
///
/// The program can reach only the model operations of the gateway, unless --allow or --network add
/// more. Provider keys stay outside the sandbox: the program gets a token that only the gateway
/// accepts, and that expires with the sandbox.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("template", |arg| arg.default_value(OWN_TEMPLATE).hide_default_value(true)
    .help("Template to use: NAME or NAME@VERSION [default: the program's own]")))]
#[command(mut_arg("time", |arg| arg.help("Wall-clock limit [default: 30m]")))]
#[command(mut_arg("operation", |arg| arg
    .help("Gateway operation that the program may use; may be repeated [default: the one with \
           the program's dialect]")))]
pub(crate) struct AgentRun {
    /// Task for the agent
    #[arg(value_name = "TASK")]
    pub(crate) task: String,
    /// Agent program
    #[arg(long, short, value_enum)]
    pub(crate) program: Program,
    /// Model, by its name in the gateway configuration [default: the operation's first]
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Maximum number of model turns; the program is warned when 3 and 1 remain, if it supports
    /// that
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turns: Option<u32>,
    /// Budget for all model requests in dollars, such as 0.50
    #[arg(long = "budget-usd", value_name = "DOLLARS", value_parser = parse_dollars)]
    pub(crate) budget_nano_dollars: Option<u64>,
    /// Tool calls that wait until you approve them on the terminal: never, always, or names of the
    /// program's tools with commas, such as Bash,Write
    #[arg(long, value_name = "POLICY", default_value = "never")]
    pub(crate) approve: ApprovalPolicy,
    /// Seconds until a tool call without a decision is denied
    #[arg(long, value_name = "SECONDS", default_value_t = APPROVAL_SECONDS,
        value_parser = clap::value_parser!(u64).range(1..=MAX_APPROVAL_SECONDS))]
    pub(crate) approval_seconds: u64,
    /// URL of a server or a platform that has the run [default: this machine]
    #[arg(long, value_name = "URL", help_heading = "Sandbox")]
    #[arg(conflicts_with_all = ["gateway", "connections", "copy_in", "copy_out", "env", "setup"])]
    #[arg(conflicts_with_all = ["cpus", "pids", "network", "allow", "user", "workdir", "profile"])]
    #[arg(conflicts_with_all = ["inodes", "cpu_time", "output_limit"])]
    pub(crate) server: Option<String>,
    /// File with the API key for --server [env: E2B_API_KEY]
    #[arg(long, value_name = "FILE", requires = "server", help_heading = "Sandbox")]
    pub(crate) server_key: Option<PathBuf>,
    /// Print events as JSON lines; the last one is the result
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    ClaudeCode,
    Codex,
}

impl Program {
    /// The agent of a run that the program does.
    pub(crate) fn kind(self) -> AgentKind {
        match self {
            Self::ClaudeCode => AgentKind::ClaudeCode,
            Self::Codex => AgentKind::Codex,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  belljar agent run --program claude-code --gateway gateway.toml 'Which Python is here?'
  belljar agent run --program codex --gateway gateway.toml --in data.csv --out report.md \\
      --turns 20 --budget-usd 0.50 'Describe data.csv in report.md'

docs/agents.md has an example gateway.toml. Exit status: 0 only if the program succeeded.";

/// Dollars to billionths of a dollar, exactly.
pub(crate) fn parse_dollars(text: &str) -> Result<u64, &'static str> {
    let wrong = "expected an amount such as 0.50, with at most nine decimal places";
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 9 {
        return Err(wrong);
    }
    let whole: u64 = whole.parse().map_err(|_| wrong)?;
    let part: u64 = format!("{part:0<9}").parse().map_err(|_| wrong)?;
    whole.checked_mul(1_000_000_000).and_then(|nano| nano.checked_add(part)).ok_or(wrong)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn dollars_are_exact() {
        assert_eq!(parse_dollars("0.5"), Ok(500_000_000));
        assert_eq!(parse_dollars("12"), Ok(12_000_000_000));
        assert_eq!(parse_dollars("0.000000001"), Ok(1));
        for wrong in ["", ".", "-1", "1e3", "0.0000000001", "99999999999999", "1 "] {
            assert!(parse_dollars(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_has_its_own_gateway() {
        let line = ["belljar", "agent", "run", "--program", "codex", "--server", "http://a", "do"];
        assert!(Cli::try_parse_from(line).is_ok());
        let refused = Cli::try_parse_from(line.iter().chain(&["--gateway", "g.toml"]));
        assert!(refused.is_err());
    }

    #[test]
    fn a_server_refuses_options_that_it_would_ignore() {
        let line = ["belljar", "agent", "run", "--program", "codex", "--server", "http://a", "do"];
        for option in [
            ["--cpus", "2"],
            ["--pids", "64"],
            ["--network", "packages"],
            ["--allow", "example.com"],
            ["--user", "root"],
            ["--workdir", "/tmp"],
            ["--inodes", "99"],
        ] {
            let refused = Cli::try_parse_from(line.iter().chain(&option)).unwrap_err();
            assert_eq!(refused.kind(), clap::error::ErrorKind::ArgumentConflict, "{option:?}");
        }
    }

    #[test]
    fn the_template_is_the_programs_unless_named() {
        let parse = |more: &[&str]| {
            let line = ["belljar", "agent", "run", "--program", "codex", "do it"];
            let Command::Agent(agent) = Cli::parse_from(line.iter().chain(more)).command else {
                panic!()
            };
            let AgentAction::Run(run) = agent.action;
            (run.program, run.sandbox.template)
        };
        assert_eq!(parse(&[]), (Program::Codex, OWN_TEMPLATE.to_owned()));
        assert_eq!(parse(&["--template", "mine"]), (Program::Codex, "mine".to_owned()));
    }
}
