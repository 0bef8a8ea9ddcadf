//! The calls that follow from a message of a pipeline run.
//!
//! They are derived, not written: so every gap that a crash can leave between them is one that
//! calls of a model have, too.

use belljar_pipeline::Message;
use serde_json::json;

use super::{Call, CallState};
use crate::event::{CallRef, StageMessage};

/// Ids of calls that no model made begin with this.
pub const STAGE_CALL_PREFIX: &str = "belljar:";
pub const INSTALL_CALL: &str = "belljar:install";
pub const RUN_CALL: &str = "belljar:run";
pub const QUESTION_CALL: &str = "belljar:question";

/// The calls that a message asks for, in order.
pub fn stage_calls(sent: &StageMessage) -> Vec<Call> {
    let call = |id: &str, name: &str, input| {
        let call = CallRef { turn: sent.turn, id: id.to_owned() };
        Call { call, name: name.to_owned(), input, state: CallState::Wanted }
    };
    if let Message::Question(asked) = &sent.message {
        return vec![call(QUESTION_CALL, "ask_human", json!({ "question": asked.question }))];
    }
    let Some(artifact) = sent.message.artifact() else { return Vec::new() };
    let install = artifact.install_command.as_ref();
    let install =
        install.map(|command| call(INSTALL_CALL, "install", json!({ "command": command })));
    let run = call(RUN_CALL, "run", json!({ "command": artifact.run_command }));
    install.into_iter().chain([run]).collect()
}
