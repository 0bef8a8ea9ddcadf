//! The command line, as data.
//!
//! A new command is a variant of [`Command`], a module in `commands`, and a
//! line in `main::dispatch`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::units::{parse_size, parse_time};
use belljar_domain::{SecurityProfile, Tier};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::output::{Printer, Volume};

mod admin;
mod agent;
#[cfg(test)]
mod aliases;
mod approvals;
mod ask;
mod bench;
mod brief;
mod cassette;
mod cells;
mod completions;
mod dataset;
mod dev;
mod eval;
mod hosting;
#[cfg(test)]
mod manners;
mod network;
mod objects;
mod observe;
#[cfg(test)]
mod packaging;
mod pipeline;
mod platform;
mod reach;
mod report;
mod running;
mod serve;
mod template;
mod usage;
mod webhooks;
mod workflow;

pub(crate) use admin::{
    Admin, AdminAction, AuthorityAction, Dollars, Floor, KeyAction, NodeAction, PriceAction,
    SandboxAction, TenantAction,
};
pub(crate) use agent::{Agent, AgentAction, AgentRun, OWN_TEMPLATE, parse_dollars};
pub(crate) use approvals::{Approvals, ApprovalsAction};
pub(crate) use ask::{Ask, Dialect, ModelChoice, Place, RunName, Runs, RunsAction, parse_moment};
pub(crate) use bench::{
    Bench, BenchDensity, BenchFirstResult, BenchFork, BenchGateway, BenchKind, BenchOutput,
    BenchPlatform, BenchRuns, BenchSessions, BenchStart, BenchTiers, BenchTti, BenchTurns,
    TurnAgent,
};
pub(crate) use brief::{BriefOptions, InstructionsSource};
pub(crate) use cassette::{Cassette, CassetteAction};
pub(crate) use cells::Cells;
pub(crate) use completions::{CompletionShell, Completions};
pub(crate) use dataset::{Dataset, DatasetAction, Describe};
pub(crate) use dev::Dev;
pub(crate) use eval::{Eval, EvalAction, EvalBenchmark, EvalImport, ModelName};
pub(crate) use hosting::Hosting;
pub(crate) use network::{Network, Preset};
pub(crate) use objects::Sharing;
pub(crate) use observe::{Observe, trace_command};
pub(crate) use pipeline::{AgentOptions, Pipeline, PipelineAction};
pub(crate) use platform::{Control, Node};
pub(crate) use reach::Reaches;
pub(crate) use report::{Open, Report};
pub(crate) use running::Running;
pub(crate) use serve::{Env, Serve, Shell as EnvShell, Tls, TlsCommand};
pub(crate) use template::{Template, TemplateAction};
pub(crate) use usage::{Usage, UsageSums};
pub(crate) use webhooks::{Webhooking, Webhooks, WebhooksAction};
pub(crate) use workflow::{Workflow, WorkflowAction, WorkflowRun};

const EXAMPLES: &str = "\
Examples:
  belljar run -c 'print(sum(range(10)))'
  belljar run report.py --in data.csv --out report.html
  belljar run solve.js --memory 256M --time 10s -- --verbose
  belljar exec -- sh -c 'echo hello | tr a-z A-Z'
  belljar shell --template python-data
  belljar cells analysis.py
  belljar ask 'Which region has the highest revenue?' --data sales.csv
  belljar doctor

Exit status: the program's own; 128 + n if signal n ended it; 115 to 124 if a
limit ended it (--json names the limit); 125 if belljar itself failed.";

/// Run untrusted code in isolated sandboxes.
#[derive(Debug, Parser)]
#[command(name = "belljar", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Directory of templates [env: BELLJAR_STORE]
    #[arg(long, global = true, value_name = "DIR", hide_short_help = true)]
    #[arg(help_heading = "Global options")]
    pub(crate) store: Option<PathBuf>,
    /// Directory for the state of running sandboxes [env: BELLJAR_STATE]
    #[arg(long, global = true, value_name = "DIR", hide_short_help = true)]
    #[arg(help_heading = "Global options")]
    pub(crate) state: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Exec(Exec),
    Shell(Shell),
    Cells(Box<Cells>),
    Agent(Agent),
    Ask(Box<Ask>),
    Pipeline(Pipeline),
    Runs(Runs),
    Report(Report),
    Eval(Box<Eval>),
    Usage(Usage),
    Webhooks(Webhooks),
    Approvals(Approvals),
    Workflow(Workflow),
    Cassette(Cassette),
    Dataset(Dataset),
    Doctor(Doctor),
    Template(Template),
    Serve(Serve),
    Control(Control),
    Node(Node),
    Env(Env),
    Tls(Tls),
    Admin(Admin),
    Dev(Dev),
    Bench(Bench),
    Completions(Completions),
}

