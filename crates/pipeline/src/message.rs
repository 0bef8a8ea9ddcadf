//! The messages that the agents of a pipeline hand on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::category::Category;

/// Attempts at one plan. Then a human is asked.
pub const MAX_ATTEMPTS: u32 = 3;

/// The answers of a human that end the run.
const GIVE_UP: &[&str] = &["give up", "stop", "cancel"];

/// The kind of agent that answers a run's question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    /// One model that calls tools until it has the answer.
    #[default]
    React,
    /// Planner, Coder, Executor and Debugger.
    Pipeline,
    /// The Executor alone: it runs an artifact that the caller made.
    Executor,
    /// Claude Code, as it is published.
    #[serde(rename = "claude-code")]
    ClaudeCode,
    /// Codex, as it is published.
    Codex,
}

/// A name that no agent has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent `{0}`; there are react, pipeline, executor, claude-code and codex")]
pub struct UnknownAgent(pub String);

impl AgentKind {
    pub const ALL: [Self; 5] =
        [Self::React, Self::Pipeline, Self::Executor, Self::ClaudeCode, Self::Codex];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::React => "react",
            Self::Pipeline => "pipeline",
            Self::Executor => "executor",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// Returns true for the agent of runs that name none.
    pub fn is_react(&self) -> bool {
        *self == Self::React
    }

    /// Returns true for a published program that is an agent by itself.
    pub fn is_program(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Codex)
    }

    /// Returns true for agents whose stages hand typed messages on.
    pub fn is_pipeline(self) -> bool {
        matches!(self, Self::Pipeline | Self::Executor)
    }
}

impl fmt::Display for AgentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AgentKind {
    type Err = UnknownAgent;

    fn from_str(name: &str) -> Result<Self, UnknownAgent> {
        let known = Self::ALL.into_iter().find(|agent| agent.as_str() == name);
        known.ok_or_else(|| UnknownAgent(name.chars().take(64).collect()))
    }
}

/// Models of each role, from the smallest to the largest. An empty list: the run's model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleModels {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planner: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coder: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub debugger: Vec<String>,
}

impl RoleModels {
    /// Returns true if no role names a model.
    pub fn is_empty(&self) -> bool {
        self.planner.is_empty() && self.coder.is_empty() && self.debugger.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    Python,
    Javascript,
}

/// The form of a program's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Printed to the standard output.
    Text,
    /// Written to a file.
    File,
}

/// The Planner's message: the specification that the Coder works from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub language: Language,
    /// Packages that are not in the language's standard library.
    #[serde(default)]
    pub dependencies: Vec<String>,
    pub task: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Names of data files that the program reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    pub output: Output,
}

/// A program and the commands that install its packages and run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeArtifact {
    pub filename: String,
    pub code: String,
    #[serde(default)]
    pub install_command: Option<String>,
    pub run_command: String,
    /// Wall-clock limit of the installation. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_seconds: Option<u64>,
    /// Wall-clock limit of the program. Default: 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_seconds: Option<u64>,
    /// Memory of its sandbox. Default: the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl CodeArtifact {
    /// The longest that either command may be given.
    pub const MAX_SECONDS: u64 = 600;
    const INSTALL_SECONDS: u64 = 300;
    const RUN_SECONDS: u64 = 60;

    pub fn install_limit(&self) -> u64 {
        self.install_seconds.unwrap_or(Self::INSTALL_SECONDS)
    }

    pub fn run_limit(&self) -> u64 {
        self.run_seconds.unwrap_or(Self::RUN_SECONDS)
    }
}

/// The state of the sandbox that a program ran in. It is fresh for each attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparation {
    /// Nothing was installed.
    Template,
    /// A fork of the checkpoint that was taken after the installation.
    Checkpoint,
    /// The tier has no such checkpoints: the packages were installed for this attempt.
    Installed,
}

/// The Executor's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionResult {
    pub success: bool,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// None: it succeeded.
    #[serde(default)]
    pub category: Option<Category>,
    /// The line of the output that names the error.
    #[serde(default)]
    pub error: Option<String>,
    /// Standard output and error, shortened in the middle.
    pub output: String,
    pub sandbox: Preparation,
    /// The reason that there is no checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_checkpoint: Option<String>,
    /// Digest of the code without comments and blanks, the commands and the limits.
    pub fingerprint: String,
}

/// The Debugger's message: the cause of a failure, and a program that is different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diagnosis {
    pub category: Category,
    pub cause: String,
    pub artifact: CodeArtifact,
}

