//! The command line of pipelines: options of `belljar ask`, and `belljar pipeline`.

use std::path::PathBuf;

use belljar_domain::Question;
use belljar_domain::approval::{APPROVAL_SECONDS, ApprovalPolicy, MAX_APPROVAL_SECONDS};
use belljar_pipeline::{AgentKind, CodeArtifact, RoleModels};
use clap::{Args, Subcommand};

use super::ask::{Allowance, Ask, Confines, Dialect, ModelChoice, Place};
use super::{BriefOptions, Reaches};

/// The agent of the run. A resumed run keeps its own.
#[derive(Debug, Default, Args)]
pub(crate) struct AgentOptions {
    /// Agent: react (one model that calls tools), pipeline (Planner, Coder, Executor and Debugger),
    /// claude-code or codex (the published program, in the sandbox) [default: react]
    #[arg(long, value_name = "AGENT", help_heading = "Model")]
    pub(crate) agent: Option<AgentKind>,
    /// Models of the Planner, from small to large, with commas between them [default: the run's]
    #[arg(long, value_name = "MODELS", value_delimiter = ',', help_heading = "Model")]
    pub(crate) planner: Vec<String>,
    /// Models of the Coder, likewise
    #[arg(long, value_name = "MODELS", value_delimiter = ',', help_heading = "Model")]
    pub(crate) coder: Vec<String>,
    /// Models of the Debugger, likewise
    #[arg(long, value_name = "MODELS", value_delimiter = ',', help_heading = "Model")]
    pub(crate) debugger: Vec<String>,
    /// The program of the Executor alone.
    #[arg(skip)]
    pub(crate) artifact: Option<Box<CodeArtifact>>,
}

impl AgentOptions {
    pub(crate) fn kind(&self) -> AgentKind {
        self.agent.unwrap_or_default()
    }

    pub(crate) fn models(&self) -> RoleModels {
        RoleModels {
            planner: self.planner.clone(),
            coder: self.coder.clone(),
            debugger: self.debugger.clone(),
        }
    }
}

/// Run parts of a pipeline by themselves
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pipeline {
    #[command(subcommand)]
    pub(crate) action: PipelineAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PipelineAction {
    Exec(Box<PipelineExec>),
}

/// Install and run a program as the Executor does, and print its result as JSON
///
/// The file has `filename`, `code`, `run_command` and, if needed, `install_command`. Exit status:
/// 0 if the program succeeded, 5 if it failed.
#[derive(Debug, Args)]
pub(crate) struct PipelineExec {
    /// File with the program as JSON
    pub(crate) artifact: PathBuf,
    /// Data files for the program
    #[arg(long, short, value_name = "FILE", num_args = 1..)]
    pub(crate) data: Vec<PathBuf>,
    /// Directory for the run's files
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print events as JSON lines; the last one has the result
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Commands that wait until you approve them on the terminal: never, always, or install and run
    /// with a comma
    #[arg(long, value_name = "POLICY", default_value = "never")]
    pub(crate) approve: ApprovalPolicy,
    /// Seconds until a command without a decision is denied
    #[arg(long, value_name = "SECONDS", default_value_t = APPROVAL_SECONDS,
        value_parser = clap::value_parser!(u64).range(1..=MAX_APPROVAL_SECONDS))]
    pub(crate) approval_seconds: u64,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) confines: Confines,
    #[command(flatten)]
    pub(crate) reaches: Reaches,
}

const EXAMPLES: &str = "\
Examples:
  belljar pipeline exec artifact.json
  belljar pipeline exec artifact.json --network packages --memory 1G

docs/pipeline.md describes the file and the result.";

impl Pipeline {
    /// The choices of `--json` and `--quiet`.
    pub(crate) fn output(&self) -> (bool, bool) {
        let PipelineAction::Exec(exec) = &self.action;
        (exec.json, exec.quiet)
    }
}

impl PipelineExec {
    /// The run of the Executor alone.
    pub(crate) fn to_ask(&self, artifact: CodeArtifact) -> anyhow::Result<Ask> {
        let question: Question = format!("Execute {}", artifact.filename).parse()?;
        let agent = AgentOptions {
            agent: Some(AgentKind::Executor),
            artifact: Some(Box::new(artifact)),
            ..AgentOptions::default()
        };
        let model = ModelChoice {
            gateway: None,
            operation: None,
            model: None,
            model_url: None,
            model_key: None,
            prices: None,
            dialect: Dialect::AnthropicMessages,
            max_output: None,
        };
        let budget = Allowance {
            turns: None,
            nano_dollars: None,
            tokens: None,
            time: None,
            cpu_time: None,
            output_limit: None,
        };
        let brief = BriefOptions {
            temperature: None,
            effort: None,
            instructions: None,
            skills: Vec::new(),
            record: None,
            replay: None,
            without_guards: Vec::new(),
            approve: self.approve.clone(),
            approval_seconds: self.approval_seconds,
        };
        Ok(Ask {
            question: Some(question),
            data: self.data.clone(),
            out: self.out.clone(),
            resume: None,
            retries: 0,
            questions: false,
            now: None,
            json: self.json,
            quiet: self.quiet,
            verbose: false,
            agent,
            model,
            budget,
            place: self.place.clone(),
            confines: self.confines.clone(),
            reaches: self.reaches.clone(),
            brief,
        })
    }
}