/// Run a script or code in a new sandbox
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// Script to run, or `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "code")]
    pub(crate) file: Option<PathBuf>,
    /// Code to run; Python unless --lang is given
    #[arg(short = 'c', long, value_name = "CODE", conflicts_with = "file")]
    pub(crate) code: Option<String>,
    /// Language: python, javascript, bash, sh, ruby, ... [default: by the file's extension]
    #[arg(short, long, value_name = "LANGUAGE")]
    pub(crate) lang: Option<String>,
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    #[command(flatten)]
    pub(crate) call: Call,
    /// Arguments for the program
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<OsString>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  belljar run -c 'print(sum(range(10)))'
  belljar run examples/csv_summary.py
  belljar run report.py --in data.csv --out report.html -- --year 2024
  belljar run --lang bash -c 'echo $((6 * 7))'
  generate-code | belljar run --lang javascript -
  belljar run heavy.py --memory 64M --time 5s --json";

/// Run a command in a new sandbox
#[derive(Debug, Args)]
#[command(after_help = EXEC_EXAMPLES)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    #[command(flatten)]
    pub(crate) call: Call,
    /// Command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const EXEC_EXAMPLES: &str = "\
Examples:
  belljar exec -- uname -a
  belljar exec --in src/ -- gcc -O2 -o prog src/main.c
  sort big.txt | belljar exec -- uniq -c";

/// Open a terminal in a new sandbox
#[derive(Debug, Args)]
#[command(after_help = SHELL_EXAMPLES)]
pub(crate) struct Shell {
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// Command to run instead of the shell
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const SHELL_EXAMPLES: &str = "\
Examples:
  belljar shell
  belljar shell --template python-data -- python3
  belljar shell --in project/ --memory 4G";

/// Show which tiers this host can run, and how to enable the others
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of the sandbox, shared by run, exec, shell, cells and agent run.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sandbox {
    /// Isolation tier: jail, oci/crun, oci/runc, gvisor, microvm, or process (weak; prints a
    /// warning) [default: the template's, or jail]
    #[arg(long, value_parser = parse_tier, help_heading = "Sandbox")]
    pub(crate) tier: Option<Tier>,
    /// User that runs the program and the --setup commands
    #[arg(long, value_name = "USER", value_enum, default_value_t, help_heading = "Sandbox")]
    pub(crate) user: Login,
    /// Rights of root: strict (no capability) or full (installs packages, adds users)
    #[arg(long, value_name = "PROFILE", default_value_t, help_heading = "Sandbox")]
    pub(crate) profile: SecurityProfile,
    /// Template to use: NAME or NAME@VERSION
    #[arg(long, short, default_value = "host", help_heading = "Sandbox")]
    pub(crate) template: String,
    /// Environment variable for the program; may be repeated
    #[arg(long, short, value_name = "K=V", value_parser = parse_pair, help_heading = "Sandbox")]
    pub(crate) env: Vec<(String, String)>,
    /// Working directory inside the sandbox [default: the home directory]
    #[arg(long, value_name = "DIR", help_heading = "Sandbox")]
    pub(crate) workdir: Option<PathBuf>,
    /// Shell command to run first, limited by --setup-timeout; may be repeated
    #[arg(long, value_name = "COMMAND", help_heading = "Sandbox")]
    pub(crate) setup: Vec<String>,
    /// Print only errors and the program's output
    #[arg(long, short, help_heading = "Sandbox")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) network: Network,

    /// File or directory to copy into the sandbox before the start; may be repeated
    #[arg(long = "in", value_name = "HOST[:INSIDE]", help_heading = "Files")]
    pub(crate) copy_in: Vec<String>,
    /// File or directory to copy out of the sandbox at the end; may be repeated
    #[arg(long = "out", value_name = "INSIDE[:HOST]", help_heading = "Files")]
    pub(crate) copy_out: Vec<String>,

    /// Memory limit for all processes and the writable disk together [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub(crate) memory: Option<u64>,
    /// CPU cores, such as 0.5 [default: 1]
    #[arg(long, value_name = "CORES", value_parser = parse_cores, help_heading = "Limits")]
    pub(crate) cpus: Option<u32>,
    /// Maximum number of processes and threads [default: 128]
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub(crate) pids: Option<u32>,
    /// Size of the writable disk [default: 512M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub(crate) disk: Option<u64>,
    /// Maximum number of files, directories and links on that disk [default: 65536]
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub(crate) inodes: Option<u64>,
    /// Wall-clock limit [default: 60s; for shell 24h]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Limits")]
    pub(crate) time: Option<Duration>,
    /// CPU-time limit for all processes together [default: none]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Limits")]
    pub(crate) cpu_time: Option<Duration>,
    /// Output limit for both streams together [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub(crate) output_limit: Option<u64>,
    /// Run even if this host cannot keep a limit that was requested
    #[arg(long, help_heading = "Limits")]
    pub(crate) allow_weak_limits: bool,
    /// Wall-clock limit for each --setup command
    #[arg(long = "setup-timeout", alias = "install-timeout", value_name = "TIME")]
    #[arg(value_parser = parse_time, default_value = "10m", help_heading = "Limits")]
    pub(crate) install_timeout: Duration,

    /// Set by commands that need a warm interpreter.
    #[arg(skip)]
    pub(crate) interpreters: Interpreters,
}

/// A user of the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Login {
    #[default]
    User,
    Root,
}

