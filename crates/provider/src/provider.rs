//! Who answers.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use belljar_domain::{Effort, Temperature};

use crate::answer::Answer;
use crate::conversation::{Conversation, InvalidConversation};
use crate::failure::Failure;

/// A model, or what plays one.
pub trait Provider: Send + Sync + fmt::Debug {
    /// What it is, in one word, for traces.
    fn name(&self) -> &'static str;

    /// What is sent for a conversation, to be compared with what was sent before; of
    /// who sends nothing, the conversation itself. Without the marks that say what to
    /// remember: they move from request to request, and are not remembered themselves.
    fn written(&self, conversation: &Conversation, _options: &Options) -> Vec<u8> {
        serde_json::to_vec(conversation).unwrap_or_default()
    }

    /// The next answer in a conversation. `on_delta` hears of it while it comes; what
    /// counts is the answer. Dropping the future breaks the request off.
    fn answer<'a>(
        &'a self,
        conversation: &'a Conversation,
        options: &'a Options,
        on_delta: &'a mut OnDelta<'_>,
    ) -> Answering<'a>;
}

/// An answer on its way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, AnswerError>> + Send + 'a>>;

pub type OnDelta<'a> = dyn FnMut(Delta<'_>) + Send + 'a;

/// A piece of an answer, or that it begins anew.
#[derive(Debug, Clone, Copy)]
pub enum Delta<'a> {
    Text(&'a str),
    /// What a model shows of its thoughts.
    Reasoning(&'a str),
    /// A call begins.
    ToolCall {
        name: &'a str,
    },
    /// A piece of the last call's arguments.
    Arguments(&'a str),
    /// The attempt failed and is repeated after a while: all of it so far is void.
    Again {
        failure: &'a Failure,
        wait: Duration,
    },
}

/// Parameters of the request. Those that are absent are left to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub model: String,
    /// The most tokens to generate, thoughts included.
    pub max_output: u64,
    pub tools: ToolChoice,
    pub form: Form,
    /// Newer models refuse any.
    pub temperature: Option<Temperature>,
    pub effort: Option<Effort>,
    /// Conversations with the same key are kept near each other by providers that
    /// cache by themselves: the id of the run. Up to 64 characters count.
    pub cache_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    #[default]
    Auto,
    /// At least one call. Anthropic refuses this together with an effort.
    Required,
    /// No call: the model has to come to an end. Tools stay described, for the cache
    /// and because earlier calls refer to them.
    None,
}

/// How an answer is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    #[default]
    Stream,
    Whole,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("the conversation cannot be sent")]
    Invalid(#[from] InvalidConversation),
    /// Nothing more may be spent. Asking again changes nothing.
    #[error("the budget for models is used up: {message}")]
    OutOfBudget { message: String },
    /// The request is at fault, or who sent it. Asking again changes nothing.
    #[error("the request was refused")]
    Refused(#[source] Failure),
    /// What came is not an answer, and will not be one next time.
    #[error("the answer cannot be used")]
    Unusable(#[source] Failure),
    /// It may work later; for now, enough was tried.
    #[error("no answer after {attempts} attempts")]
    GaveUp {
        attempts: u32,
        #[source]
        last: Failure,
    },
}

impl AnswerError {
    /// Returns true if the model had begun to answer: the gateway charges such a request, with
    /// what it reserved if no usage was heard of. A refused one costs nothing.
    pub fn may_cost(&self) -> bool {
        match self {
            Self::Invalid(_) | Self::OutOfBudget { .. } => false,
            Self::Refused(failure) | Self::Unusable(failure) => failure.may_cost(),
            Self::GaveUp { last, .. } => last.may_cost(),
        }
    }

    /// The prompt does not fit the model: what helps is a shorter one.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Refused(failure) if failure.is_too_long())
    }
}

impl Options {
    pub fn new(model: impl Into<String>, max_output: u64) -> Self {
        Self {
            model: model.into(),
            max_output,
            tools: ToolChoice::default(),
            form: Form::default(),
            temperature: None,
            effort: None,
            cache_key: None,
        }
    }
}
