//! A model behind HTTP.

mod attempt;

use std::fmt;
use std::time::Duration;

use belljar_llm::{CredentialForm, Dialect, Endpoint};
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri};

use crate::answer::{Answer, Retry};
use crate::clock::Clock;
use crate::conversation::Conversation;
use crate::failure::Verdict;
use crate::provider::{AnswerError, Answering, Delta, Form, OnDelta, Options, Provider};
use crate::retry::Retries;
use crate::transport::{Credential, Transport};
use crate::wire::{self, Lifetime, Version};

/// Who is asked, and how.
#[derive(Debug, Clone)]
pub struct Upstream {
    pub dialect: Dialect,
    /// Of Anthropic's API; others have none.
    pub version: Version,
    /// What stands before the dialect's own path, without a slash at its end.
    pub base_path: String,
    pub credential: Option<Credential>,
    pub credential_form: CredentialForm,
    /// How long Anthropic keeps tools and system prompt.
    pub lifetime: Lifetime,
}

/// What an upstream may take of us in one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until the answer begins. Answers in one piece begin when they end.
    pub head: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// From the request to the end of the answer.
    pub whole: Duration,
    /// Of the answer.
    pub bytes: usize,
}

/// Asks one upstream over one transport.
pub struct Client<T, C> {
    upstream: Upstream,
    head: Head,
    transport: T,
    clock: C,
    pub limits: Limits,
    pub retries: Retries,
}

/// What is the same in every request.
#[derive(Debug, Clone)]
struct Head {
    uri: Uri,
    headers: HeaderMap,
}

/// A base path that cannot stand before a path.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a path to a model's API")]
pub struct InvalidBasePath(String);

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_mins(10),
            idle: Duration::from_mins(5),
            whole: Duration::from_mins(30),
            bytes: 64 << 20,
        }
    }
}

impl Upstream {
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            version: Version::default(),
            base_path: String::new(),
            credential: None,
            credential_form: dialect.usual_credential(),
            lifetime: Lifetime::default(),
        }
    }

    fn head(&self) -> Result<Head, InvalidBasePath> {
        let path = self.dialect.path(Endpoint::Generate).unwrap_or_default();
        let path = format!("{}{path}", self.base_path);
        let is_path = path.starts_with('/') && !path.starts_with("//");
        let uri = path.parse().ok().filter(|uri: &Uri| is_path && uri.query().is_none());
        let uri = uri.ok_or_else(|| InvalidBasePath(self.base_path.clone()))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // What is compressed cannot be bounded by its length.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if self.dialect == Dialect::AnthropicMessages {
            let version = HeaderValue::from_static(self.version.word());
            headers.insert(HeaderName::from_static("anthropic-version"), version);
        }
        if let Some(credential) = &self.credential {
            let (name, before) = self.credential_form.header();
            headers.insert(HeaderName::from_static(name), credential.header(before));
        }
        Ok(Head { uri, headers })
    }
}

impl<T: Transport, C: Clock> Client<T, C> {
    pub fn new(upstream: Upstream, transport: T, clock: C) -> Result<Self, InvalidBasePath> {
        let head = upstream.head()?;
        let (limits, retries) = (Limits::default(), Retries::default());
        Ok(Self { upstream, head, transport, clock, limits, retries })
    }

    /// The body that a conversation is sent as.
    pub fn body(&self, conversation: &Conversation, options: &Options) -> Bytes {
        let Upstream { dialect, lifetime, .. } = self.upstream;
        wire::body(dialect, conversation, options, Some(lifetime)).into()
    }

    fn request(&self, body: Bytes, form: Form) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.head.uri.clone();
        *request.headers_mut() = self.head.headers.clone();
        let accept = match form {
            Form::Stream => "text/event-stream",
            Form::Whole => "application/json",
        };
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        request
    }

    async fn ask(
        &self,
        conversation: &Conversation,
        options: &Options,
        on_delta: &mut OnDelta<'_>,
    ) -> Result<Answer, AnswerError> {
        conversation.check()?;
        let body = self.body(conversation, options);
        let mut retries = Vec::new();
        let mut attempts = 0;
        loop {
            let request = self.request(body.clone(), options.form);
            let (failure, usage) = match self.attempt(request, on_delta).await {
                Ok(mut answer) => {
                    answer.settle(conversation);
                    answer.retries = retries;
                    return Ok(answer);
                }
                Err(tried) => (tried.failure, tried.usage),
            };
            attempts += 1;
            let asked = match failure.verdict() {
                Verdict::OutOfBudget => {
                    return Err(AnswerError::OutOfBudget { message: failure.message() });
                }
                Verdict::Refused => return Err(AnswerError::Refused(failure)),
                Verdict::Unusable => return Err(AnswerError::Unusable(failure)),
                Verdict::Again(asked) => asked,
            };
            let Some(wait) = self.retries.wait(attempts, asked) else {
                return Err(AnswerError::GaveUp { attempts, last: failure });
            };
            on_delta(Delta::Again { failure: &failure, wait });
            retries.push(Retry { failure: failure.to_string(), wait, usage });
            self.clock.sleep(wait).await;
        }
    }
}

impl<T: Transport, C: Clock> Provider for Client<T, C> {
    fn name(&self) -> &'static str {
        match self.upstream.dialect {
            Dialect::AnthropicMessages => "anthropic-messages",
            Dialect::OpenAiResponses => "openai-responses",
            Dialect::OpenAiChat => "openai-chat",
        }
    }

    fn written(&self, conversation: &Conversation, options: &Options) -> Vec<u8> {
        wire::body(self.upstream.dialect, conversation, options, None)
    }

    fn answer<'a>(
        &'a self,
        conversation: &'a Conversation,
        options: &'a Options,
        on_delta: &'a mut OnDelta<'_>,
    ) -> Answering<'a> {
        Box::pin(self.ask(conversation, options, on_delta))
    }
}

impl<T, C> fmt::Debug for Client<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("upstream", &self.upstream)
            .field("limits", &self.limits)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}