/// Interpreters of a sandbox's contexts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Interpreters {
    /// Started as programs.
    #[default]
    Cold,
    /// Forked from a warm one where the tier can do it. Only those can be copied.
    Warm,
}

/// Input and output of the call, shared by run and exec.
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// Pass standard input to the program
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", help_heading = "Output")]
    pub(crate) stdin: StdinMode,
    /// Print one JSON document at the end instead of streaming the output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// With --json: bytes kept of each stream, half from its start and half from its end
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1M")]
    #[arg(help_heading = "Output")]
    pub(crate) keep_output: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StdinMode {
    /// Pass it unless it is a terminal
    Auto,
    /// Pass it
    Inherit,
    /// Pass an empty input
    None,
}

impl Cli {
    /// How this command talks.
    pub(crate) fn printer(&self) -> Printer {
        let (json, quiet) = match &self.command {
            Command::Run(run) => (run.call.json, run.sandbox.quiet),
            Command::Exec(exec) => (exec.call.json, exec.sandbox.quiet),
            Command::Shell(shell) => (false, shell.sandbox.quiet),
            Command::Cells(cells) => (cells.json, cells.sandbox.quiet),
            Command::Agent(agent) => agent.output(),
            Command::Ask(ask) => (ask.json, ask.quiet),
            Command::Pipeline(pipeline) => pipeline.output(),
            Command::Runs(runs) => (runs.json, false),
            Command::Report(report) => (report.json, false),
            Command::Eval(eval) => (eval.prints_json(), eval.quiet),
            Command::Usage(usage) => (usage.json, false),
            Command::Webhooks(webhooks) => (webhooks.json, false),
            Command::Approvals(approvals) => (approvals.json, false),
            Command::Workflow(workflow) => (workflow.json, false),
            Command::Admin(admin) => (admin.json, false),
            Command::Dataset(dataset) => dataset.output(),
            Command::Doctor(doctor) => (doctor.json, false),
            Command::Bench(bench) => (bench.kind.output().json, false),
            Command::Serve(_)
            | Command::Control(_)
            | Command::Node(_)
            | Command::Env(_)
            | Command::Tls(_)
            | Command::Dev(_)
            | Command::Completions(_)
            | Command::Cassette(_) => (false, false),
            Command::Template(template) => match template.action {
                TemplateAction::Build { quiet, .. } => (false, quiet),
                TemplateAction::List { json } | TemplateAction::Show { json, .. } => (json, false),
                _ => (false, false),
            },
        };
        Printer::new(json, if quiet { Volume::Quiet } else { Volume::Normal })
    }
}

impl Command {
    /// The exit status when belljar itself fails. Commands that pass on a
    /// program's status use the one that `env` and `timeout` use, too.
    pub(crate) fn failure_status(&self) -> u8 {
        match self {
            Self::Run(_)
            | Self::Exec(_)
            | Self::Shell(_)
            | Self::Cells(_)
            | Self::Agent(_)
            | Self::Ask(_)
            | Self::Pipeline(_) => 125,
            // As `diff` does: 1 says that there is a difference.
            Self::Cassette(_) => 2,
            Self::Dataset(_)
            | Self::Doctor(_)
            | Self::Template(_)
            | Self::Bench(_)
            | Self::Completions(_)
            | Self::Serve(_)
            | Self::Control(_)
            | Self::Node(_)
            | Self::Env(_)
            | Self::Runs(_)
            | Self::Report(_)
            | Self::Eval(_)
            | Self::Usage(_)
            | Self::Webhooks(_)
            | Self::Approvals(_)
            | Self::Workflow(_)
            | Self::Tls(_)
            | Self::Admin(_)
            | Self::Dev(_) => 1,
        }
    }
}

fn parse_tier(text: &str) -> Result<Tier, String> {
    let hint = "hint: `belljar doctor` shows which tiers this host can run";
    text.parse().map_err(|error| format!("{error}\n{hint}"))
}

fn parse_pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE"),
    }
}

const NO_CORES: &str = "expected a number of cores, such as 0.5 or 2";

/// Cores to thousandths of a core.
fn parse_cores(text: &str) -> Result<u32, &'static str> {
    cores(text.parse().map_err(|_| NO_CORES)?)
}

/// The same of a number.
pub(crate) fn cores(number: f64) -> Result<u32, &'static str> {
    // A duration counts exact thousandths and refuses what is no such number.
    let exact = Duration::try_from_secs_f64(number).map_err(|_| NO_CORES)?;
    u32::try_from(exact.as_millis()).map_err(|_| NO_CORES)
}

#[cfg(test)]
mod tests;
