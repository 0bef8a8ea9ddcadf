#![doc = include_str!("../README.md")]

mod advice;
mod category;
mod check;
mod fingerprint;
mod heuristic;
mod message;
mod role;

pub use advice::advice;
pub use category::{Category, error_line, missing_module};
pub use check::{Refusal, check_code, read_code, read_diagnosis, read_plan};
pub use fingerprint::fingerprint;
pub use heuristic::{Failure, PlanRequest, code, diagnose, plan};
pub use message::{
    AgentKind, CodeArtifact, Diagnosis, ExecutionResult, HumanQuestion, Language, MAX_ATTEMPTS,
    Message, Output, Plan, Preparation, RoleModels, TriedAttempt, UnknownAgent, give_up,
};
pub use role::Role;