/// One attempt, as a human is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriedAttempt {
    pub attempt: u32,
    #[serde(default)]
    pub category: Option<Category>,
    #[serde(default)]
    pub error: Option<String>,
    /// The Debugger's words on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// The question to a human when the agents cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HumanQuestion {
    pub question: String,
    pub attempts: Vec<TriedAttempt>,
    /// Answers with a fixed meaning. Any other text is a hint for a new plan.
    pub answers: Vec<String>,
}

impl HumanQuestion {
    /// Asks what is to be different. `why`: the reason that there was nothing to attempt.
    pub fn new(attempts: Vec<TriedAttempt>, why: Option<&str>) -> Self {
        let mut question = match (attempts.len(), why) {
            (0, Some(why)) => format!("No program could be made: {}", why.trim()),
            (0, None) => "No program could be made.".to_owned(),
            (1, _) => "The attempt failed.".to_owned(),
            (count, _) => format!("All {count} attempts failed."),
        };
        for tried in &attempts {
            let category = tried.category.map_or("error", Category::as_str);
            let error = tried.error.as_deref().unwrap_or("no message");
            question = format!("{question}\n{}. {category}: {error}", tried.attempt);
        }
        question.push_str(
            "\nWhat should be different? Your answer goes to the Planner. `give up` ends the run.",
        );
        Self { question, attempts, answers: vec![GIVE_UP[0].to_owned()] }
    }
}

/// Returns true if a human's answer ends the run.
pub fn give_up(answer: &str) -> bool {
    let answer = answer.trim().trim_end_matches('.').to_lowercase();
    GIVE_UP.contains(&answer.as_str())
}

/// One typed message, as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    Plan(Plan),
    Code(CodeArtifact),
    Execution(ExecutionResult),
    Diagnosis(Diagnosis),
    Question(HumanQuestion),
}

impl Message {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Plan(_) => "plan",
            Self::Code(_) => "code",
            Self::Execution(_) => "execution",
            Self::Diagnosis(_) => "diagnosis",
            Self::Question(_) => "question",
        }
    }

    /// The program that is to run next, if the message has one.
    pub fn artifact(&self) -> Option<&CodeArtifact> {
        match self {
            Self::Code(artifact) => Some(artifact),
            Self::Diagnosis(diagnosis) => Some(&diagnosis.artifact),
            Self::Plan(_) | Self::Execution(_) | Self::Question(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agents_have_names_and_others_are_refused_with_the_list() {
        for agent in AgentKind::ALL {
            assert_eq!(agent.as_str().parse(), Ok(agent));
            assert_eq!(serde_json::to_value(agent).unwrap(), json!(agent.as_str()));
        }
        let refused = "deep".parse::<AgentKind>().unwrap_err().to_string();
        assert!(AgentKind::ALL.iter().all(|agent| refused.contains(agent.as_str())), "{refused}");
    }

    /// A message in the journal is read by every later version.
    #[test]
    fn messages_keep_their_shape() {
        let plan = json!({"type": "plan", "language": "python", "dependencies": [],
            "task": "compute the mean", "output": "text"});
        let code = json!({"type": "code", "filename": "main.py", "code": "print(1)",
            "install_command": null, "run_command": "python main.py"});
        let execution = json!({"type": "execution", "success": false, "exit_code": 1,
            "category": "missing_module", "error": "No module", "output": "o",
            "sandbox": "template", "fingerprint": "f"});
        for shape in [plan, code, execution] {
            let message: Message = serde_json::from_value(shape.clone()).unwrap();
            assert_eq!(message.kind(), shape["type"]);
            assert_eq!(serde_json::to_value(&message).unwrap(), shape);
        }
        let unknown = json!({"type": "code", "filename": "a", "code": "b", "run_command": "c",
            "sudo": true});
        assert!(serde_json::from_value::<Message>(unknown).is_err());
    }

    #[test]
    fn a_human_is_told_of_every_attempt_and_of_the_way_out() {
        let tried = |attempt| TriedAttempt {
            attempt,
            category: Some(Category::Timeout),
            error: Some("it took too long".to_owned()),
            cause: None,
        };
        let asked = HumanQuestion::new(vec![tried(1), tried(2), tried(3)], None);
        assert!(asked.question.starts_with("All 3 attempts failed.\n1. timeout: it took too long"));
        assert!(asked.answers.iter().all(|answer| give_up(answer)));
        assert!(give_up(" Give up. ") && !give_up("give me the median"));
        let asked = HumanQuestion::new(Vec::new(), Some("not understood"));
        assert!(asked.question.starts_with("No program could be made: not understood\n"));
    }
}
