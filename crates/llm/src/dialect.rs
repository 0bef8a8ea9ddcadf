//! Which protocol a path speaks.

use serde::{Deserialize, Serialize};

use crate::json::quote;

/// A protocol between a client and a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    AnthropicMessages,
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    #[serde(rename = "openai-chat")]
    OpenAiChat,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An answer of a model.
    Generate,
    /// How long a prompt is; costs nothing.
    CountTokens,
    /// Which models there are.
    Models,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    pub dialect: Dialect,
    pub endpoint: Endpoint,
    /// The only method that is served.
    pub method: &'static str,
}

/// How an upstream wants its credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CredentialForm {
    XApiKey,
    Bearer,
}

impl CredentialForm {
    /// The header's name, and what stands before the credential in it.
    pub fn header(self) -> (&'static str, &'static str) {
        match self {
            Self::XApiKey => ("x-api-key", ""),
            Self::Bearer => ("authorization", "Bearer "),
        }
    }
}

/// Headers of a client that go to the upstream as they are, next to the content's
/// type. Everything else, above all every credential and every header that could
/// choose an account or a proxy, stays here. The answer must not be compressed,
/// or its usage could not be read: ask for `accept-encoding: identity`.
pub const FORWARDED: [&str; 2] = ["anthropic-version", "anthropic-beta"];

impl Route {
    /// Finds the route of a path without its query: clients add `?beta=true`.
    /// `/v1/models` is the same for everyone; who sends `anthropic-version` is
    /// answered as that provider would.
    pub fn find(path: &str, has_anthropic_version: bool) -> Option<Self> {
        use Dialect::{AnthropicMessages, OpenAiChat, OpenAiResponses};
        use Endpoint::{CountTokens, Generate, Models};
        let (dialect, endpoint, method) = match path {
            "/v1/messages" => (AnthropicMessages, Generate, "POST"),
            "/v1/messages/count_tokens" => (AnthropicMessages, CountTokens, "POST"),
            "/v1/responses" => (OpenAiResponses, Generate, "POST"),
            "/v1/chat/completions" => (OpenAiChat, Generate, "POST"),
            "/v1/models" if has_anthropic_version => (AnthropicMessages, Models, "GET"),
            "/v1/models" => (OpenAiChat, Models, "GET"),
            _ => return None,
        };
        Some(Self { dialect, endpoint, method })
    }
}

impl Dialect {
    /// The name in the gateway's configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiChat => "openai-chat",
        }
    }

    /// The path of the endpoint at the upstream.
    pub fn path(self, endpoint: Endpoint) -> Option<&'static str> {
        Some(match (self, endpoint) {
            (Self::AnthropicMessages, Endpoint::Generate) => "/v1/messages",
            (Self::AnthropicMessages, Endpoint::CountTokens) => "/v1/messages/count_tokens",
            (Self::OpenAiResponses, Endpoint::Generate) => "/v1/responses",
            (Self::OpenAiChat, Endpoint::Generate) => "/v1/chat/completions",
            (_, Endpoint::Models) => "/v1/models",
            (_, Endpoint::CountTokens) => return None,
        })
    }

    /// What the provider's own service wants. Its newer libraries send a bearer
    /// token, and the service takes both; a compatible one may not.
    pub fn usual_credential(self) -> CredentialForm {
        match self {
            Self::AnthropicMessages => CredentialForm::XApiKey,
            Self::OpenAiResponses | Self::OpenAiChat => CredentialForm::Bearer,
        }
    }

    /// The name under which the most that may be generated is set, where a client says nothing.
    pub fn max_output_field(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "max_tokens",
            Self::OpenAiResponses => "max_output_tokens",
            Self::OpenAiChat => "max_completion_tokens",
        }
    }

    /// All names under which it is asked for.
    pub fn max_output_fields(self) -> &'static [&'static str] {
        match self {
            Self::AnthropicMessages => &["max_tokens"],
            Self::OpenAiResponses => &["max_output_tokens"],
            Self::OpenAiChat => &["max_completion_tokens", "max_tokens"],
        }
    }

    /// The answer to `/v1/models`: the models a token may use, and no others.
    pub fn models<'a>(self, names: impl IntoIterator<Item = &'a str>) -> String {
        let models: Vec<String> = names
            .into_iter()
            .map(|name| {
                let name = quote(name);
                match self {
                    Self::AnthropicMessages => format!(
                        r#"{{"type":"model","id":{name},"display_name":{name},"created_at":"1970-01-01T00:00:00Z"}}"#
                    ),
                    Self::OpenAiResponses | Self::OpenAiChat => {
                        format!(r#"{{"id":{name},"object":"model","created":0,"owned_by":"belljar"}}"#)
                    }
                }
            })
            .collect();
        let data = models.join(",");
        match self {
            Self::AnthropicMessages => {
                format!(r#"{{"data":[{data}],"has_more":false,"first_id":null,"last_id":null}}"#)
            }
            Self::OpenAiResponses | Self::OpenAiChat => {
                format!(r#"{{"object":"list","data":[{data}]}}"#)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_their_dialects() {
        for (path, want) in [
            ("/v1/messages", Some((Dialect::AnthropicMessages, Endpoint::Generate))),
            (
                "/v1/messages/count_tokens",
                Some((Dialect::AnthropicMessages, Endpoint::CountTokens)),
            ),
            ("/v1/responses", Some((Dialect::OpenAiResponses, Endpoint::Generate))),
            ("/v1/chat/completions", Some((Dialect::OpenAiChat, Endpoint::Generate))),
            ("/v1/models", Some((Dialect::OpenAiChat, Endpoint::Models))),
            ("/v1/messages/", None),
            ("/v1/messages/batches", None),
            ("/v1/responses/compact", None),
            ("/v1/files", None),
            ("/V1/messages", None),
        ] {
            let found = Route::find(path, false);
            assert_eq!(found.map(|route| (route.dialect, route.endpoint)), want, "{path}");
            if let Some(Route { dialect, endpoint, .. }) = found {
                assert_eq!(dialect.path(endpoint), Some(path));
            }
        }
        assert_eq!(Route::find("/v1/models", true).unwrap().dialect, Dialect::AnthropicMessages);
    }

    #[test]
    fn models_are_listed_as_json() {
        for dialect in [Dialect::AnthropicMessages, Dialect::OpenAiChat] {
            let list: serde_json::Value =
                serde_json::from_str(&dialect.models(["a\"b", "c"])).unwrap();
            assert_eq!(list["data"][0]["id"], "a\"b");
            assert_eq!(list["data"].as_array().unwrap().len(), 2);
        }
    }
}
