//! What the gateway changes in a request, and what it refuses.
//!
//! | What | Becomes |
//! |---|---|
//! | `model` | the upstream's name for it, or the pinned one; others are refused |
//! | pinned fields | the operator's value |
//! | most tokens to generate | at most the cap; set when absent |
//! | `thinking.budget_tokens` | half of the cap, when the cap is below it |
//! | tools that run at the provider | removed; see [`tools`] |
//! | `tool_choice` that names a removed tool, or without tools left | removed |
//! | `mcp_servers`, `container`, `web_search_options` | removed: they run at the provider |
//! | `speed`, `service_tier` above the usual one | removed: another price |
//! | `store` | `false`; in Responses also when absent, where absent means yes |
//! | `stream_options.include_usage` | `true` in a streamed Chat; the extra event is dropped again |
//! | remote URLs, ids of files or answers kept at the provider | refused |
//! | fields that choose another upstream, key or header | refused |
//!
//! Everything else arrives byte for byte. Counting tokens costs nothing and has
//! stricter bodies, so only the model and the tools change there. Each change is
//! told, for the log.

mod fields;
mod rules;
#[cfg(test)]
mod tests;
mod tools;

pub use rules::{InvalidRules, Models, Rules};

use std::fmt;

use crate::dialect::{Dialect, Endpoint};
use crate::json::{Edits, ObjectEdit, quote};
use crate::media::Media;
use crate::request::{Invalid, Request, Size};

/// One change, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Model { from: String, to: String },
    Pinned(String),
    MaxOutput { from: Option<u64>, to: u64 },
    ThinkingLowered { from: u64, to: u64 },
    ToolRemoved(String),
    FieldRemoved(&'static str),
    NotStored,
    UsageAsked,
}

impl Change {
    /// The parameter of a run's model that the change is about; none: it is about another field.
    pub fn parameter(&self) -> Option<&'static str> {
        match self {
            Self::Pinned(field) => match field.as_str() {
                "temperature" => Some("temperature"),
                "reasoning_effort" | "reasoning" | "output_config" | "thinking" => Some("effort"),
                "max_tokens" | "max_output_tokens" | "max_completion_tokens" => {
                    Some("output_tokens")
                }
                _ => None,
            },
            Self::MaxOutput { from: Some(_), .. } => Some("output_tokens"),
            Self::ThinkingLowered { .. } => Some("effort"),
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model { from, to } => write!(f, "model {from} → {to}"),
            Self::Pinned(field) => write!(f, "pinned {field}"),
            Self::MaxOutput { from: Some(from), to } => write!(f, "output {from} → {to}"),
            Self::MaxOutput { from: None, to } => write!(f, "output at most {to}"),
            Self::ThinkingLowered { from, to } => write!(f, "thinking {from} → {to}"),
            Self::ToolRemoved(kind) => write!(f, "removed tool {kind}"),
            Self::FieldRemoved(field) => write!(f, "removed {field}"),
            Self::NotStored => f.write_str("not stored"),
            Self::UsageAsked => f.write_str("asked for usage"),
        }
    }
}

/// Why a request does not go out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("the model `{0}` is not among those this token may use")]
    Model(String),
    #[error("`{0}` is not accepted: the operator chooses where requests go and with which key")]
    Redirect(String),
    #[error("`{0}` names something that the provider would fetch; send the content itself")]
    Remote(&'static str),
    #[error("`{0}` names something kept at the provider; send the content itself")]
    Stored(&'static str),
    #[error("`{0}` is not offered by this gateway")]
    NotOffered(&'static str),
    #[error("at most {0} tokens may be generated, too few for thinking")]
    TooFewForThinking(u64),
}

/// What goes to the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// None: the body as it came.
    pub body: Option<Vec<u8>>,
    /// As the upstream calls it.
    pub model: String,
    pub stream: bool,
    /// The most that can be generated, over all answers.
    pub max_output: u64,
    /// The client did not ask for the event that tells the usage.
    pub drop_usage: bool,
    pub size: Size,
    pub changes: Vec<Change>,
}

impl Rewritten {
    /// Applies the rules to a request.
    pub fn new(request: &Request<'_>, rules: &Rules) -> Result<Self, Refused> {
        fields::refuse(request, rules)?;
        let media = Media::of(request.body);
        if let Some(field) = media.remote {
            return Err(Refused::Remote(field));
        }
        if let Some(field) = media.stored {
            return Err(Refused::Stored(field));
        }

        let mut edits = Edits::default();
        let mut top = ObjectEdit::new(request.body);
        let mut changes = vec![];

        let model = rules
            .models
            .find(&request.model)
            .ok_or_else(|| Refused::Model(request.model.clone().into_owned()))?;
        if model != request.model {
            top.set("model", quote(model));
            changes.push(Change::Model { from: request.model.to_string(), to: model.to_owned() });
        }
        tools::remove(request, rules, &mut top, &mut edits, &mut changes)?;
        fields::remove(request, rules, &mut top, &mut changes);

        let mut drop_usage = false;
        let mut max_output = 0;
        if request.endpoint == Endpoint::Generate {
            max_output = fields::cap_output(request, rules, &mut top, &mut edits, &mut changes)?;
            fields::forbid_storing(request, &mut top, &mut changes);
            if request.dialect == Dialect::OpenAiChat && request.stream {
                drop_usage = fields::ask_for_usage(request, &mut top, &mut edits)?;
                if drop_usage {
                    changes.push(Change::UsageAsked);
                }
            }
            fields::pin(request, rules, &mut top, &mut changes);
        }
        top.finish(&mut edits);
        Ok(Self {
            body: if edits.is_empty() { None } else { Some(edits.apply(request.body.text())) },
            model: model.to_owned(),
            stream: request.stream,
            max_output: max_output.saturating_mul(request.answers),
            drop_usage,
            size: request.size(),
            changes,
        })
    }
}
